"""Helpers of the topics: data in the temporary folder, worker processes, timed selections."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.cluster.starting.deploy import local_cluster
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import QueryMoments
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from pipelines.benchmarks.made import made_blocks

QUERY_SIZE = 50
WORKERS = 2
UNLIMITED = 0
"""No memory limit. Workers with a limit would write to disk what the plan keeps in memory."""


@contextmanager
def made(
    shapes: Sequence[tuple[int, int]], query_size: int = QUERY_SIZE
) -> Iterator[list[Dataset]]:
    """Stored data sets with the shapes (n_documents, n_features), made block by block.

    Raises
    ------
    OSError
        If the temporary folder has too little space.
    """
    n_bytes = 4 * sum(m * n for m, n in shapes)
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 1.5 * n_bytes:
            raise OSError(
                f"{folder} has less space than the {1.5 * n_bytes / 1e9:.0f} GB needed; set TMPDIR"
            )
        yield [
            dr.write_dataset(made_blocks(m, n, query_size), Path(folder, f"{m}x{n}"))
            for m, n in shapes
        ]


@contextmanager
def worker_processes(
    n_workers: int, memory_limit: int | str = UNLIMITED, *, pinned: bool = False
) -> Iterator[Any]:
    """A client of worker processes on this machine, each with one thread.

    If `pinned`, each worker has one core, as on a cluster that gives each worker one core.
    Otherwise a worker reads its next block on any idle core.
    """
    from distributed import Client

    options = {"n_workers": n_workers, "memory_limit": memory_limit}
    with local_cluster(options) as cluster, Client(cluster, set_as_default=False) as client:
        if pinned:
            for core, address in zip(cores(), client.nthreads(), strict=False):
                client.run(os.sched_setaffinity, 0, [core], workers=[address])
        yield client


def cores() -> list[int]:
    """The cores to which workers can be pinned; none if the system cannot pin processes."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def select(
    k: int, dataset: Dataset, executor: Any, memory_limit: int | None = None, **rules: Any
) -> Selection:
    """A selection of k features with lambda 1."""
    return select_paths(
        dataset, [1.0], SelectionRules(k, **rules), memory_limit=memory_limit, executor=executor
    )


class Clock:
    """A stopwatch for selections that starts when their data is in memory."""

    def __init__(self) -> None:
        self.started = 0.0

    def seconds(
        self, k: int, dataset: Dataset, executor: Any, memory_limit: int | None = None
    ) -> tuple[float, Selection]:
        """Seconds of a selection since all tiles were in memory, and the selection."""
        clock = self

        class LoadedBefore(QueryMoments):
            def __init__(self, tiles: Tiles) -> None:
                tiles.gather(tiles.map_blocks(nothing, name="loaded"))
                tiles.traffic.clear()
                clock.started = time.perf_counter()
                super().__init__(tiles)

        with mock.patch("dranking.rankrls.leave_query_out.dense.QueryMoments", LoadedBefore):
            selection = select(k, dataset, executor, memory_limit)
        return time.perf_counter() - self.started, selection


def nothing(_: Any) -> None:
    """Do nothing with a block, which loads the block."""


def same_bits(one: Selection, other: Selection) -> bool:
    """Whether two selections of one path have the same bits."""
    [a], [b] = one.paths, other.paths
    return (a.selected, a.lqo_error) == (b.selected, b.lqo_error) and all(
        (u == v).all() for u, v in zip(a.weights, b.weights, strict=True)
    )


def executor_of(client: Any) -> Executor:
    """The executor over the workers of a client."""
    return get_executor(client)
