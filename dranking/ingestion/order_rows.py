"""The queries of a source of rows, and the segments of each task if their rows are adjacent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.regrouping.layout import Segment, Summary, ranges_of_first_rows
from dranking.engine.executor import Executor, Task
from dranking.ingestion.gathering import results_of
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.scan import (
    LINES,
    ordered_queries,
    partition_bins,
    reduce_lines,
    scan_rows,
)
from dranking.ingestion.rows.scratch import FileParts, Scratch
from dranking.ingestion.rows.segments import AdjacentRows

MAX_ROWS = 1 << 20
MIN_ROWS = 1 << 14
"""Rows of a range that one task scans, unless its row groups have more or fewer."""

LINES_AT_ONCE = 1 << 20
"""Lines of queries that one task merges, unless the hashes of one bin have more."""

PARTS_AT_ONCE = 4
"""Number of parts of the ordered queries that the driver holds at a time; a part has 4 MB."""


@dataclass(frozen=True)
class ScannedRows:
    """The scan of a source.

    Attributes
    ----------
    ranges
        Ranges of rows, one for each task.
    bins
        (n_ranges, N_BINS + 1) int64 borders of the bins in the file with the lines of each range.
    partitions
        Ranges of bins of which one task merges the lines.
    summaries
        Facts about the queries of each partition, from its merged lines.
    """

    ranges: list[tuple[int, int]]
    bins: NDArray[np.int64]
    partitions: list[tuple[int, int]]
    summaries: list[Summary]

    def lines(self, partition: tuple[int, int]) -> FileParts:
        """The parts of files that hold the lines of a partition, range by range."""
        return FileParts(LINES, np.arange(len(self.bins)), self.bins[:, partition])

    @property
    def n_scattered_queries(self) -> int:
        """Number of queries whose rows are not adjacent."""
        return sum(each.n_scattered_queries for each in self.summaries)

    @property
    def n_scattered_rows(self) -> int:
        """Number of rows of the queries whose rows are not adjacent."""
        return sum(each.n_scattered_rows for each in self.summaries)


def row_ranges(source: RowSource, n_slots: int) -> list[tuple[int, int]]:
    """Cut the rows into ranges at the borders of the source, at least four per slot if possible."""
    target = min(max(source.n_rows // (4 * n_slots), MIN_ROWS), MAX_ROWS)
    cuts = [0]
    for border in source.borders[1:-1]:
        if border - cuts[-1] >= target:
            cuts.append(border)
    return list(pairwise([*cuts, source.n_rows]))


def scan_queries(
    executor: Executor, shared: Task, source: RowSource, scratch: Scratch, key: int
) -> ScannedRows:
    """Find the queries of a source; they stay in the scratch place.

    Parameters
    ----------
    executor
        Runs the tasks.
    shared, source
        The source as the result of a task, which other tasks take, and the source itself.
    scratch
        Place of the lines and queries.
    key
        Key of the hashes.
    """
    ranges = row_ranges(source, executor.n_slots)
    tasks = [
        executor.submit(scan_rows, shared, scratch, number, *rows, key, name="scan")
        for number, rows in enumerate(ranges)
    ]
    bins = np.stack(list(results_of(executor, tasks, "scan")))
    sizes = np.diff(bins).sum(axis=0).tolist()
    scan = ScannedRows(ranges, bins, partition_bins(sizes, LINES_AT_ONCE), [])
    tasks = [
        executor.submit(reduce_lines, scratch, number, scan.lines(part), name="reduce")
        for number, part in enumerate(scan.partitions)
    ]
    scan.summaries.extend(results_of(executor, tasks, "order"))
    return scan


def queries_in_order(
    executor: Executor, scratch: Scratch, scan: ScannedRows
) -> Iterator[NDArray[Any]]:
    """All queries by first row, in parts of `QUERY`; only a few parts are in memory together."""
    ranges = ranges_of_first_rows(scan.summaries)
    for start in range(0, len(ranges), PARTS_AT_ONCE):
        tasks = [
            executor.submit(ordered_queries, scratch, rows, name="order")
            for rows in ranges[start : start + PARTS_AT_ONCE]
        ]
        yield from executor.gather(tasks)


def adjacent_work(
    source: RowSource, segments: Sequence[Segment], n_slots: int
) -> list[AdjacentRows]:
    """Segments for each task, where the rows of every query are adjacent.

    Segments that begin in one row group go to one task, which decodes the row group once and from
    its beginning, unless there would be fewer than two tasks per slot.
    """
    most = -(-len(segments) // (2 * n_slots))
    work = []
    by_group = groupby(segments, lambda each: bisect_right(source.borders, each.row_ptr[0]))
    for group in (tuple(segments_of) for _, segments_of in by_group):
        work += [AdjacentRows(group[i : i + most]) for i in range(0, len(group), most)]
    return work
