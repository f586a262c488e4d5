"""The driver's memory of an ingest of rows in any order: the topic "bookkeeping" of `lake`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dranking.data.regrouping.layout import QUERY, SAMPLE, Summary, plan_segments
from dranking.ingestion.exchange_rows import Exchange, exchange_rows
from dranking.ingestion.order_rows import queries_in_order, scan_queries
from dranking.ingestion.rows.exchange_tasks import FILES_OF_RANGE, BucketFiles
from dranking.ingestion.rows.scan import N_BINS
from dranking.ingestion.segment_memory import TaskMemory
from pipelines.benchmarks.harness import Figure, figure, peak_memory
from pipelines.forecast import Sketch
from pipelines.pass_costs import IngestSizes, row_bytes

MEMORY = 16 * 10**9
"""Bytes of each worker."""

HEAD = 1_000
"""Bytes of the schema in each made file."""


class MadeRows:
    """Rows of which only numbers are there; the rows of a query are spread over all of them."""

    def __init__(self, sizes: IngestSizes) -> None:
        self.n_rows = sizes.data.n_documents
        self.row_bytes = row_bytes(sizes.data)
        step = self.n_rows // sizes.n_ranges
        self.borders = (*range(0, self.n_rows - step + 1, step), self.n_rows)


class MadeAnswers:
    """An executor whose tasks do nothing, and whose results are of the sizes of real ones.

    Parameters
    ----------
    sizes
        The data, and the number of workers.

    Attributes
    ----------
    n_tasks
        Tasks so far, by name.
    """

    in_process = False
    memory_limit: int | None = None

    def __init__(self, sizes: IngestSizes) -> None:
        self.sizes, self.n_slots = sizes, sizes.n_workers
        self.memory_bytes = MEMORY * self.n_slots
        self.n_tasks: Counter[str] = Counter()

    def rooms(self, held: Callable[[], int]) -> list[Any]:
        """No process has a limit of its own."""
        return []

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: Any = None
    ) -> Any:
        """Note the task with its arguments; they stay until it is gathered."""
        self.n_tasks[name] += 1
        return partial(getattr(self, f"_{name}"), *args)

    def gather(self, tasks: Sequence[Any]) -> list[Any]:
        """Make the results."""
        return [task() for task in tasks]

    def cancel(self, tasks: Sequence[Any]) -> None:
        """Nothing runs."""

    def _cuts(self, cuts: Any) -> Any:
        return cuts

    def _scan(self, *args: Any) -> Any:
        return np.arange(N_BINS + 1) * (self.sizes.n_lines // self.sizes.n_ranges // N_BINS)

    def _reduce(self, scratch: Any, number: int, lines: Any) -> Any:
        n_queries = -(-self.sizes.data.n_queries // self.sizes.n_partitions)
        first = number + self.sizes.n_partitions * np.arange(0, n_queries, SAMPLE)
        return Summary(n_queries, first, n_queries, 1)

    def _order(self, scratch: Any, rows: Any) -> Any:
        data = self.sizes.data
        queries = np.empty(min(rows.high, data.n_queries) - rows.low, QUERY)
        queries["first"] = np.arange(rows.low, rows.low + len(queries))
        queries["rows"] = data.n_documents // data.n_queries
        return queries

    def _answer(self, scratch: Any, number: int, lines: Any) -> Any:
        return np.append(0, np.cumsum(np.diff(lines.borders)))

    def _exchange(self, shared: Any, scratch: Any, stem: str, part: Any, cuts: Any) -> Any:
        n_bytes = (part.stop - part.start) * row_bytes(self.sizes.data)
        n_files = -(-n_bytes // part.n_bytes)
        ends = np.linspace(0, n_bytes // n_files, len(cuts()) + 1).astype(np.int64) + HEAD
        numbers = FILES_OF_RANGE * part.number + np.arange(n_files)
        return BucketFiles(stem, numbers, np.tile(ends, (n_files, 1)))

    def _split(self, scratch: Any, stem: str, number: int, parts: Any, head: int, cuts: Any) -> Any:
        n_bytes = np.diff(parts.borders).sum()
        ends = np.linspace(0, n_bytes, len(cuts()) + 1).astype(np.int64) + HEAD
        return BucketFiles(stem, np.array([number]), ends[None, :])


class NoScratch:
    """A scratch place without files."""

    def check_space(self, n_bytes: int, what: str) -> None:
        """Any number of bytes fits."""


def made_plan(sizes: IngestSizes) -> tuple[MadeAnswers, list[Any]]:
    """Plan an ingest of rows in any order; the executor with its counts, and the work of tasks."""
    executor, source, scratch = MadeAnswers(sizes), MadeRows(sizes), NoScratch()
    scan = scan_queries(executor, None, source, scratch, 0)  # type: ignore[arg-type]
    segments = plan_segments(queries_in_order(executor, scratch, scan))  # type: ignore[arg-type]
    memory = TaskMemory(tuple(range(executor.n_slots)), MEMORY, 0)
    exchange = Exchange(executor, None, scratch, scan, 0, memory)  # type: ignore[arg-type]
    work, _ = exchange_rows(exchange, source, segments)  # type: ignore[arg-type]
    return executor, work


def bookkeeping(n_documents: int, n_features: int, n_queries: int, n_workers: int) -> list[Figure]:
    """The driver's peak memory of a plan whose tasks do nothing."""
    small = IngestSizes(Sketch(10**6, n_features, 10**4), n_workers, in_order=False)
    sizes = IngestSizes(Sketch(n_documents, n_features, n_queries), n_workers, in_order=False)
    peak = peak_memory(partial(made_plan, small), partial(plan_again, sizes))
    name = f"plan of {n_documents:,} x {n_features:,} unordered rows, {n_workers:,} workers"
    return [figure(f"{name} that do nothing: driver's memory", peak / 1e6, "MB", at_most=240)]


def plan_again(sizes: IngestSizes, _: Any) -> int:
    """Plan; the number of tasks that write."""
    return len(made_plan(sizes)[1])
