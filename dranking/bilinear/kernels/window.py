"""Windows: steps between two shrinkages, taken together.

Let W0 be the weights before a window. Step k of the window finds the margin

    q_k' W d_k = q_k' W0 d_k + sum over steps s < k that changed W of eta_s <q_s, q_k> <d_s, d_k>,

so that W is read once and changed once for all steps of the window, row by row. Where rounding
could decide whether the margin is below 1, the window ends and the next window reads W as stored.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.kernels.postings import Vectors, post, room_for_vectors
from dranking.bilinear.kernels.shrinkage import Lazy, catch_up
from dranking.bilinear.kernels.sparse_rows import (
    Table,
    enter_row,
    find,
    give_room,
    has_room,
    room_for,
)
from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.machine.floats import EPSILON
from dranking.pairwise.kernels.differences import subtract_sparse
from dranking.rankrls.kernels.gram.sparse import Csr

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 128
"""Largest number of steps of a window."""

ENTRIES = 2**16
"""Largest number of entries of a window's queries, and of its differences d+ - d-; a single query
or difference may have more."""

PLACES = 2**21
"""Largest number of entries of W that the steps of a window read; a single step may read more. The
positions of these entries take 8 MB."""

MOST_VISITS = 2**30
"""The notes are cleared after this many visits, since the number of a visit has 31 bits."""


class Tuples(NamedTuple):
    """(n,) rows of the query, the preferred and the other document of each step's tuple."""

    query: Ints
    better: Ints
    worse: Ints


class Examples(NamedTuple):
    """Vectors of queries and documents, and the tuples of rows from which the steps learn."""

    queries: Csr
    documents: Csr
    tuples: Tuples


class Window(NamedTuple):
    """The steps of a window, and their working memory.

    Attributes
    ----------
    queries, differences
        Queries, by rows of W, and differences d+ - d-, with the columns as W numbers them.
    margins, sizes
        (n_steps,) `q' W0 d`, and this product with absolute values of all factors.
    lengths
        (n_steps,) eta_t of the steps that change W, 0 for other steps.
    visits, positions
        (1,) number of visits to rows so far, and (n_columns,) the notes of the visits.
    first_place, places
        Position in its row, or -1, of each entry of W that the steps read. The positions of the
        posting p of the queries lie from `first_place[p]` on.
    missing
        Number of the entries of each posting of the queries that W does not store.
    """

    queries: Vectors
    differences: Vectors
    margins: Array
    sizes: Array
    lengths: Array
    visits: Ints
    positions: Ints
    first_place: Ints
    places: NDArray[np.int32]
    missing: Ints


def window_for(queries: Csr, documents: Csr, shape: tuple[int, int]) -> Window:
    """Allocate a window for steps on these queries and documents with a W of this shape."""
    longest_query, longest = (int(np.diff(x.indptr).max(initial=0)) for x in (queries, documents))
    n_queries, n = max(longest_query, ENTRIES), max(2 * longest, ENTRIES)
    return Window(
        queries=room_for_vectors(STEPS, n_queries, shape[0]),
        differences=room_for_vectors(STEPS, n, shape[1]),
        margins=np.empty(STEPS),
        sizes=np.empty(STEPS),
        lengths=np.empty(STEPS),
        visits=np.zeros(1, dtype=np.int64),
        positions=np.zeros(shape[1], dtype=np.int64),
        first_place=np.empty(n_queries, dtype=np.int64),
        places=np.empty(max(PLACES, longest_query * 2 * longest), dtype=np.int32),
        missing=np.empty(n_queries, dtype=np.int64),
    )


@part
def enter_query(queries: Csr, query: int, x: Vectors, k: Any) -> None:
    """Write a query as the k-th vector, and where the next one begins."""
    begin, end, first = queries.indptr[query], queries.indptr[query + 1], x.entries[k]
    for p in range(end - begin):
        x.columns[first + p] = queries.indices[begin + p]
        x.values[first + p] = queries.data[begin + p]
    x.entries[k + 1] = first + end - begin


@part
def enter_difference(
    place: NDArray[np.int32], documents: Csr, better: int, worse: int, x: Vectors, k: Any
) -> None:
    """Write d+ - d-, without zeros, as the k-th difference, and where the next one begins."""
    columns, values, first = x.columns, x.values, x.entries[k]
    n = subtract_sparse(documents, better, worse, columns[first:], values[first:])
    last = first
    for p in range(first, first + n):
        # The next entry overwrites this one if its value is zero.
        columns[last], values[last] = place[columns[p]], values[p]
        last += np.int64(values[p] != 0.0)
    x.entries[k + 1] = last


@kernel
def enter(
    place: NDArray[np.int32], examples: Examples, first: int, most: int, window: Window
) -> Any:
    """Begin a window with the tuples from `first` on, at most `most`; return their number."""
    queries, documents, tuples = examples
    if window.visits[0] > MOST_VISITS:
        window.visits[0] = 0
        for i in range(len(window.positions)):
            window.positions[i] = 0
    of_queries, differences = window.queries.entries, window.differences.entries
    n, n_places = np.int64(0), np.int64(0)
    while n < min(most, len(window.margins)):
        query = tuples.query[first + n]
        better, worse = tuples.better[first + n], tuples.worse[first + n]
        n_entries = queries.indptr[query + 1] - queries.indptr[query]
        longest = documents.indptr[better + 1] - documents.indptr[better]
        longest += documents.indptr[worse + 1] - documents.indptr[worse]
        n_places += n_entries * longest
        fits = (
            of_queries[n] + n_entries <= len(window.queries.values)
            and differences[n] + longest <= len(window.differences.values)
            and n_places <= len(window.places)
        )
        if n > 0 and not fits:
            break
        enter_query(queries, query, window.queries, n)
        enter_difference(place, documents, better, worse, window.differences, n)
        n += 1
    post(window.queries, n)
    post(window.differences, n)
    return n


@kernel
def fill_margins(table: Table, window: Window, n: int, lazy: Lazy) -> None:
    """Overwrite the margins and sizes of the n steps of a window with the values at the present W.

    A row is shrunk by the thresholds that it missed just before it is read, while it is in the
    caches of the processor.
    """
    rows, entries = window.queries.postings, window.differences.entries
    for k in range(n):
        window.margins[k] = window.sizes[k] = 0.0
    at = np.int64(0)
    for i in range(rows.size[0]):
        row = rows.columns[i]
        catch_up(table, row, lazy)
        window.visits[0] += 1
        enter_row(table, row, window.visits[0], window.positions)
        for p in range(rows.first[i], rows.first[i + 1]):
            k, query_value, window.first_place[p] = rows.vectors[p], rows.values[p], at
            product, size, window.missing[p] = row_dot(table, row, window, k, at)
            window.margins[k] += query_value * product
            window.sizes[k] += abs(query_value) * size
            at += entries[k + 1] - entries[k]


@part
def row_dot(table: Table, row: Any, window: Window, k: Any, at: Any) -> Any:
    """Return `<W_row, d_k>`, `<|W_row|, |d_k|>`, and how many of the entries W does not store.

    `enter_row` must have entered the row. Positions of its entries go to `places[at:]`.
    """
    x, places = window.differences, window.places
    columns, changes, first = x.columns, x.values, x.entries[k]
    values, start = table.values, table.start[row]
    visit, positions = window.visits[0], window.positions
    total, size, n_missing = 0.0, 0.0, np.int64(0)
    for j in range(x.entries[k + 1] - first):
        entry = np.uint64(first + j)
        place = find(columns[entry], visit, positions)
        places[np.uint64(at + j)] = place
        # The first entry stands in for an entry that is not stored: a branch would be slower.
        value = np.float64(values[np.uint64(start + max(place, 0))])
        product = (value if place >= 0 else 0.0) * changes[entry]
        total += product
        size += abs(product)
        n_missing -= place >> 63
    return total, size, n_missing


@part
def row_add(table: Table, row: Any, c: float, window: Window, k: Any, at: Any) -> None:
    """Add c d_k to the stored entries of a row; their positions are `places[at:]`."""
    x, places = window.differences, window.places
    changes, first = x.values, x.entries[k]
    values, start = table.values, table.start[row]
    for j in range(x.entries[k + 1] - first):
        place = np.int64(places[np.uint64(at + j)])
        slot = np.uint64(start + max(place, 0))
        value, change = values[slot], c * changes[np.uint64(first + j)]
        values[slot] = value + change if place >= 0 else value


@part
def grow(table: Table, row: Any, window: Window, k: Any, at: Any) -> None:
    """Store zeros for the entries of d_k that a row does not have, and complete `places[at:]`.

    The row must have room for the entries. New entries are noted under the number of the visit.
    """
    x, places, row_columns = window.differences, window.places, table.columns
    columns, first = x.columns, x.entries[k]
    start, used, values = table.start[row], table.used[row], table.values
    visit, positions = window.visits[0], window.positions
    for j in range(x.entries[k + 1] - first):
        column, place = columns[np.uint64(first + j)], np.int64(places[np.uint64(at + j)])
        # A missing entry was added by an earlier step of the window, or is appended now.
        is_missing = place >> 63
        place = (place & ~is_missing) | (find(column, visit, positions) & is_missing)
        is_new = place >> 63
        place = (place & ~is_new) | (used & is_new)
        places[np.uint64(at + j)] = place
        positions[np.uint64(column)] = (visit << 32) | place
        # The next entry overwrites this one if it is not new.
        row_columns[np.uint64(start + used)] = column
        values[np.uint64(start + used)] = 0.0
        used -= is_new
    table.used[row] = used


@part
def margin_of(window: Window, k: Any, rounding: float) -> Any:
    """Return `q_k' W d_k` after the steps before k, and a bound of its rounding error.

    Stored weights are rounded at each change, by at most half of `rounding` relative to the
    absolute values that were added. Products and sums of both expressions of the margin are
    float64.
    """
    margin, size = window.margins[k], window.sizes[k]
    queries, differences, lengths = window.queries, window.differences, window.lengths
    for s in range(k):
        product = queries.products[k, s] * differences.products[k, s]
        margin += lengths[s] * product
        size += lengths[s] * (queries.sizes[k, s] * differences.sizes[k, s])
    n_sums = k + differences.entries[k + 1] - differences.entries[k]
    n_sums += queries.entries[k + 1] - queries.entries[k]
    return margin, (k * rounding + (n_sums + 8) * EPSILON) * size


@part
def entries_missing(window: Window, i: int) -> Any:
    """Return how many entries the steps may add to the i-th row, or -1 if no step changes it."""
    rows, n_missing, n_changes = window.queries.postings, np.int64(0), np.int64(0)
    for p in range(rows.first[i], rows.first[i + 1]):
        changes = np.int64(window.lengths[rows.vectors[p]] > 0.0)
        n_missing += changes * window.missing[p]
        n_changes += changes
    return n_missing if n_changes > 0 else np.int64(-1)


@kernel
def add_rows(table: Table, window: Window, first_row: int, grows: bool) -> Any:
    """Add the changes of a window's steps to the rows of W, from row number `first_row` on.

    Returns the number of the first row without room (or the number of rows), and the slots that
    this row may need at the end of the pools.
    """
    rows = window.queries.postings
    n_rows = rows.size[0]
    for i in range(first_row, n_rows):
        row = rows.columns[i]
        n_missing = entries_missing(window, i)
        if n_missing < 0:
            continue
        if grows:
            n_slots = room_for(table, row, n_missing)
            if not has_room(table, n_slots):
                return i, n_slots
            give_room(table, row, n_missing)
        window.visits[0] += 1
        for p in range(rows.first[i], rows.first[i + 1]):
            k, at = rows.vectors[p], window.first_place[p]
            if window.lengths[k] > 0.0:
                c = window.lengths[k] * rows.values[p]
                if grows:
                    grow(table, row, window, k, at)
                row_add(table, row, c, window, k, at)
    return n_rows, np.int64(0)
