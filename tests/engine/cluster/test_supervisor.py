"""What users are told about workers that leave, and workers whose memory stays full."""

import logging
import time

import dask
import pytest

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.starting.deploy import quiet
from dranking.engine.cluster.supervisor import lost_workers
from pipelines.benchmarks.clusters.faults import started, wait_for_workers
from tests.engine.faults import pids


def test_losses_are_said_with_how_many_are_left():
    names = [f"w{n} on 10.0.0.{n}" for n in range(1, 13)]
    assert lost_workers(names[:2], 3) == (
        "Workers lost (2): w1 on 10.0.0.1, w2 on 10.0.0.2. "
        "The job goes on with 3, and does the lost work again."
    )
    assert "w10 on 10.0.0.10 and 2 more. The job waits 300 s" in lost_workers(names, 0)


def fill(dask_worker):
    """Make the worker count its memory as full."""
    dask_worker.memory_manager.memory_pause_fraction = 1e-6


def gather_beside_a_full_worker(client):
    """Dask pauses a worker whose memory is full, and leaves it the tasks that it has not begun."""
    wait_for_workers(client, 2)
    executor = DaskExecutor(client)
    tasks = [executor.submit(triple_late, n, name="triple", slot=n % 2) for n in range(10)]
    executor.start()
    while not (busy := [address for address, keys in client.processing().items() if keys]):
        time.sleep(0.01)
    client.run(fill, workers=busy[:1])
    with dask.config.set({"dranking.worker-seconds": 1, "dranking.task-seconds": 20}):
        assert executor.gather(tasks) == [3 * n for n in range(10)]


@pytest.mark.cluster
def test_a_worker_whose_memory_stays_full_is_restarted(cluster_and_client, caplog):
    cluster, client = cluster_and_client
    before = pids(cluster)
    gather_beside_a_full_worker(client)
    assert len(before & pids(cluster)) == 1
    assert "is restarted: its memory is full" in caplog.text


@pytest.mark.cluster
def test_a_worker_without_a_nanny_whose_memory_stays_full_is_ended(caplog):
    # The workers share the memory of this process, which earlier tests may have filled to 2 GiB.
    with started(processes=False, protocol="tcp://", memory_limit="64GiB") as (_, client):
        gather_beside_a_full_worker(client)
        assert len(client.scheduler_info()["workers"]) == 1
    assert "is ended, and has no nanny: its memory is full" in caplog.text


def triple(x):
    return 3 * x


def triple_late(x):
    time.sleep(0.3)
    return triple(x)


@pytest.mark.cluster
def test_a_cluster_that_adapts_from_no_workers_begins(tmp_path):
    script = tmp_path / "adaptive.py"
    script.write_text(
        "from distributed import LocalCluster\n"
        "def make_cluster(options):\n"
        "    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=':0')\n"
        "    cluster.adapt(minimum=0, maximum=2, interval='100ms')\n"
        "    return cluster\n"
    )
    with open_executor(str(script), {"timeout": "30s"}) as executor:
        assert executor.gather([executor.submit(triple, 5, name="triple")]) == [15]


def test_dasks_own_messages_are_silent_unless_its_configuration_names_them():
    logger = logging.getLogger("distributed.scheduler")
    with quiet():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.isEnabledFor(logging.ERROR)
    with dask.config.set({"logging": {"distributed": "info"}}), quiet():
        assert logger.isEnabledFor(logging.ERROR)
