"""From lines of queries to blocks and segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

QUERIES_AT_ONCE = 1 << 18
"""About the number of queries that one task orders, and that the driver packs into blocks at a
time."""

SAMPLE = 1 << 10
"""The summary of a part of the queries has the first row of one query in so many."""

QUERY = np.dtype([("first", np.int64), ("rows", np.int64)])
"""The fields by which queries are ordered and packed: first row, and number of rows."""


class Summary(NamedTuple):
    """The driver's summary of a part of the queries, such as a range of hashes.

    Attributes
    ----------
    n_queries
        Number of queries of the part.
    sample
        First row of every `SAMPLE`-th query of the part in the order of first rows, from the first
        query on.
    n_scattered_queries, n_scattered_rows
        Queries whose rows are not adjacent, and the rows of these queries.
    """

    n_queries: int
    sample: NDArray[np.int64]
    n_scattered_queries: int
    n_scattered_rows: int


class FirstRows(NamedTuple):
    """Queries that one task orders: those whose first row is at least `low` and below `high`.

    Attributes
    ----------
    low, high
        Numbers of rows.
    items
        (n_parts, 2) int64: in each part, in the order of the part, the first query that may belong
        to the range, and the query after the last one.
    """

    low: int
    high: int
    items: NDArray[np.int64]


def summarize(lines: NDArray[Any]) -> tuple[NDArray[Any], Summary]:
    """Order the queries of merged lines by first row; the hashes are left out.

    Parameters
    ----------
    lines
        (n_queries,) lines of whole queries: of all ranges of rows of the data set.

    Returns
    -------
    queries
        (n_queries,) `QUERY`, by first row.
    summary
        The summary that the driver needs of them.
    """
    lines = lines[np.argsort(lines["first"])]
    scattered = lines["last"] - lines["first"] + 1 > lines["rows"]
    queries = np.empty(len(lines), QUERY)
    queries["first"], queries["rows"] = lines["first"], lines["rows"]
    summary = Summary(
        len(lines),
        np.ascontiguousarray(lines["first"][::SAMPLE]),
        int(scattered.sum()),
        int(lines["rows"][scattered].sum()),
    )
    return queries, summary


def ranges_of_first_rows(parts: Sequence[Summary]) -> list[FirstRows]:
    """Cut the queries by first row into ranges of about `QUERIES_AT_ONCE` queries.

    The cuts are quantiles of the samples, so that ranges are alike wherever the queries begin.
    """
    sample = np.sort(np.concatenate([np.empty(0, np.int64), *(part.sample for part in parts)]))
    cuts = np.unique(sample[:: max(QUERIES_AT_ONCE // SAMPLE, 1)]).tolist()
    ranges = []
    for low, high in pairwise([*cuts, np.iinfo(np.int64).max]):
        starts = [np.searchsorted(part.sample, low, side="right") - 1 for part in parts]
        stops = [np.searchsorted(part.sample, high, side="left") for part in parts]
        items = SAMPLE * np.column_stack([np.maximum(starts, 0), stops]).astype(np.int64)
        items = np.minimum(items, np.array([[part.n_queries] for part in parts]))
        ranges.append(FirstRows(low, high, items))
    return ranges


def order_queries(parts: Sequence[NDArray[Any]], low: int, high: int) -> NDArray[Any]:
    """Join parts of queries: (n,) `QUERY` with first rows from `low` to `high` - 1, in order."""
    queries = np.concatenate([np.empty(0, QUERY), *parts])
    queries = queries[(queries["first"] >= low) & (queries["first"] < high)]
    ordered: NDArray[Any] = queries[np.argsort(queries["first"])]
    return ordered


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
    queries: Iterable[NDArray[Any]],
    *,
    max_documents: int = MAX_BLOCK_DOCUMENTS,
    segment_documents: int = SEGMENT_DOCUMENTS,
) -> list[Segment]:
    """Cut queries into blocks, and blocks into segments, as `dranking.data.blocks` does.

    Parameters
    ----------
    queries
        All queries in order, in parts of some `QUERY`; memory is held for a part and for blocks.
    max_documents, segment_documents
        Largest number of documents in a block and in a segment, unless a query is larger.
    """
    blocks = np.concatenate([np.empty((0, 3), np.int64), *_packed(queries, max_documents)])
    borders = np.append(0, np.cumsum(blocks[:, 0])).tolist()
    groups = segment_borders(blocks[:, 0].tolist(), segment_documents) if len(blocks) else []
    return [
        Segment(
            number,
            tuple(borders[start : stop + 1]),
            tuple(blocks[start:stop, 1].tolist()),
            int(blocks[start, 2]),
        )
        for number, (start, stop) in enumerate(pairwise(groups))
    ]


def _packed(queries: Iterable[NDArray[Any]], max_documents: int) -> Iterator[NDArray[np.int64]]:
    """Blocks in parts of (n_blocks, 3): rows and queries of each, first row of its first query."""
    last = np.empty(0, QUERY)  # the last block may go on with queries of the next part
    for part in queries:
        known = np.concatenate([last, part])
        cuts = block_boundaries(known["rows"], max_documents)
        last = known[cuts[-2] :] if len(cuts) > 1 else known
        yield _blocks(known, cuts[:-1])
    if len(last):
        yield _blocks(last, np.array([0, len(last)]))


def _blocks(queries: NDArray[Any], cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(cuts) < 2:
        return np.empty((0, 3), np.int64)
    n_rows = np.add.reduceat(queries["rows"][: cuts[-1]], cuts[:-1])
    return np.column_stack([n_rows, np.diff(cuts), queries["first"][cuts[:-1]]])


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
