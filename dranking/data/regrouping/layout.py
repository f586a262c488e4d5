"""From lines of queries to blocks and segments."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import (
    MAX_BLOCK_DOCUMENTS,
    SEGMENT_DOCUMENTS,
    block_boundaries,
    segment_borders,
)

QUERIES_AT_ONCE = 1 << 20
"""Queries, about, that are ordered at a time."""


class QueryOrder(NamedTuple):
    """The queries of a data set by first appearance.

    Attributes
    ----------
    first
        (n_queries,) int64 number of each query's first row, ascending.
    rows
        (n_queries,) rows of each query: uint32, or int64 if one has 2^32 rows or more.
    n_scattered_queries, n_scattered_rows
        Queries whose rows are not adjacent, and the rows of these queries.
    """

    first: NDArray[np.int64]
    rows: NDArray[Any]
    n_scattered_queries: int
    n_scattered_rows: int

    @property
    def is_adjacent(self) -> bool:
        """Whether the rows of every query are adjacent."""
        return not self.n_scattered_queries


def summarize(lines: NDArray[Any]) -> QueryOrder:
    """Order the queries of merged lines by first row; the hashes are left out.

    Parameters
    ----------
    lines
        (n_queries,) lines of whole queries: of all ranges of rows of the data set.
    """
    lines = lines[np.argsort(lines["first"])]
    scattered = lines["last"] - lines["first"] + 1 > lines["rows"]
    is_large = len(lines) and lines["rows"].max() > np.iinfo(np.uint32).max
    return QueryOrder(
        np.ascontiguousarray(lines["first"]),
        lines["rows"].astype(np.int64 if is_large else np.uint32),
        int(scattered.sum()),
        int(lines["rows"][scattered].sum()),
    )


def order_queries(parts: Iterable[QueryOrder]) -> QueryOrder:
    """Join the orders of disjoint sets of queries, such as ranges of hashes.

    Where row numbers are spread evenly, twice the memory of the result is in use, if the caller
    keeps no part: 240 MB for 10^7 queries. Where most of them lie close together, one range
    holds most queries, and 13 bytes more for each query are in use.
    """
    parts = list(parts)
    n_queries = sum(len(part.first) for part in parts)
    first = np.empty(n_queries, dtype=np.int64)
    rows = np.empty(n_queries, dtype=np.result_type(*(part.rows for part in parts)))
    n_ranges = n_queries // QUERIES_AT_ONCE + 1
    n_rows = max((int(part.first[-1]) + 1 for part in parts if len(part.first)), default=0)
    borders = [n_rows * number // n_ranges for number in range(n_ranges + 1)]
    cuts = [np.searchsorted(part.first, borders).tolist() for part in parts]
    at = 0
    for number in range(n_ranges):
        ranges = [slice(cut[number], cut[number + 1]) for cut in cuts]
        some = [part.first[own] for part, own in zip(parts, ranges, strict=True)]
        there = slice(at, at := at + sum(map(len, some)))
        first[there] = np.concatenate(some)
        order = np.argsort(first[there])
        first[there] = first[there][order]
        some = [part.rows[own] for part, own in zip(parts, ranges, strict=True)]
        rows[there] = np.concatenate(some)[order]
    return QueryOrder(
        first,
        rows,
        sum(part.n_scattered_queries for part in parts),
        sum(part.n_scattered_rows for part in parts),
    )


class Segment(NamedTuple):
    """Whole blocks of consecutive queries that are stored together.

    Attributes
    ----------
    number
        Position of the segment.
    row_ptr
        (n_blocks + 1,) borders of the blocks: row numbers in the order by query, which are the
        numbers of the source's rows where every query is adjacent.
    n_queries
        Number of queries of each block.
    first
        First row, in the source, of the segment's first query.
    """

    number: int
    row_ptr: tuple[int, ...]
    n_queries: tuple[int, ...]
    first: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.row_ptr[-1] - self.row_ptr[0]


def plan_segments(
    queries: QueryOrder,
    *,
    max_documents: int = MAX_BLOCK_DOCUMENTS,
    segment_documents: int = SEGMENT_DOCUMENTS,
) -> list[Segment]:
    """Cut queries into blocks, and blocks into segments, as `dranking.data.blocks` does."""
    cuts = block_boundaries(queries.rows, max_documents)
    block_rows = [int(queries.rows[a:b].sum(dtype=np.int64)) for a, b in pairwise(cuts.tolist())]
    row_ptr = np.cumsum([0, *block_rows])
    groups = segment_borders(np.diff(row_ptr).tolist(), segment_documents)
    borders, n_queries = row_ptr.tolist(), np.diff(cuts).tolist()
    return [
        Segment(
            number,
            tuple(borders[start : stop + 1]),
            tuple(n_queries[start:stop]),
            int(queries.first[cuts[start]]),
        )
        for number, (start, stop) in enumerate(pairwise(groups))
    ]


class HashCollisionError(Exception):
    """Two query ids have one hash; the scan must be done again with another key."""


def check_queries(n_found: int, n_planned: int) -> None:
    """Compare the queries of a block with the plan, which was made from hashes.

    Raises
    ------
    HashCollisionError
        If the rows of the block's queries hold more true ids than hashes.
    """
    if n_found != n_planned:
        raise HashCollisionError(f"{n_found} queries have {n_planned} hashes")
