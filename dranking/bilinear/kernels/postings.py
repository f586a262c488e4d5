"""Sparse vectors with postings: for each column that occurs, the vectors with an entry there."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part

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
    columns: Ints
    first: Ints
    vectors: NDArray[np.int32]
    values: Array
    following: Ints
    has_entries: NDArray[np.bool_]


class Vectors(NamedTuple):
    """Sparse vectors, their postings, and the inner products of each with those before it.

    Attributes
    ----------
    entries
        (n_vectors + 1,) first entry of each vector, then the number of entries.
    columns, values
        The entries.
    postings
        The entries by column.
    products, sizes
        (n_vectors, n_vectors) inner products of the vectors, and of their absolute values; only
        the entries below the diagonal are set.
    """

    entries: Ints
    columns: NDArray[np.int32]
    values: Array
    postings: Postings
    products: Array
    sizes: Array


def room_for_vectors(n_vectors: int, n_entries: int, n_columns: int) -> Vectors:
    """Allocate vectors that have `n_entries` entries together."""
    most = min(n_entries, n_columns)
    postings = Postings(
        size=np.zeros(1, dtype=np.int64),
        columns=np.empty(most, dtype=np.int64),
        first=np.empty(most + 1, dtype=np.int64),
        vectors=np.empty(n_entries, dtype=np.int32),
        values=np.empty(n_entries),
        following=np.zeros(n_columns, dtype=np.int64),
        has_entries=np.zeros(n_columns // STRIP + 1, dtype=np.bool_),
    )
    return Vectors(
        entries=np.zeros(n_vectors + 1, dtype=np.int64),
        columns=np.empty(n_entries, dtype=np.int32),
        values=np.empty(n_entries),
        postings=postings,
        products=np.empty((n_vectors, n_vectors)),
        sizes=np.empty((n_vectors, n_vectors)),
    )


@kernel
def post(x: Vectors, n: Any) -> None:
    """Overwrite the postings and the products with those of the first n vectors."""
    following, columns, first = x.postings.following, x.postings.columns, x.postings.first
    has_entries, vectors, values = x.postings.has_entries, x.postings.vectors, x.postings.values
    for p in range(x.entries[n]):
        column = np.uint64(x.columns[p])
        following[column] += 1
        has_entries[column // np.uint64(STRIP)] = True
    size, total = np.int64(0), np.int64(0)
    for strip in range(len(has_entries)):
        if has_entries[strip]:
            has_entries[strip] = False
            for c in range(STRIP * strip, min(STRIP * (strip + 1), len(following))):
                count = following[c]
                if count > 0:
                    columns[size], first[size], following[c] = c, total, total
                    total += count
                    size += 1
    first[size], x.postings.size[0] = total, size
    for k in range(n):
        for p in range(x.entries[k], x.entries[k + 1]):
            at = np.uint64(following[np.uint64(x.columns[p])])
            vectors[at], values[at] = k, x.values[p]
            following[np.uint64(x.columns[p])] += 1
    for i in range(size):
        following[np.uint64(columns[i])] = 0
    fill_products(x, n)


@part
def fill_products(x: Vectors, n: Any) -> None:
    """Overwrite the products of the first n vectors, from their postings."""
    first, vectors, values = x.postings.first, x.postings.vectors, x.postings.values
    for k in range(n):
        for o in range(k):
            x.products[k, o] = x.sizes[k, o] = 0.0
    for i in range(x.postings.size[0]):
        for p in range(first[i], first[i + 1]):
            b, value = np.uint64(vectors[p]), values[p]
            for o in range(first[i], p):
                a, product = np.uint64(vectors[o]), value * values[o]
                x.products[b, a] += product
                x.sizes[b, a] += abs(product)
