"""Every job under every fault of a cluster: the bits are those without faults, and waits end.

|            | killed | stopped | restarted | memory | joined, left | scheduler lost |
|------------|--------|---------|-----------|--------|--------------|----------------|
| greedy     | **x**  | x       | x         | x      | x            | x, resumed     |
| ranksvm    | x      | x       | x         | x      | x            | x              |
| spd        | x      | x       | x         | x      | x            | x, resumed     |
| lcra       | x      | x       | x         | x      | x            | x, resumed     |
| bilinear   | x      | x       | x         | x      | x            | x, resumed     |
| max-margin | x      | x       | x         | x      | x            | x, resumed     |
| evaluate   | **x**  | x       | x         | x      | x            | x              |
| collection | x      | x       | x         | x      | x            | x              |
| scattered  | **x**  | x       | x         | x      | x            | x              |
| its greedy | x      | x       | x         | x      | x            | x              |

Bold cells are part of every run, the others of `pytest -m exhaustive`. The fault hits the worker
that holds most data, so the job needs what that worker held. Collections are dask DataFrames, with
the rows of queries adjacent or scattered, or with a greedy selection behind. Jobs without a
checkpoint start again after a lost scheduler.
"""

import itertools
import subprocess
import sys
import time

import pytest

from dranking.engine.cluster.open_executor import open_executor
from dranking.errors import TryAgainError
from pipelines.benchmarks.clusters.faults import GATHER, FaultInjector, wait_for_workers
from tests.engine.faults import (
    exhaust,
    kill,
    pids,
    restart,
    scheduler_process,
    silent_workers_dropped_after,
    stop,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
]

JOBS = ["greedy", "ranksvm", "spd", "lcra", "bilinear", "max-margin", "evaluate"]
JOBS += ["collection", "scattered", "collection-greedy"]
DEEDS = {"killed": kill, "stopped": stop, "restarted": restart, "memory": exhaust}
ALWAYS = [
    ("greedy", "killed"),
    ("greedy", "stopped"),
    ("evaluate", "killed"),
    ("scattered", "killed"),
]


def cells(faults):
    """Jobs times faults, most of them for exhaustive runs only."""
    return [
        pytest.param(*cell, marks=() if cell in ALWAYS else pytest.mark.exhaustive)
        for cell in itertools.product(JOBS, faults)
    ]


@pytest.fixture
def soon(cluster_and_client):
    """A worker is dropped after five seconds without a heartbeat."""
    with silent_workers_dropped_after(cluster_and_client[0], 5):
        yield


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("name", "fault"), cells(DEEDS))
def test_a_worker_is_lost(name, fault, all_jobs, undisturbed, cluster_and_client):
    cluster, client = cluster_and_client
    wait_for_workers(client, 2)
    before, job = pids(cluster), all_jobs[name]
    executor = FaultInjector(client, {(job.task, 4): lambda: DEEDS[fault](cluster, client)})
    assert job.run(executor) == undisturbed(name).bits
    assert not executor.faults
    wait_for_workers(client, 2)
    assert len(before & pids(cluster)) == 1


def burn(seconds):
    """Hold Python's lock, but for the moments in which Python hands it on."""
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        n += 1
    return min(n, 1)


def keeps_busy_workers(client, seconds):
    """Each worker is at work for some seconds on cores that others load; no worker is dropped."""
    wait_for_workers(client, 2)
    before = set(client.scheduler_info()["workers"])
    executor = FaultInjector(client, {})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        tasks = [executor.submit(burn, seconds, name="burn", slot=slot) for slot in (0, 1)]
        assert executor.gather(tasks) == [1, 1]
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert set(client.scheduler_info()["workers"]) == before


@pytest.mark.usefixtures("soon")
def test_a_busy_worker_is_not_dropped(cluster_and_client):
    keeps_busy_workers(cluster_and_client[1], 7)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["killed", "stopped", "busy"])
def test_clusters_of_the_default_configuration(fault, all_jobs, undisturbed):
    with open_executor("local", {"n_workers": 2, "memory_limit": "2GiB"}) as executor:
        client, job = executor.client, all_jobs["greedy"]
        if fault == "busy":
            keeps_busy_workers(client, 130)  # the scheduler looks once a minute
        else:
            deed = lambda: DEEDS[fault](client.cluster, client)  # noqa: E731
            assert (
                job.run(FaultInjector(client, {(job.task, 4): deed})) == undisturbed("greedy").bits
            )


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", JOBS)
def test_a_worker_joins_and_leaves(name, all_jobs, undisturbed, cluster_and_client):
    """The worker that leaves holds results that were computed since it joined."""
    cluster, client = cluster_and_client

    def join():
        cluster.scale(3)
        wait_for_workers(client, 3)

    job = all_jobs[name]
    executor = FaultInjector(client, {(job.task, 2): join, (job.task, 7): lambda: cluster.scale(2)})
    assert job.run(executor) == undisturbed(name).bits
    assert not executor.faults


@pytest.mark.parametrize(("name", "_"), cells(["lost"]))
def test_the_scheduler_is_lost(name, _, all_jobs, undisturbed, tmp_path, cluster_and_client):
    """The error has the exit code for trying again; jobs with a checkpoint go on from it."""
    job = all_jobs[name]
    arguments = [tmp_path / "checkpoint"] if job.resumes else []
    with scheduler_process(tmp_path) as (scheduler, client):
        executor = FaultInjector(client, {(job.task, 8): scheduler.kill})
        with pytest.raises(TryAgainError, match=r"scheduler at tcp://.* was lost") as raised:
            job.run(executor, *arguments)
    assert raised.value.exit_code == 75
    again = FaultInjector(cluster_and_client[1], {})
    assert job.run(again, *arguments) == undisturbed(name).bits
    if job.resumes:
        assert again.submitted[GATHER] < undisturbed(name).submitted[GATHER]
