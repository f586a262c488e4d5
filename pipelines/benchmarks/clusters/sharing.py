"""Passes over X from storage, on one worker and on two; each worker process has one core."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from dranking.data.dataset import Dataset
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import QueryMoments
from dranking.rankrls.gram.rows import GramRows
from pipelines.benchmarks.clusters.runs import cores, executor_of, made, worker_processes
from pipelines.benchmarks.harness import Figure, figure, interleaved, skipped

N_FEATURES = 136
DOCUMENTS, QUICK_DOCUMENTS = 4_000_000, 100_000
"""So many documents that a pass takes seconds, and the time to start its tasks does not matter."""
ROWS = tuple(range(8))
AT_LEAST = 1.7


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """The figure of two workers against one."""
    size = (QUICK_DOCUMENTS if quick else DOCUMENTS, N_FEATURES)
    name = (
        f"passes of {len(ROWS)} rows a second from storage, {size[0]:,} x {N_FEATURES}, "
        "two workers over one"
    )
    if len(cores()) < 2:
        return {name: skipped(name, "x", "it takes two cores to pin", target=AT_LEAST)}
    try:
        with made([size]) as [data]:
            return {name: figure(name, ratio(data, rounds), "x", at_least=AT_LEAST)}
    except OSError as error:
        return {name: skipped(name, "x", str(error), target=AT_LEAST)}


def ratio(data: Dataset, rounds: int) -> Any:
    """How many times faster two workers are than one."""
    with ExitStack() as stack:
        passes: dict[str, Callable[[], None]] = {}
        for n_workers in (1, 2):
            client = stack.enter_context(worker_processes(n_workers, pinned=True))
            passes[str(n_workers)] = partial(one_pass, rows_from_storage(data, client))
        seconds = interleaved(passes, rounds)
    return seconds["1"] / seconds["2"]


def rows_from_storage(data: Dataset, client: Any) -> GramRows:
    """Gram rows, each pass of which reads all data from storage."""
    tiles = Tiles(data, executor_of(client), resident=False)
    return GramRows(tiles, QueryMoments(tiles), len(ROWS), keep=False)


def one_pass(rows: GramRows) -> None:
    """Fetch Gram rows in one pass, and drop the rows."""
    rows.fetch(ROWS)
    rows.drop(ROWS)
