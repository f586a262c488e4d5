"""The queries of a source of rows, and what each task writes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import block_boundaries
from dranking.data.ingest.exchange_files import SplitRange, split_range
from dranking.data.ingest.row_source import RowSource
from dranking.data.ingest.scan import (
    Span,
    answer_lines,
    partition_bins,
    reduce_lines,
    scan_rows,
)
from dranking.data.ingest.scratch import Scratch
from dranking.data.ingest.segments import AdjacentRows, BucketRows
from dranking.data.regrouping.layout import QueryOrder, Segment, order_queries
from dranking.engine.executor import Executor, Task
from dranking.engine.ingest.gathering import results_of

MAX_ROWS = 1 << 20
MIN_ROWS = 1 << 14
"""Rows of a range that one task scans, unless its row groups have more or fewer."""

LINES_AT_ONCE = 1 << 20
"""Lines of queries that one task merges, unless the hashes of one bin have more."""

MAX_BUCKET_BYTES = 1 << 28
MEMORY_PARTS = 12
"""A task sorts a twelfth of its share of the memory at a time: the rows, their sorted copy, their
bytes in a file, and the blocks and segments made of them are in memory together."""


@dataclass(frozen=True)
class ScannedRows:
    """The scan of a source.

    Attributes
    ----------
    ranges
        Ranges of rows, one for each task.
    names, bins
        The file with the lines of each range, and the borders of the bins in it.
    partitions
        Ranges of bins of which one task merges the lines.
    queries
        All queries.
    """

    ranges: list[tuple[int, int]]
    names: list[str]
    bins: list[tuple[int, ...]]
    partitions: list[tuple[int, int]]
    queries: QueryOrder

    def spans(self, partition: tuple[int, int]) -> list[Span]:
        """Where the lines of a partition are, range by range."""
        low, high = partition
        return [
            Span(name, bins[low], bins[high])
            for name, bins in zip(self.names, self.bins, strict=True)
        ]


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
    """Find the queries of a source.

    Parameters
    ----------
    executor
        Runs the tasks.
    shared, source
        The source, as a task's result that other tasks use, and itself.
    scratch
        Place of the lines.
    key
        Key of the hashes.
    """
    ranges = row_ranges(source, executor.n_slots)
    names = [f"lines-{number:06d}" for number in range(len(ranges))]
    tasks = [
        executor.submit(scan_rows, shared, scratch, name, *rows, key, name="scan")
        for name, rows in zip(names, ranges, strict=True)
    ]
    bins = list(results_of(executor, tasks, "scan"))
    sizes = np.sum([np.diff(each) for each in bins], axis=0).tolist()
    scan = ScannedRows(ranges, names, bins, partition_bins(sizes, LINES_AT_ONCE), _nothing())
    tasks = [
        executor.submit(reduce_lines, scratch, scan.spans(part), name="reduce")
        for part in scan.partitions
    ]
    queries = order_queries(results_of(executor, tasks, "order"))
    return ScannedRows(ranges, names, bins, scan.partitions, queries)


def _nothing() -> QueryOrder:
    empty: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    return QueryOrder(empty, empty, 0, 0)


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


def bucket_bytes(executor: Executor) -> int:
    """Bytes of rows that one task sorts."""
    share = executor.memory_bytes // executor.n_slots
    return max(min(share // MEMORY_PARTS, MAX_BUCKET_BYTES), 1)


def exchange_rows(
    executor: Executor,
    shared: Task,
    source: RowSource,
    scratch: Scratch,
    scan: ScannedRows,
    segments: Sequence[Segment],
    key: int,
) -> list[BucketRows]:
    """Bring the rows of every query together in a scratch place; segments for each task.

    Parameters
    ----------
    executor, shared, source, scratch, key
        As of `scan_queries`.
    scan
        The queries.
    segments
        Segments of the queries in order of first appearance.

    Raises
    ------
    UsageError
        If the scratch place has no room for the rows.
    """
    scratch.check_space(source.n_rows * source.row_bytes)
    n_bytes = bucket_bytes(executor)
    sizes = np.array([segment.n_rows * source.row_bytes for segment in segments])
    cuts = block_boundaries(sizes, n_bytes).tolist()
    buckets = [tuple(segments[start:stop]) for start, stop in pairwise(cuts)]
    answers = _answer(executor, scratch, scan)
    parts = [
        SplitRange(
            f"rows-{number:06d}",
            *rows,
            scan.names[number],
            tuple(answer[number] for answer in answers),
            key,
            tuple(bucket[0].first for bucket in buckets),
            n_bytes,
        )
        for number, rows in enumerate(scan.ranges)
    ]
    tasks = [executor.submit(split_range, shared, scratch, part, name="exchange") for part in parts]
    files = [file for written in results_of(executor, tasks, "exchange") for file in written]
    return [
        BucketRows(
            bucket,
            scratch,
            tuple(
                Span(name, ends[number], ends[number + 1])
                for name, ends in files
                if ends[number] < ends[number + 1]
            ),
        )
        for number, bucket in enumerate(buckets)
    ]


def _answer(executor: Executor, scratch: Scratch, scan: ScannedRows) -> list[list[Span]]:
    """For each partition and each range of rows: where the first rows of its queries are."""
    names = [f"first-{number:06d}" for number in range(len(scan.partitions))]
    tasks = [
        executor.submit(answer_lines, scratch, name, scan.spans(part), name="answer")
        for name, part in zip(names, scan.partitions, strict=True)
    ]
    return [
        [Span(name, start, stop) for start, stop in pairwise(ptr)]
        for name, ptr in zip(names, results_of(executor, tasks, "answer"), strict=True)
    ]
