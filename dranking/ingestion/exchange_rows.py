"""Rows of each query brought together in a scratch place, where they lie apart.

Rows are sorted into *buckets* of some segments, each as large as one task can sort. Every range of
rows has rows of every bucket in the worst case, so that splitting all ranges by all buckets takes a
number of small reads that grows with the square of the data, and the driver would list them. So
more than `MAX_BUCKETS` buckets are first brought together in groups, about as many as a group has
buckets, and then each group is split. The rows are written twice then, and the parts of files are
as large as the square root of the data allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import block_boundaries
from dranking.data.regrouping.layout import Segment
from dranking.engine.executor import Executor, Task
from dranking.engine.tile_tasks import given
from dranking.ingestion.gathering import results_of
from dranking.ingestion.order_rows import ScannedRows
from dranking.ingestion.rows.exchange_tasks import (
    BucketFiles,
    SplitRange,
    joined_files,
    split_files,
    split_range,
)
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.scan import FIRST_ROWS, answer_lines
from dranking.ingestion.rows.scratch import FileParts, Scratch
from dranking.ingestion.rows.segments import BucketRows
from dranking.ingestion.segment_memory import TaskMemory, in_turns

MAX_BUCKETS = 1 << 10
"""Most buckets that rows are sorted into in one step. Where a task sorts 256 MiB, a part of a file
has 256 KiB on average, which a store sends in the time that a request takes; and 256 GB of rows are
brought together in one step. Two steps keep to this limit up to `MAX_BUCKETS` ** 2 buckets, which
are 256 TB of rows."""

MAX_BUCKET_BYTES = 1 << 28
"""Most bytes of rows that a task sorts at a time, unless a segment has more."""


@dataclass(frozen=True)
class Exchange:
    """The scratch place in which rows are brought together, and the arguments of `scan_queries`.

    `memory` is what the tasks may hold.
    """

    executor: Executor
    shared: Task
    scratch: Scratch
    scan: ScannedRows
    key: int
    memory: TaskMemory

    @property
    def n_bytes(self) -> int:
        """Bytes of rows that one task sorts."""
        return min(self.memory.exchanged_bytes, MAX_BUCKET_BYTES)


def exchange_rows(
    exchange: Exchange, source: RowSource, segments: Sequence[Segment]
) -> tuple[list[BucketRows], int]:
    """Bring the rows of every query together in a scratch place.

    Parameters
    ----------
    exchange
        The scan of the rows, and the scratch place in which they are brought together.
    source
        The rows.
    segments
        Segments of the queries in order of first appearance.

    Returns
    -------
    work
        Segments for each task.
    n_bytes
        About the bytes of scratch space that this takes.

    Raises
    ------
    UsageError
        If the scratch place has no room for the rows.
    """
    n_bytes = exchange.n_bytes
    sizes = np.array([segment.n_rows * source.row_bytes for segment in segments])
    cuts = block_boundaries(sizes, n_bytes).tolist()
    buckets = [tuple(segments[start:stop]) for start, stop in pairwise(cuts)]
    firsts = np.array([bucket[0].first for bucket in buckets])
    groups = groups_of(len(buckets))
    needed = source.n_rows * source.row_bytes * (1 + (len(groups) > 1))
    exchange.scratch.check_space(needed, "bringing the rows of each query together")
    files, head = _split_ranges(exchange, firsts[[start for start, _ in groups]], n_bytes)
    if len(groups) == len(buckets):
        parts = [files.of(bucket) for bucket in range(len(buckets))]
    else:
        parts = _split_groups(exchange, files, head, firsts, groups, n_bytes)
    work = [
        BucketRows(bucket, exchange.scratch, part, head)
        for bucket, part in zip(buckets, parts, strict=True)
    ]
    return work, needed


def groups_of(n_buckets: int) -> list[tuple[int, int]]:
    """Groups of buckets that are split later: first bucket of each, and the one after its last."""
    size = 1 if n_buckets <= MAX_BUCKETS else isqrt(n_buckets - 1) + 1
    return [(start, min(start + size, n_buckets)) for start in range(0, n_buckets, size)]


def _split_ranges(
    exchange: Exchange, cuts: NDArray[np.int64], n_bytes: int
) -> tuple[BucketFiles, int]:
    """Sort each range of rows by bucket; return the files, and the bytes of their schema."""
    executor, scan = exchange.executor, exchange.scan
    answers = _answer(exchange)
    shared_cuts = executor.submit(given, cuts, name="cuts")
    calls = []
    for number, rows in enumerate(scan.ranges):
        items = np.ascontiguousarray(answers[:, number : number + 2])
        places = FileParts(FIRST_ROWS, np.arange(len(answers)), items)
        part = SplitRange(number, *rows, places, exchange.key, n_bytes)
        calls.append((exchange.shared, exchange.scratch, "rows", part, shared_cuts))
    tasks = in_turns(executor, split_range, calls, exchange.memory.slots, "exchange")
    files = joined_files(list(results_of(executor, tasks, "exchange")))
    return files, int(files.borders[0, 0])


def _answer(exchange: Exchange) -> NDArray[np.int64]:
    """Write the first row of each query, for every line; return borders of ranges in these files.

    Returns
    -------
    (n_partitions, n_ranges + 1) int64 first item of the answers to each range in the file of each
    partition of hashes, then the number of items.
    """
    executor, scan = exchange.executor, exchange.scan
    tasks = [
        executor.submit(answer_lines, exchange.scratch, number, scan.lines(part), name="answer")
        for number, part in enumerate(scan.partitions)
    ]
    return np.stack(list(results_of(executor, tasks, "answer")))


def _split_groups(
    exchange: Exchange,
    files: BucketFiles,
    head: int,
    firsts: NDArray[np.int64],
    groups: Sequence[tuple[int, int]],
    n_bytes: int,
) -> list[FileParts]:
    """Sort the rows of each group of buckets by bucket; return the parts of each bucket."""
    executor, scratch = exchange.executor, exchange.scratch
    calls: list[tuple[Any, ...]] = []
    n_tasks: list[int] = []
    for number, (start, stop) in enumerate(groups):
        runs = list(_runs(files.of(number), n_bytes))
        cuts = executor.submit(given, firsts[start:stop], name="cuts")
        first = len(calls)
        calls += [(scratch, "group", at, run, head, cuts) for at, run in enumerate(runs, first)]
        n_tasks.append(len(runs))
    tasks = in_turns(executor, split_files, calls, exchange.memory.slots, "split")
    found = results_of(executor, tasks, "split")
    parts: list[FileParts] = []
    for (start, stop), n_runs in zip(groups, n_tasks, strict=True):
        split = joined_files([next(found) for _ in range(n_runs)])
        parts += [split.of(bucket) for bucket in range(stop - start)]
    return parts


def _runs(parts: FileParts, n_bytes: int) -> Iterator[FileParts]:
    """Yield runs of neighbouring parts of about `n_bytes` together, or of one part."""
    sizes = parts.borders[:, 1] - parts.borders[:, 0]
    for start, stop in pairwise(block_boundaries(sizes, n_bytes).tolist()):
        yield FileParts(parts.stem, parts.numbers[start:stop], parts.borders[start:stop])
