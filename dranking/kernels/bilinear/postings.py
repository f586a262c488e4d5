"""Postings of some sparse vectors: of each column that occurs, the vectors that have it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import bare_inlined
from dranking.kernels.machine.instructions import lowest_one

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Postings(NamedTuple):
    """The entries of vectors, column by column.

    Attributes
    ----------
    size
        (1,) number of columns that occur.
    columns
        These columns, ascending.
    first
        The first posting of each of them, and behind the last one the number of postings.
    vectors, values
        Of each posting: the number of its vector, ascending in a column, and its value there.
    following, marks
        (n_columns,) zeros, and a bitmap of columns, empty, between computations.
    """

    size: Ints
    columns: NDArray[np.int32]
    first: Ints
    vectors: NDArray[np.int32]
    values: Array
    following: Ints
    marks: Ints


class Products(NamedTuple):
    """(n, n) inner products of vectors: of the later ones (rows) with those before them.

    Attributes
    ----------
    of_values, of_sizes
        Of the vectors, and of the absolute values of both.
    """

    of_values: Array
    of_sizes: Array


def room_for_postings(n_entries: int, n_columns: int) -> Postings:
    """Room for vectors of so many entries together."""
    most = min(n_entries, n_columns)
    return Postings(
        size=np.zeros(1, dtype=np.int64),
        columns=np.empty(most, dtype=np.int32),
        first=np.empty(most + 1, dtype=np.int64),
        vectors=np.empty(n_entries, dtype=np.int32),
        values=np.empty(n_entries),
        following=np.zeros(n_columns, dtype=np.int64),
        marks=np.zeros(n_columns // 64 + 1, dtype=np.int64),
    )


@bare_inlined
def post(indices: Any, data: Any, begin: Ints, end: Ints, n: Any, postings: Postings) -> None:
    """Overwrite postings with those of n vectors, the entries of each from `begin` to `end`."""
    following, marks = postings.following, postings.marks
    columns, first = postings.columns, postings.first
    for k in range(n):
        for p in range(begin[k], end[k]):
            column = np.uint64(indices[p])
            following[column] += 1
            marks[column >> np.uint64(6)] |= np.int64(1) << (np.int64(column) & 63)
    size, total = np.int64(0), np.int64(0)
    for word in range(len(marks)):
        marked = marks[word]
        marks[word] = 0
        while marked != 0:
            bit = np.int64(lowest_one(marked))
            column = np.uint64((word << 6) + bit)
            columns[size], first[size] = column, total
            count, following[column] = following[column], total
            total += count
            size += 1
            marked ^= np.int64(1) << bit
    first[size], postings.size[0] = total, size
    for k in range(n):
        for p in range(begin[k], end[k]):
            at = np.uint64(following[np.uint64(indices[p])])
            postings.vectors[at], postings.values[at] = k, data[p]
            following[np.uint64(indices[p])] += 1
    for i in range(size):
        following[np.uint64(columns[i])] = 0


@bare_inlined
def inner_products(postings: Postings, n: Any, products: Products) -> None:
    """Overwrite the first n rows, below the diagonal, with products of the n vectors."""
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
