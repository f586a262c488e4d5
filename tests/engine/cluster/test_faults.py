"""Faults of workers and schedulers beyond those of the fault matrix."""

import os
import signal
import time

import dask
import numpy as np
import pytest

import dranking as dr
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.executor import ThreadExecutor
from dranking.errors import TryAgainError
from dranking.rankrls.gram.rows import GramRows
from pipelines.benchmarks.clusters.faults import (
    FaultInjector,
    random_kills,
    signal_worker,
    started,
    wait_for_workers,
)
from tests.engine.faults import scheduler_process, silent_workers_dropped_after
from tests.models.problems import random_problem
from tests.rankrls.greedy.wrong_upcoming import WrongPredictor

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.exhaustive,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
]

SOON = {"dranking.worker-seconds": 4, "dranking.scheduler-seconds": 3}
"""Deadlines that tests can wait for."""


@pytest.mark.slow
def test_feature_blocks_outlive_a_worker(tmp_path, cluster_and_client):
    """Tiles prefer a worker. When that is killed, they and their results move elsewhere."""
    data = random_problem(2, n_queries=60, n_features=12).dataset(max_documents=40)
    stored = dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d")
    expected = dr.GreedyRankRLS(5, 2.0).fit(stored, executor=ThreadExecutor(2))
    cluster, client = cluster_and_client
    executor = FaultInjector(client, {("announce", 3): lambda: signal_worker(cluster, client)})
    found = dr.GreedyRankRLS(5, 2.0, passes=dr.Passes(feature_blocks=3)).fit(
        stored, executor=executor
    )
    assert not executor.faults
    assert found.selected_ == expected.selected_
    np.testing.assert_array_equal(found.lqo_error_, expected.lqo_error_)


@pytest.mark.slow
def test_rows_that_made_way_for_others_are_computed_again(
    tmp_path, monkeypatch, cluster_and_client
):
    """A worker is killed once rows of selected features have replaced other rows."""
    problem = random_problem(2, n_queries=120, n_features=30, zeros=0.5)
    noise = np.random.default_rng(0).normal(size=problem.X.shape)
    X = np.hstack([problem.X, problem.X + 0.3 * noise]).astype(np.float32)
    blocks = problem._replace(X=X).dataset(max_documents=40)
    stored = dr.write_dataset((blocks.block(b) for b in range(blocks.n_blocks)), tmp_path / "d")
    ranker = dr.GreedyRankRLS(10, 2.0, passes=dr.Passes(prefetch=12))
    expected = ranker.fit(stored, executor=ThreadExecutor(2)).coef_
    fetch, fetched = GramRows.fetch, []

    def fetch_and_lose_a_worker(rows, features):
        fetch(rows, features)
        fetched.extend(features)
        if rows.capacity - rows.n_free < len(fetched):
            signal_worker(*cluster_and_client)
            monkeypatch.undo()

    monkeypatch.setattr(
        "dranking.rankrls.greedy.forward.PickPredictor", WrongPredictor
    )  # so that some make way
    monkeypatch.setattr(GramRows, "fetch", fetch_and_lose_a_worker)
    found = ranker.fit(stored, executor=cluster_and_client[1])
    np.testing.assert_array_equal(found.coef_, expected)
    assert GramRows.fetch is fetch  # it did happen


def test_the_first_worker_leaves_and_another_joins(all_jobs, undisturbed):
    job = all_jobs["greedy"]
    with started(1) as (cluster, client):

        def retire_the_first():
            wait_for_workers(client, 2)
            first = min(cluster.workers)
            client.retire_workers([cluster.workers[first].worker_address])

        faults = {("update", 1): lambda: cluster.scale(2), ("update", 5): retire_the_first}
        assert job.run(FaultInjector(client, faults)) == undisturbed("greedy").bits


@pytest.mark.parametrize("name", ["greedy", "lcra"])
def test_random_kills(name, all_jobs, undisturbed, cluster_and_client):
    cluster, client = cluster_and_client
    rng = np.random.default_rng(0)
    faults, killed = random_kills(cluster, client, rng, rng.choice(15, 3, replace=False) + 3)
    assert all_jobs[name].run(FaultInjector(client, faults)) == undisturbed(name).bits
    assert len(killed) == 3


def hoard(n_bytes):
    return len(np.ones(n_bytes // 8))


def give_up_at_once(client):
    """Have Dask give up a task after the first death of a worker, instead of the fourth."""
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))


def test_a_task_without_enough_memory_is_told_so():
    with started(1, memory_limit="400MB") as (_, client):
        give_up_at_once(client)
        executor = FaultInjector(client, {})
        with pytest.raises(TryAgainError, match="'hoard', the last for lack of memory: its limit"):
            executor.gather([executor.submit(hoard, 2 * 10**9, name="hoard")])


def hold_lock(n):
    """One call of native code, which lets no other thread of the worker run."""
    return sum(range(n))


def test_a_task_that_keeps_its_worker_from_sending_heartbeats_is_told():
    told = r"1 workers died while running 'hold', .* it sent no heartbeat for 1 s\. .*Python's lock"
    with started(1) as (cluster, client), silent_workers_dropped_after(cluster, 1):
        give_up_at_once(client)
        executor = FaultInjector(client, {})
        with pytest.raises(TryAgainError, match=told):
            executor.gather([executor.submit(hold_lock, 10**10, name="hold")])


def die(times, folder):
    deaths = len(os.listdir(folder))
    if deaths < times:
        (folder / str(deaths)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return deaths


def test_a_task_is_tried_until_so_many_workers_died(tmp_path):
    with started() as (_, client):
        give_up_at_once(client)
        executor = FaultInjector(client, {})
        assert executor.gather([executor.submit(die, 2, tmp_path, name="die")]) == [2]
        with (
            dask.config.set({"dranking.lost-workers": 1}),
            pytest.raises(TryAgainError, match=r"2 workers died while running 'die' \(dranking.lo"),
        ):
            executor.gather([executor.submit(die, 99, tmp_path, name="die")])


def test_a_scheduler_that_hangs_is_told(all_jobs, tmp_path):
    """The client of the scheduler also closes without waiting for it."""
    job = all_jobs["greedy"]
    with scheduler_process(tmp_path) as (scheduler, client), dask.config.set(SOON):
        stop = lambda: scheduler.send_signal(signal.SIGSTOP)  # noqa: E731
        with (
            pytest.raises(TryAgainError, match="has not answered for 3 s"),
            open_executor(client.scheduler.address) as executor,
        ):
            job.run(FaultInjector(executor.client, {("update", 4): stop}))


def test_a_cluster_that_loses_all_workers_is_told(all_jobs):
    with started(1, processes=False, protocol="tcp://") as (cluster, client):
        soon = {**SOON, "dranking.no-workers-seconds": 1}
        job = all_jobs["greedy"]
        leave = lambda: cluster.sync(cluster.workers[0].close)  # noqa: E731
        executor = FaultInjector(client, {("update", 4): leave})
        with dask.config.set(soon), pytest.raises(TryAgainError, match="has had no worker for"):
            job.run(executor)


def test_inputs_that_a_restart_dropped_are_told(cluster_and_client):
    client = cluster_and_client[1]
    persisted = client.submit(int, 7, pure=False)
    assert persisted.result() == 7
    client.restart()
    executor = FaultInjector(client, {})
    with pytest.raises(TryAgainError, match=r"restart of the cluster drops them.*persist it anew"):
        executor.gather([executor.submit(abs, persisted, name="abs")])
    assert executor.gather([executor.submit(abs, -7, name="abs")]) == [7]


def wait_for(event):
    time.sleep(30)


def test_a_job_that_makes_no_progress_is_told(cluster_and_client):
    executor = FaultInjector(cluster_and_client[1], {})
    soon = {"dranking.worker-seconds": 1, "dranking.task-seconds": 0.5}
    task = executor.submit(wait_for, None, name="wait")
    with dask.config.set(soon), pytest.raises(TryAgainError, match="none of 1 tasks"):
        executor.gather([task])
    signal_worker(*cluster_and_client)
    signal_worker(*cluster_and_client, number=1)
