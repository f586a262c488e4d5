"""The driver's memory when a ranker is fitted to a dask DataFrame on workers; see `lake`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dranking as dr
from dranking.errors import SelectionWarning
from pipelines.benchmarks.harness import Figure, figure, peak_memory

N_FEATURES = 136
ROWS = 65_000
"""Rows of a partition; queries of 90 rows cross the borders of partitions."""

MEGABYTE = 10**6
GREEDY = dr.GreedyRankRLS(5)


def driver_memory(n_bytes: int) -> Iterator[Figure]:
    """Peaks of the driver's memory for raw features of so many bytes, and of four times as many."""
    peaks = []
    for size in (n_bytes, 4 * n_bytes):
        peaks.append(peak_of_fit(size) / MEGABYTE)
        name = f"driver's peak, fit of a dask DataFrame of {size / 10**9:g} GB"
        yield figure(name, peaks[-1], "MB", at_most=300)
    growth = (peaks[1] - peaks[0]) / (3 * n_bytes / MEGABYTE)
    yield figure("driver's peak: growth per byte of the data", growth, "")


def peak_of_fit(n_bytes: int, n_rows: int = ROWS, ranker: Any = GREEDY) -> int:
    """Peak memory in bytes, above that of the idle process, of a fit in a process of its own.

    Parameters
    ----------
    n_bytes
        Bytes of the raw features, as float32.
    n_rows
        Rows of a partition.
    ranker
        The ranker to fit.
    """
    n_partitions = max(2, round(n_bytes / (4 * N_FEATURES * n_rows)))
    load = partial(cluster_of_workers, ranker)
    return peak_memory(load, partial(fit, ranker, n_partitions, n_rows))


def cluster_of_workers(ranker: Any) -> Any:
    """Two worker processes, which have done a small fit, and their client."""
    from distributed import Client

    from dranking.engine.cluster.starting.deploy import local_cluster

    context = local_cluster({"n_workers": 2, "memory_limit": "8GiB"})
    client = Client(context.__enter__(), set_as_default=False)
    fit(ranker, 2, 1_000, (context, client), close=False)
    return context, client


def fit(ranker: Any, n_partitions: int, n_rows: int, cluster: Any, *, close: bool = True) -> None:
    """Fit a ranker to a made frame, whose partitions the workers make; then end the cluster."""
    context, client = cluster
    warnings.simplefilter("ignore", SelectionWarning)
    ranker.fit(made_frame(n_partitions, n_rows), executor=client)
    if close:
        client.close()
        context.__exit__(None, None, None)


def made_frame(n_partitions: int, n_rows: int) -> Any:
    """A lazy dask DataFrame with columns `qid`, `relevance` and float32 features."""
    import dask.dataframe as dd

    meta = made_partition(0, 1).iloc[:0]
    return dd.from_map(partial(made_partition, n_rows=n_rows), range(n_partitions), meta=meta)


def made_partition(number: int, n_rows: int) -> Any:
    """One partition: random features, and grades that depend on three of them."""
    import pandas as pd

    values = np.random.default_rng(number).random((n_rows, N_FEATURES), dtype=np.float32)
    frame = pd.DataFrame(values, columns=[f"x{i}" for i in range(N_FEATURES)])
    grades = np.digitize(values[:, :3].sum(axis=1), [1.2, 1.6, 2.0]).astype(np.float64)
    qid = (number * n_rows + np.arange(n_rows)) // 90
    return pd.concat([pd.DataFrame({"qid": qid, "relevance": grades}), frame], axis=1)
