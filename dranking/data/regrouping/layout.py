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


class QueryOrder(NamedTuple):
    """The queries of a data set by first appearance.

    Attributes
    ----------
    first, rows
        (n_queries,) int64 number of the query's first row, ascending; its rows.
    n_scattered_queries, n_scattered_rows
        Queries whose rows are not adjacent, and the rows of these queries.
    """

    first: NDArray[np.int64]
    rows: NDArray[np.int64]
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
    return QueryOrder(
        np.ascontiguousarray(lines["first"]),
        np.ascontiguousarray(lines["rows"]),
        int(scattered.sum()),
        int(lines["rows"][scattered].sum()),
    )


def order_queries(parts: Iterable[QueryOrder]) -> QueryOrder:
    """Join the orders of disjoint sets of queries, such as ranges of hashes.

    At most two copies of the queries are in memory, if the caller keeps none.
    """
    firsts, rows, n_queries, n_rows = [], [], 0, 0
    for part in parts:
        firsts.append(part.first)
        rows.append(part.rows)
        n_queries += part.n_scattered_queries
        n_rows += part.n_scattered_rows
    del part
    first = np.concatenate(firsts)
    firsts.clear()
    order = np.argsort(first)
    first.sort()
    every = np.concatenate(rows)
    rows.clear()
    return QueryOrder(first, every[order], n_queries, n_rows)


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
    row_ptr = np.concatenate(([0], np.cumsum(queries.rows)))[cuts]
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
