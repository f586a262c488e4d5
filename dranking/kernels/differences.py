"""Difference vectors p = x_a - x_b of dense or sparse rows, and sums with them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import frozen, kernel
from dranking.kernels.sparse_gram import Csr

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Rows(NamedTuple):
    """Feature rows, and room for one difference of two of them.

    Attributes
    ----------
    is_sparse
        Whether the rows are in `csr`; else they are in `dense`. The other is empty.
    dense
        (n_documents, n_features) float32, C-ordered.
    csr
        Entries of sparse rows.
    columns
        Columns of the entries of the difference, ascending, if the rows are sparse.
    values
        Its entries.
    """

    is_sparse: bool
    dense: NDArray[np.float32]
    csr: Csr
    columns: NDArray[np.int32]
    values: Array


def as_rows(features: Any) -> Rows:
    """Rows of C-ordered float32 features or of a `csr_array` with sorted indices."""
    if isinstance(features, np.ndarray):
        indptr, indices, data = np.zeros(1), np.empty(0), np.empty(0, dtype=np.float32)
        dense, room = features, features.shape[1]
    else:
        indptr, indices, data = features.indptr, features.indices, features.data
        dense = np.empty((0, 0), dtype=np.float32)
        room = 2 * int(np.diff(indptr).max(initial=0))
    csr = Csr(
        frozen(indptr.astype(np.int64, copy=False)),
        frozen(indices.astype(np.int32, copy=False)),
        frozen(data),
    )
    is_sparse = dense is not features
    columns = np.empty(room if is_sparse else 0, dtype=np.int32)
    return Rows(is_sparse, frozen(dense), csr, columns, np.empty(room))


@kernel
def subtract(rows: Rows, a: int, b: int) -> int:
    """Overwrite the difference with x_a - x_b; return how many entries it has."""
    if rows.is_sparse:
        n = subtract_sparse(rows.csr, a, b, rows.columns, rows.values)
    else:
        n = len(rows.values)
        values, row_a, row_b = rows.values, rows.dense[a], rows.dense[b]
        for i in range(n):
            values[i] = np.float64(row_a[i]) - np.float64(row_b[i])
    return n


@kernel
def subtract_sparse(x: Csr, a: int, b: int, columns: NDArray[np.int32], values: Array) -> int:
    """Merge two sparse rows into their difference; return how many entries it has."""
    i, last_i = x.indptr[a], x.indptr[a + 1]
    j, last_j = x.indptr[b], x.indptr[b + 1]
    n = 0
    while i < last_i or j < last_j:
        # 1 where only row a has the next column, -1 where only row b has it, 0 where both have.
        if j == last_j:
            side = 1
        elif i == last_i:
            side = -1
        else:
            side = np.sign(x.indices[j] - x.indices[i])
        value = 0.0
        if side >= 0:
            columns[n] = x.indices[i]
            value += np.float64(x.data[i])
            i += 1
        if side <= 0:
            columns[n] = x.indices[j]
            value -= np.float64(x.data[j])
            j += 1
        values[n] = value
        n += 1
    return n


@kernel
def dot(rows: Rows, first: int, last: int, w: Array) -> float:
    """`<p, w>` over entries first to last of the difference p."""
    columns, values = rows.columns, rows.values
    total = 0.0
    if rows.is_sparse:
        for i in range(first, last):
            total += values[i] * w[columns[i]]
    else:
        for i in range(first, last):
            total += values[i] * w[i]
    return total


@kernel
def add(rows: Rows, first: int, last: int, c: float, w: Array) -> None:
    """`w += c p` over entries first to last of the difference p."""
    columns, values = rows.columns, rows.values
    if rows.is_sparse:
        for i in range(first, last):
            w[columns[i]] += c * values[i]
    else:
        for i in range(first, last):
            w[i] += c * values[i]


@kernel
def squared_norm(values: Array, first: int, last: int) -> float:
    """Sum of the squares of some values."""
    total = 0.0
    for i in range(first, last):
        total += values[i] * values[i]
    return total


@kernel
def entry_ranges(rows: Rows, n: int, starts: Ints, ranges: Ints) -> None:
    """Overwrite `ranges` (n_groups + 1,) with where groups of adjacent columns begin in p.

    Parameters
    ----------
    n
        Entries of the difference p.
    starts
        (n_groups + 1,) first column of each group, then the number of columns.
    """
    if rows.is_sparse:
        entry = 0
        for group in range(len(starts)):
            while entry < n and rows.columns[entry] < starts[group]:
                entry += 1
            ranges[group] = entry
    else:
        ranges[:] = starts
