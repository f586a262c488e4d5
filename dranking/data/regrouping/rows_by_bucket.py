"""Rows sorted by bucket, and the rows of a bucket put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.regrouping.query_lines import hash_ids
from dranking.data.tables.query_rows import run_starts

FIRST = "first_row_of_query"
"""Column of exchanged tables: number of the first row of the row's query."""


def first_rows(
    ids: pa.Array, lines: NDArray[Any], first: NDArray[np.int64], *, key: int = 0
) -> NDArray[np.int64]:
    """The first row of the query of every row of a range.

    Parameters
    ----------
    ids
        (n,) query ids of the rows.
    lines
        Lines of the queries of this range, sorted by hash (`query_lines`).
    first
        (len(lines),) first row of each of these queries in the whole data set.
    key
        Key of the hashes.

    Returns
    -------
    (n,) int64.
    """
    starts = run_starts(ids)
    hashes = hash_ids(ids.take(pa.array(starts)), key)
    found = first[np.searchsorted(lines["hash"], hashes)]
    return np.repeat(found, np.diff(np.append(starts, len(ids))))


def split_rows(
    table: pa.Table, first: NDArray[np.int64], borders: NDArray[np.int64]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Sort rows by bucket; rows of a bucket keep their order.

    Parameters
    ----------
    table
        (n,) rows.
    first
        (n,) first row of the query of every row.
    borders
        (n_buckets,) smallest first row of each bucket, ascending; borders[0] is at most all of
        `first`.

    Returns
    -------
    table
        The rows by bucket, with the column `FIRST`.
    ptr
        (n_buckets + 1,) int64; bucket b holds the rows `ptr[b]:ptr[b + 1]`.
    """
    return split_again(table.append_column(FIRST, pa.array(first)), borders)


def split_again(table: pa.Table, borders: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Sort rows that have the column `FIRST` by other buckets; as `split_rows`."""
    first = table.column(FIRST).to_numpy()
    bucket = np.searchsorted(borders, first, side="right") - 1
    ptr = np.concatenate(([0], np.cumsum(np.bincount(bucket, minlength=len(borders)))))
    return take_rows(table, np.argsort(bucket, kind="stable")), ptr.astype(np.int64)


def join_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of a bucket by query, from tables in the order of the ranges that they came from.

    Returns
    -------
    The rows, queries by first appearance, rows of a query in order; without the column `FIRST`.
    """
    table = pa.concat_tables(tables)
    order = np.argsort(table.column(FIRST).to_numpy(), kind="stable")
    return take_rows(table.drop_columns([FIRST]), order)


def take_rows(table: pa.Table, order: NDArray[np.intp]) -> pa.Table:
    """Rows of a table in another order; the table itself if the order is that of the table."""
    if np.array_equal(order, np.arange(table.num_rows)):
        return table
    return table.combine_chunks().take(pa.array(order))
