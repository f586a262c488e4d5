"""What the topics share: data in the temporary folder, worker processes, selections timed."""

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
from dranking.engine.cluster.deploy import local_cluster
from dranking.engine.executor import Executor, get_executor
from dranking.engine.tiles import Tiles
from dranking.rankers.gram.rows import QueryMoments
from dranking.rankers.greedy.path import Selection, SelectionRules
from dranking.rankers.greedy.selection import select_paths
from pipelines.benchmarks.made import made_blocks

QUERY_SIZE = 50
WORKERS = 2
UNLIMITED = 0
"""Workers that limit themselves would write to disk what the plan has room for."""


@contextmanager
def made(
    shapes: Sequence[tuple[int, int]], query_size: int = QUERY_SIZE
) -> Iterator[list[Dataset]]:
    """Dataset directories of so many documents x features, made block by block.

    Raises
    ------
    OSError
        If the temporary folder has not the room.
    """
    n_bytes = 4 * sum(m * n for m, n in shapes)
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 1.5 * n_bytes:
            raise OSError(f"{folder} has not the {1.5 * n_bytes / 1e9:.0f} GB it takes; set TMPDIR")
        yield [
            dr.write_dataset(made_blocks(m, n, query_size), Path(folder, f"{m}x{n}"))
            for m, n in shapes
        ]


@contextmanager
def worker_processes(
    n_workers: int, memory_limit: int | str = UNLIMITED, *, pinned: bool = False
) -> Iterator[Any]:
    """A client of worker processes of one thread each, on this machine.

    Pinned, each has one core, as a worker to which a cluster gives one core: otherwise one reads
    its next block on whatever core is idle.
    """
    from distributed import Client

    options = {"n_workers": n_workers, "memory_limit": memory_limit}
    with local_cluster(options) as cluster, Client(cluster, set_as_default=False) as client:
        if pinned:
            for core, address in zip(cores(), client.nthreads(), strict=False):
                client.run(os.sched_setaffinity, 0, [core], workers=[address])
        yield client


def cores() -> list[int]:
    """The cores that workers can be pinned to: none where the system does not pin."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def select(
    k: int, dataset: Dataset, executor: Any, memory_limit: int | None = None, **rules: Any
) -> Selection:
    """A selection, lambda 1."""
    return select_paths(
        dataset, [1.0], SelectionRules(k, **rules), memory_limit=memory_limit, executor=executor
    )


class Clock:
    """Seconds of selections once their data is loaded."""

    def __init__(self) -> None:
        self.started = 0.0

    def seconds(
        self, k: int, dataset: Dataset, executor: Any, memory_limit: int | None = None
    ) -> tuple[float, Selection]:
        """Of a selection, from when all tiles are in memory."""
        clock = self

        class LoadedBefore(QueryMoments):
            def __init__(self, tiles: Tiles) -> None:
                tiles.gather(tiles.map_blocks(nothing, name="loaded"))
                tiles.traffic.clear()
                clock.started = time.perf_counter()
                super().__init__(tiles)

        with mock.patch("dranking.rankers.leave_query_out.dense.QueryMoments", LoadedBefore):
            selection = select(k, dataset, executor, memory_limit)
        return time.perf_counter() - self.started, selection


def nothing(_: Any) -> None:
    """Take a block."""


def same_bits(one: Selection, other: Selection) -> bool:
    """Whether two selections of one path are the same in every bit."""
    [a], [b] = one.paths, other.paths
    return (a.selected, a.lqo_error) == (b.selected, b.lqo_error) and all(
        (u == v).all() for u, v in zip(a.weights, b.weights, strict=True)
    )


def executor_of(client: Any) -> Executor:
    """The executor over a client's workers."""
    return get_executor(client)
