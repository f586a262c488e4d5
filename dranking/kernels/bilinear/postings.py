"""Postings of sparse vectors: for each column that occurs, the vectors with an entry there."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import inlined

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


STRIP = 64
"""Adjacent columns of a strip. Only strips with an entry are searched for columns that occur."""


class Postings(NamedTuple):
    """The entries of sparse vectors, sorted by column.

    Attributes
    ----------
    size
        (1,) number of columns that occur.
    columns
        The columns that occur, ascending.
    first
        Position of the first posting of each of these columns, then the number of postings.
    vectors, values
        Number of the vector of each posting, ascending within a column, and its value in the
        column.
    following
        (n_columns,) counters; all zero between calls of `post`.
    has_entries
        (n_strips,) whether a strip of columns has an entry; all false between calls of `post`.
    """

    size: Ints
    columns: NDArray[np.int32]
    first: Ints
    vectors: NDArray[np.int32]
    values: Array
    following: Ints
    has_entries: NDArray[np.bool_]


class Products(NamedTuple):
    """Inner products of every vector with the vectors before it.

    Attributes
    ----------
    of_values, of_sizes
        (n, n) inner products of the vectors, and of their absolute values; only the entries below
        the diagonal are set.
    """

    of_values: Array
    of_sizes: Array


def room_for_postings(n_entries: int, n_columns: int) -> Postings:
    """Allocate postings for vectors that have `n_entries` entries together."""
    most = min(n_entries, n_columns)
    return Postings(
        size=np.zeros(1, dtype=np.int64),
        columns=np.empty(most, dtype=np.int32),
        first=np.empty(most + 1, dtype=np.int64),
        vectors=np.empty(n_entries, dtype=np.int32),
        values=np.empty(n_entries),
        following=np.zeros(n_columns, dtype=np.int64),
        has_entries=np.zeros(n_columns // STRIP + 1, dtype=np.bool_),
    )


@inlined
def post(indices: Any, data: Any, begin: Ints, end: Ints, n: Any, postings: Postings) -> None:
    """Overwrite the postings with those of n vectors.

    Vector k has the entries `begin[k]` to `end[k]` (exclusive) of `indices` and `data`.
    """
    following, columns, first = postings.following, postings.columns, postings.first
    for k in range(n):
        for p in range(begin[k], end[k]):
            column = np.uint64(indices[p])
            following[column] += 1
            postings.has_entries[column // np.uint64(STRIP)] = True
    size, total = np.int64(0), np.int64(0)
    for strip in range(len(postings.has_entries)):
        if postings.has_entries[strip]:
            postings.has_entries[strip] = False
            for c in range(STRIP * strip, min(STRIP * (strip + 1), len(following))):
                count = following[c]
                if count > 0:
                    columns[size], first[size], following[c] = c, total, total
                    total += count
                    size += 1
    first[size], postings.size[0] = total, size
    for k in range(n):
        for p in range(begin[k], end[k]):
            at = np.uint64(following[np.uint64(indices[p])])
            postings.vectors[at], postings.values[at] = k, data[p]
            following[np.uint64(indices[p])] += 1
    for i in range(size):
        following[np.uint64(columns[i])] = 0


@inlined
def inner_products(postings: Postings, n: Any, products: Products) -> None:
    """Overwrite the first n rows, below the diagonal, with inner products of the n vectors."""
    first, vectors, values = postings.first, postings.vectors, postings.values
    of_values, of_sizes = products.of_values, products.of_sizes
    for k in range(n):
        of_values[k, :k] = 0.0
        of_sizes[k, :k] = 0.0
    for i in range(postings.size[0]):
        for p in range(first[i], first[i + 1]):
            b, value = np.uint64(vectors[p]), values[p]
            for o in range(first[i], p):
                a, product = np.uint64(vectors[o]), value * values[o]
                of_values[b, a] += product
                of_sizes[b, a] += abs(product)
