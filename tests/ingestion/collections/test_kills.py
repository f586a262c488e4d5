"""Dask collections whose workers are killed and stopped amid scan, exchange, shuffle and fit."""

import os
import signal
from contextlib import suppress
from functools import partial

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.errors import TryAgainError
from dranking.ingestion.collections import assembly
from pipelines.benchmarks.clusters.faults import FaultInjector, random_kills, signal_worker
from tests.engine.faults import silent_workers_dropped_after

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.exhaustive,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
]

N, N_QUERIES, N_PARTITIONS = 12_000, 300, 12


def frame():
    """Rows of 300 queries in any order; grades are a sum of two features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 6)).astype(np.float32)
    rows = pd.DataFrame(X, columns=list("abcdef"))
    rows["qid"] = rng.integers(0, N_QUERIES, N)
    rows["relevance"] = 2.0 * rows["b"] - rows["e"]
    return rows


@pytest.fixture
def many_tasks(monkeypatch, cluster_and_client):
    """Blocks brought together one by one, and workers dropped after six seconds of silence."""
    monkeypatch.setattr(assembly, "GROUP_BLOCKS", 1)
    with (
        silent_workers_dropped_after(cluster_and_client[0], 6),
        dask.config.set({"dranking.lost-workers": 100}),
    ):
        yield


@pytest.mark.parametrize("order", ["adjacent", "any order"])
def test_ten_workers_are_killed_and_two_stopped_amid_a_fit(many_tasks, cluster_and_client, order):
    """Scan, exchange, blocks and rounds; the model and its held-out scores are those of threads."""
    cluster, client = cluster_and_client
    rows = frame() if order == "any order" else frame().sort_values("qid", kind="stable")
    ddf = dd.from_pandas(rows, npartitions=N_PARTITIONS, sort=False)

    def job(executor):
        ranker = dr.GreedyRankRLS(4).fit(ddf, executor=executor)
        scores = dr.leave_query_out_scores(ranker, ddf, executor=executor)
        return ranker.coef_.tobytes(), scores

    coef, scores = job("threads")
    expected = scores.compute(scheduler="threads")
    counted = FaultInjector(client, {})
    assert job(counted)[0] == coef
    rng = np.random.default_rng(3)
    at = np.sort(rng.choice(np.arange(2, counted.submitted[None]), 12, replace=False)).tolist()
    faults, killed = random_kills(cluster, client, rng, at[:10])
    for task in at[10:]:
        faults[None, task] = partial(
            signal_worker, cluster, client, int(rng.integers(2)), signal.SIGSTOP
        )
    executor = FaultInjector(client, faults)
    found, scores = job(executor)
    assert not executor.faults
    assert len(killed) == 10
    assert found == coef
    pd.testing.assert_series_equal(client.compute(scores).result(), expected, check_exact=True)


def once(rows, folder, partition_info=None):
    """The rows; for some partitions, the worker dies when it first computes them."""
    number = partition_info["number"]
    if number % 2 == 0:
        try:
            os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return rows
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


@pytest.mark.parametrize("side", ["before", "behind"])
def test_workers_die_amid_the_p2p_shuffle_of_a_source(
    many_tasks, cluster_and_client, tmp_path, side
):
    """Six workers die on one side of Dask's shuffle: the right model, or an error to try again.

    Dask restarts the whole shuffle with each of them, and its rows come in another order.
    """
    _, client = cluster_and_client
    rows = frame()
    expected = dr.RankRLS(1e-3).fit(rows.sort_values("qid", kind="stable")).coef_
    die = partial(once, folder=tmp_path)
    ddf = dd.from_pandas(rows, npartitions=N_PARTITIONS, sort=False)
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        if side == "before":
            ddf = ddf.map_partitions(die, meta=rows.iloc[:0])
        ddf = ddf.shuffle("qid")
        if side == "behind":
            ddf = ddf.map_partitions(die, meta=rows.iloc[:0])
        found = None
        with suppress(TryAgainError):
            found = dr.RankRLS(1e-3).fit(ddf, executor=client)
    if found is not None:
        np.testing.assert_allclose(found.coef_, expected, rtol=1e-6, atol=1e-6)
        assert len(list(tmp_path.iterdir())) == N_PARTITIONS // 2
