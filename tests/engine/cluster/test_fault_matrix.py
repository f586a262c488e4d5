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
import time

import dask
import pytest

from dranking.engine.cluster import stuck_workers
from dranking.errors import TryAgainError
from pipelines.benchmarks.clusters.faults import GATHER, FaultInjector, wait_for_workers
from tests.engine.faults import exhaust, kill, pids, restart, scheduler_process, stop

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
def soon(monkeypatch):
    """A worker is given up after two seconds."""
    monkeypatch.setattr(stuck_workers, "HEARTBEATS", 2)
    with dask.config.set({"dranking.worker-seconds": 2}):
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


async def burn():
    """Hold Python's lock without a pause, so that the worker sends no heartbeat."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        pass


@pytest.mark.usefixtures("soon")
def test_a_worker_that_is_silent_but_works_is_not_given_up(cluster_and_client):
    """For example a worker that compiles, or loads libraries from slow storage."""
    cluster, client = cluster_and_client
    wait_for_workers(client, 2)
    before = pids(cluster)
    executor = FaultInjector(client, {})
    client.run(burn, wait=False)
    assert executor.gather([executor.submit(abs, -5, name="abs")]) == [5]
    assert pids(cluster) == before


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
