"""Steps on W side by side: what W says of all their tuples, and then all that they add to W.

A *window* is of steps between which W is not shrunk. With W0 the weights before it, step k finds

    q_k' W d_k = q_k' W0 d_k + sum over steps s < k that changed W of eta_s <q_s, q_k> <d_s, d_k>

so that W itself is read and changed once for all of them, row by row. Each row is looked up while
what was looked up before is on its way from memory.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.bilinear.postings import (
    Postings,
    Products,
    inner_products,
    post,
    room_for_postings,
)
from dranking.kernels.bilinear.shrinkage import Lazy, catch_up, group_of, prefetch_missed
from dranking.kernels.bilinear.sparse_rows import (
    HEADS,
    NEAR,
    Table,
    enter_row,
    find,
    give_room,
    has_room,
    prefetch_columns,
    prefetch_free,
    prefetch_head,
    prefetch_values,
    room_for,
)
from dranking.kernels.gram.sparse import Csr
from dranking.kernels.machine.compile import bare_inlined
from dranking.kernels.machine.instructions import prefetch
from dranking.kernels.pairwise.differences import subtract_sparse

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 128
"""Steps of a window at most."""

ENTRIES = 2**16
"""Entries of its queries, and of its differences, at most, unless a single one has more."""

PLACES = 2**21
"""Entries of W that its steps ask for, at most, unless a single one asks for more: what is
remembered of where they are takes 8 MB."""


MOST_VISITS = 2**30
"""After so many, notes are cleared before a window: a visit's number has 31 bits."""

EPSILON = float(np.finfo(np.float64).eps)


class Tuples(NamedTuple):
    """(n,) rows of the query and of both documents of each tuple, in the order of the steps."""

    query: Ints
    better: Ints
    worse: Ints


class Examples(NamedTuple):
    """Vectors, and the tuples of rows of them that are learned from."""

    queries: Csr
    documents: Csr
    tuples: Tuples


class Window(NamedTuple):
    """Room of a window of steps.

    Attributes
    ----------
    begin, end
        Where the entries of each query are.
    entries
        Where the entries of each difference d+ - d- begin.
    columns, values
        Those entries: their columns as W numbers them, and their values.
    rows, words
        Postings of the queries by rows of W, and of the differences by columns.
    alike_queries, alike_differences
        Inner products of the queries, and of the differences.
    margins, sizes
        `q' W0 d` of each step, and the same of all absolute values.
    lengths
        eta of the steps that change W, 0 for all others.
    visits, positions
        (1,) and (n_columns,) number of visits to rows, and what they noted.
    first_place, places
        Where in its row each entry of W is that the steps ask for, or -1; those of a posting of
        `rows` lie together, from the first one on.
    missing
        Of each posting how many of them are not there.
    """

    begin: Ints
    end: Ints
    entries: Ints
    columns: NDArray[np.int32]
    values: Array
    rows: Postings
    words: Postings
    alike_queries: Products
    alike_differences: Products
    margins: Array
    sizes: Array
    lengths: Array
    visits: Ints
    positions: Ints
    first_place: Ints
    places: NDArray[np.int32]
    missing: Ints


def window_for(queries: Csr, documents: Csr, shape: tuple[int, int]) -> Window:
    """Room for the steps on some queries and documents, and a W of a shape."""
    longest_query, longest = (int(np.diff(x.indptr).max(initial=0)) for x in (queries, documents))
    n_queries, n = max(longest_query, ENTRIES), max(2 * longest, ENTRIES)
    products = np.empty((4, STEPS, STEPS))
    return Window(
        begin=np.empty(STEPS, dtype=np.int64),
        end=np.empty(STEPS, dtype=np.int64),
        entries=np.zeros(STEPS + 1, dtype=np.int64),
        columns=np.empty(n, dtype=np.int32),
        values=np.empty(n),
        rows=room_for_postings(n_queries, shape[0]),
        words=room_for_postings(n, shape[1]),
        alike_queries=Products(products[0], products[1]),
        alike_differences=Products(products[2], products[3]),
        margins=np.empty(STEPS),
        sizes=np.empty(STEPS),
        lengths=np.empty(STEPS),
        visits=np.zeros(1, dtype=np.int64),
        positions=np.zeros(shape[1], dtype=np.int64),
        first_place=np.empty(n_queries, dtype=np.int64),
        places=np.empty(max(PLACES, longest_query * 2 * longest), dtype=np.int32),
        missing=np.empty(n_queries, dtype=np.int64),
    )


@bare_inlined
def enter_difference(
    table: Table, documents: Csr, better: int, worse: int, window: Window, k: Any
) -> None:
    """Write d+ - d-, zeros left out, as the k-th difference, and where the next one begins."""
    columns, values, first = window.columns, window.values, window.entries[k]
    n = subtract_sparse(documents, better, worse, columns[first:], values[first:])
    last = first
    for p in range(first, first + n):
        # Written over by the next one if it is zero.
        columns[last], values[last] = table.place[columns[p]], values[p]
        last += np.int64(values[p] != 0.0)
    window.entries[k + 1] = last


@bare_inlined
def enter(table: Table, examples: Examples, first: int, most: int, window: Window) -> Any:
    """Take the next tuples into a window, up to so many; return how many there is room for."""
    queries, documents, tuples = examples
    if window.visits[0] > MOST_VISITS:
        window.visits[0] = 0
        window.positions[:] = 0
    entries, n, n_queries, n_places = window.entries, np.int64(0), np.int64(0), np.int64(0)
    while n < min(most, len(window.margins)):
        query = tuples.query[first + n]
        better, worse = tuples.better[first + n], tuples.worse[first + n]
        begin, end = queries.indptr[query], queries.indptr[query + 1]
        longest = documents.indptr[better + 1] - documents.indptr[better]
        longest += documents.indptr[worse + 1] - documents.indptr[worse]
        n_queries += end - begin
        n_places += (end - begin) * longest
        fits = n_queries <= len(window.rows.values) and n_places <= len(window.places)
        if n > 0 and not (fits and entries[n] + longest <= len(window.columns)):
            break
        window.begin[n], window.end[n] = begin, end
        enter_difference(table, documents, better, worse, window, n)
        n += 1
    post(queries.indices, queries.data, window.begin, window.end, n, window.rows)
    if n > 1:
        post(window.columns, window.values, entries, entries[1:], n, window.words)
        inner_products(window.rows, n, window.alike_queries)
        inner_products(window.words, n, window.alike_differences)
    return n


@bare_inlined
def fill_margins(table: Table, window: Window, n: int, lazy: Lazy | None) -> None:
    """Overwrite margins and sizes of the n steps of a window with those of W as it is.

    Rows are first shrunk by what they missed, unless `lazy` is None.
    """
    rows, n_rows = window.rows, window.rows.size[0]
    window.margins[:n] = 0.0
    window.sizes[:n] = 0.0
    at = np.int64(0)
    for i in range(n_rows):
        bring_near(table, window, i, lazy)
        row = np.int64(rows.columns[i])
        if lazy is not None:
            catch_up(table, row, lazy)
        window.visits[0] += 1
        enter_row(table, row, window.visits[0], window.positions)
        for p in range(rows.first[i], rows.first[i + 1]):
            k, query_value, window.first_place[p] = rows.vectors[p], rows.values[p], at
            product, size, window.missing[p] = row_dot(table, row, window, k, at)
            window.margins[k] += query_value * product
            window.sizes[k] += abs(query_value) * size
            at += window.entries[k + 1] - window.entries[k]


@bare_inlined
def bring_near(table: Table, window: Window, i: int, lazy: Lazy | None) -> None:
    """Start to bring near what the rows after the i-th one are looked up by."""
    rows, n_rows = window.rows.columns, window.rows.size[0]
    ahead = rows[min(i + HEADS, n_rows - 1)]
    prefetch_head(table, ahead)
    if lazy is not None:
        prefetch(lazy.shrinkage.seen, group_of(ahead, lazy.groups))
    if i + NEAR < n_rows:
        prefetch_columns(table, rows[i + NEAR])
        if lazy is not None:
            prefetch_missed(table, rows[i + NEAR], lazy)


@bare_inlined
def row_dot(table: Table, row: Any, window: Window, k: Any, at: Any) -> Any:
    """`<W_row, d_k>`, that of all absolute values, and how many entries are not there.

    The row was entered. Places are written from a given one on.
    """
    columns, changes, places = window.columns, window.values, window.places
    values, start, first = table.values, table.start[row], window.entries[k]
    visit, positions = window.visits[0], window.positions
    total, size, n_missing = 0.0, 0.0, np.int64(0)
    for j in range(window.entries[k + 1] - first):
        entry = np.uint64(first + j)
        place = find(columns[entry], visit, positions)
        places[np.uint64(at + j)] = place
        # Of an entry that is not there the first one is read: no branch to guess wrong.
        value = np.float64(values[np.uint64(start + max(place, 0))])
        product = (value if place >= 0 else 0.0) * changes[entry]
        total += product
        size += abs(product)
        n_missing -= place >> 63
    return total, size, n_missing


@bare_inlined
def row_add(table: Table, row: Any, c: float, window: Window, k: Any, at: Any) -> None:
    """Add c d_k to the entries that a row has; d_k's places are from a given one on."""
    changes, places = window.values, window.places
    values, start, first = table.values, table.start[row], window.entries[k]
    for j in range(window.entries[k + 1] - first):
        place = np.int64(places[np.uint64(at + j)])
        slot = np.uint64(start + max(place, 0))
        value, change = values[slot], c * changes[np.uint64(first + j)]
        values[slot] = value + change if place >= 0 else value


@bare_inlined
def grow(table: Table, row: Any, window: Window, k: Any, at: Any) -> None:
    """Give a row the entries of d_k that it has not, zeros; their places become what they are.

    There is room for them. What is added to the row is noted under the number of the visit.
    """
    columns, places, row_columns = window.columns, window.places, table.columns
    start, used, first = table.start[row], table.used[row], window.entries[k]
    visit, positions, values = window.visits[0], window.positions, table.values
    for j in range(window.entries[k + 1] - first):
        column, place = columns[np.uint64(first + j)], np.int64(places[np.uint64(at + j)])
        # Where it is not there: where an earlier step added it, or else behind the last one.
        is_missing = place >> 63
        place = (place & ~is_missing) | (find(column, visit, positions) & is_missing)
        is_new = place >> 63
        place = (place & ~is_new) | (used & is_new)
        places[np.uint64(at + j)] = place
        positions[np.uint64(column)] = (visit << 32) | place
        # Written over by the next one if it is not new.
        row_columns[np.uint64(start + used)] = column
        values[np.uint64(start + used)] = 0.0
        used -= is_new
    table.used[row] = used


@bare_inlined
def margin_of(window: Window, k: Any, rounding: float) -> Any:
    """`q_k' W d_k` after the steps before, and how far off rounding may have put it.

    W as it is stored is rounded with each change, by half of `rounding` of all that was added; the
    products and the sums of both ways to the margin are of float64.
    """
    margin, size = window.margins[k], window.sizes[k]
    queries, differences, lengths = window.alike_queries, window.alike_differences, window.lengths
    for s in range(k):
        product = queries.of_values[k, s] * differences.of_values[k, s]
        margin += lengths[s] * product
        size += lengths[s] * (queries.of_sizes[k, s] * differences.of_sizes[k, s])
    entries = window.entries
    n_sums = k + entries[k + 1] - entries[k] + window.end[k] - window.begin[k]
    return margin, (k * rounding + (n_sums + 8) * EPSILON) * size


@bare_inlined
def entries_missing(window: Window, i: int) -> Any:
    """How many entries the steps may add to the i-th row, or -1 if none changes it."""
    n_missing, n_changes = np.int64(0), np.int64(0)
    for p in range(window.rows.first[i], window.rows.first[i + 1]):
        changes = np.int64(window.lengths[window.rows.vectors[p]] > 0.0)
        n_missing += changes * window.missing[p]
        n_changes += changes
    return n_missing if n_changes > 0 else np.int64(-1)


@bare_inlined
def add_rows(table: Table, window: Window, first_row: int, grows: bool) -> Any:
    """Add what the steps of a window change to W's rows, from one of its rows on.

    Returns the first row for which there was no room, or their number, and the slots that it may
    need at the end of the pools.
    """
    rows, n_rows = window.rows, window.rows.size[0]
    for i in range(first_row, n_rows):
        row = np.int64(rows.columns[i])
        prefetch_head(table, rows.columns[min(i + HEADS, n_rows - 1)])
        following = min(i + NEAR, n_rows - 1)
        prefetch_values(table, rows.columns[following])
        prefetch_free(table, rows.columns[following], entries_missing(window, following))
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
