"""Products `q' W d` with W kept sparse, and adding ``c q d'`` to it, for sparse q and d.

A row is looked up while what was looked up before is on its way from memory.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import inlined
from dranking.kernels.machine import count_ones, prefetch
from dranking.kernels.shrinkage import Lazy, catch_up, group_of, prefetch_missed
from dranking.kernels.sparse_gram import Csr
from dranking.kernels.sparse_row_growth import grow, prefetch_end
from dranking.kernels.sparse_rows import (
    Places,
    Table,
    locate,
    prefetch_head,
    prefetch_row,
    room_for,
)
from dranking.kernels.strip_vector import StripVector, n_entries, room_for_difference

KEPT_PLACES = 2**18
"""Columns found in rows that are remembered from the margin to the step; a megabyte."""


class Scratch(NamedTuple):
    """Room of a step.

    Attributes
    ----------
    difference
        d+ - d-, columns as W numbers them.
    found
        Where its columns are in the rows of W, as `find` says; at least two rows' places.
    missing
        Which of its strips a row has not.
    """

    difference: StripVector
    found: Places
    missing: NDArray[np.int32]


def scratch_for(documents: Csr, n_columns: int) -> Scratch:
    """Room for the steps on some documents."""
    difference = room_for_difference(documents, n_columns)
    n = len(difference.values)
    found = np.empty(max(2 * n, KEPT_PLACES), dtype=np.int32)
    return Scratch(difference, found, np.empty_like(difference.numbers))


@inlined
def row_dot(table: Table, row: int, room: Scratch, first: int) -> float:
    """`<W_row, d>` for the difference d, whose places are from the first one on."""
    values, start, difference = table.values, table.pool.start[row], room.difference
    changes, found, total = difference.values, room.found, 0.0
    for j in range(n_entries(difference)):
        place = np.int64(found[np.uint64(first + j)])
        # Of an entry that is not there the next one is read: no branch to guess wrong.
        value = np.float64(values[np.uint64(start + max(place, ~place))])
        total += (value if place >= 0 else 0.0) * changes[j]
    return total


@inlined
def row_add(table: Table, row: int, c: float, room: Scratch, first: int) -> None:
    """Add c times the difference to the entries that a row has; its places are from `first` on."""
    values, start, changes = table.values, table.pool.start[row], room.difference.values
    found = room.found
    for j in range(n_entries(room.difference)):
        place = np.int64(found[np.uint64(first + j)])
        at = np.uint64(start + max(place, ~place))
        value = values[at]
        values[at] = value + c * changes[j] if place >= 0 else value


@inlined
def row_add_all(table: Table, row: int, c: float, room: Scratch) -> None:
    """Add c times the difference to a row, which gets the entries that it has not."""
    difference = room.difference
    grow(table, row, difference, room.missing)
    values, start, changes = table.values, table.pool.start[row], difference.values
    for j in range(n_entries(difference)):
        of = np.uint64(difference.of_strip[j])
        rank = difference.before[of] + count_ones(difference.there[of] & difference.below[j])
        at = np.uint64(start + rank)
        values[at] = values[at] + c * changes[j]


@inlined
def keeps_places(n_rows: int, room: Scratch, grows: bool) -> bool:
    """Whether the places of a step are kept: not if entries move, nor if they are too many."""
    return not grows and n_rows * n_entries(room.difference) <= len(room.found)


@inlined
def places_of(i: int, n: int, are_kept: bool) -> int:
    """Where the n places of a step's i-th row begin: in turn in two halves if they are not kept."""
    return i * n if are_kept else i % 2 * n


@inlined
def margin_of(table: Table, queries: Csr, query: int, room: Scratch, lazy: Lazy | None) -> float:
    """`q' W d` for the difference d; its places in W's rows are kept if `keeps_places` says so.

    Rows are first shrunk by what they missed, unless `lazy` is None. One row is looked up while
    the values of the one before are on their way.
    """
    first, n_rows = queries.indptr[query], queries.indptr[query + 1] - queries.indptr[query]
    n, found, margin, are_kept = n_entries(room.difference), room.found, 0.0, False
    if lazy is not None:
        are_kept = keeps_places(n_rows, room, lazy.grows)
    for i in range(n_rows + 1):
        if i + 1 < n_rows:
            prefetch_row(table, queries.indices[first + i + 1])
            if lazy is not None:
                prefetch_missed(table, queries.indices[first + i + 1], lazy)
        if i < n_rows:
            row = queries.indices[first + i]
            if lazy is not None:
                catch_up(table, row, lazy)
            locate(table, row, room.difference, found, places_of(i, n, are_kept))
        if i > 0:
            row = queries.indices[first + i - 1]
            product = row_dot(table, row, room, places_of(i - 1, n, are_kept))
            margin += np.float64(queries.data[first + i - 1]) * product
    return margin


@inlined
def add_outer(
    table: Table, queries: Csr, query: int, eta: float, room: Scratch, grows: bool
) -> None:
    """Add ``eta q d'`` for the difference whose margin was computed last."""
    first, n_rows = queries.indptr[query], queries.indptr[query + 1] - queries.indptr[query]
    n, are_kept = n_entries(room.difference), keeps_places(n_rows, room, grows)
    for i in range(n_rows):
        row, c = queries.indices[first + i], eta * np.float64(queries.data[first + i])
        if grows:
            if i + 1 < n_rows:
                prefetch_row(table, queries.indices[first + i + 1])
                prefetch_end(table, queries.indices[first + i + 1])
            row_add_all(table, row, c, room)
        else:
            places = places_of(i, n, are_kept)
            if not are_kept:
                locate(table, row, room.difference, room.found, places)
            row_add(table, row, c, room, places)


@inlined
def prefetch_heads(table: Table, queries: Csr, query: int, lazy: Lazy | None) -> None:
    """Start to bring near what is known of the rows of a query, all at once."""
    for i in range(queries.indptr[query], queries.indptr[query + 1]):
        prefetch_head(table, queries.indices[i])
        if lazy is not None:
            prefetch(lazy.shrinkage.seen, group_of(queries.indices[i], lazy.groups))


@inlined
def room_of_step(
    table: Table, queries: Csr, query: int, difference: StripVector
) -> tuple[int, int]:
    """Slots at the ends of the pools with which a difference can be added to rows of a query."""
    entries, strips, n, n_strips = 0, 0, n_entries(difference), difference.size[0]
    for i in range(queries.indptr[query], queries.indptr[query + 1]):
        row = queries.indices[i]
        entries += room_for(table.pool, row, n)
        strips += room_for(table.strip_pool, row, n_strips)
    return entries, strips
