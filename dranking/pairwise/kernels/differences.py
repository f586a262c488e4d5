"""Difference vectors p = x_a - x_b of dense or sparse rows, and sums with them.

Fields that are None tell the compiler whether rows are dense or sparse: a kernel is compiled once
for each kind of rows, and each compilation has the loops of one kind alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel, part
from dranking.rankrls.kernels.gram.sparse import Csr

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = NDArray[np.int32]


class Rows(NamedTuple):
    """Feature rows, and memory for the difference of two rows.

    Attributes
    ----------
    dense
        (n_documents, n_features) float32, C-ordered; None if the rows are sparse.
    csr
        Entries of sparse rows; None if the rows are dense.
    columns
        Columns of the entries of the difference, ascending; None if the rows are dense.
    values
        Values of the entries of the difference.
    """

    dense: NDArray[np.float32] | None
    csr: Csr | None
    columns: Columns | None
    values: Array


def as_rows(features: Any) -> Rows:
    """Rows of C-ordered float32 features or of a `csr_array` with sorted indices."""
    if isinstance(features, np.ndarray):
        return Rows(frozen(features), None, None, np.empty(features.shape[1]))
    csr = Csr(
        frozen(features.indptr.astype(np.int64, copy=False)),
        frozen(features.indices.astype(np.int32, copy=False)),
        frozen(features.data),
    )
    room = 2 * int(np.diff(features.indptr).max(initial=0))
    return Rows(None, csr, np.empty(room, dtype=np.int32), np.empty(room))


@part
def subtract(rows: Rows, a: int, b: int) -> int:
    """Overwrite the difference with x_a - x_b; return how many entries it has."""
    return subtract_rows(rows.dense, rows.csr, a, b, rows.columns, rows.values)


@part
def dot(rows: Rows, first: int, last: int, w: Array) -> float:
    """`<p, w>` over entries first to last of the difference p."""
    return dot_entries(rows.columns, rows.values, first, last, w)


@part
def add(rows: Rows, first: int, last: int, c: float, w: Array) -> None:
    """`w += c p` over entries first to last of the difference p."""
    add_entries(rows.columns, rows.values, first, last, c, w)


@kernel
def subtract_rows(
    dense: NDArray[np.float32] | None,
    csr: Csr | None,
    a: int,
    b: int,
    columns: Any,
    values: Array,
) -> int:
    """Like `subtract`, with the fields of the rows as arguments."""
    n = 0
    if dense is not None:
        n = dense.shape[1]
        for i in range(n):
            values[i] = np.float64(dense[a, i]) - np.float64(dense[b, i])
    if csr is not None:
        n = subtract_sparse(csr, a, b, columns, values)
    return n


@part
def subtract_sparse(x: Csr, a: int, b: int, columns: Columns, values: Array) -> int:
    """Merge two sparse rows into their difference; return how many entries it has."""
    indices, data = x.indices, x.data
    i, last_i = x.indptr[a], x.indptr[a + 1]
    j, last_j = x.indptr[b], x.indptr[b + 1]
    n = 0
    # No branches in the loop: a processor cannot predict which row has the lower column.
    while i < last_i and j < last_j:
        in_a, in_b = indices[i], indices[j]
        columns[n] = min(in_a, in_b)
        values[n] = np.float64(data[i]) * (in_a <= in_b) - np.float64(data[j]) * (in_b <= in_a)
        i += in_a <= in_b
        j += in_b <= in_a
        n += 1
    for rest in range(i, last_i):
        columns[n], values[n] = indices[rest], data[rest]
        n += 1
    for rest in range(j, last_j):
        columns[n], values[n] = indices[rest], -data[rest]
        n += 1
    return n


@kernel
def dot_entries(columns: Columns | None, values: Array, first: int, last: int, w: Array) -> float:
    """Like `dot`, with the parts of the difference as arguments."""
    t0 = t1 = t2 = t3 = 0.0  # four independent sums: each addition to one sum waits for the last
    whole = last - (last - first) % 4
    if columns is None:
        for i in range(first, whole, 4):
            t0 += values[i] * w[i]
            t1 += values[i + 1] * w[i + 1]
            t2 += values[i + 2] * w[i + 2]
            t3 += values[i + 3] * w[i + 3]
        for i in range(whole, last):
            t0 += values[i] * w[i]
    else:
        for i in range(first, whole, 4):
            t0 += values[i] * w[columns[i]]
            t1 += values[i + 1] * w[columns[i + 1]]
            t2 += values[i + 2] * w[columns[i + 2]]
            t3 += values[i + 3] * w[columns[i + 3]]
        for i in range(whole, last):
            t0 += values[i] * w[columns[i]]
    return (t0 + t1) + (t2 + t3)


@kernel
def add_entries(
    columns: Columns | None, values: Array, first: int, last: int, c: float, w: Array
) -> None:
    """Like `add`, with the parts of the difference as arguments."""
    if columns is None:
        for i in range(first, last):
            w[i] += c * values[i]
    else:
        for i in range(first, last):
            w[columns[i]] += c * values[i]


@part
def squared_norm(values: Array, first: int, last: int) -> float:
    """Sum of the squares of `values[first]` to `values[last - 1]`."""
    total = 0.0
    for i in range(first, last):
        total += values[i] * values[i]
    return total


@kernel
def entry_ranges(columns: Columns | None, n: int, starts: Ints, ranges: Ints) -> None:
    """Overwrite `ranges` (n_groups + 1,) with the first entry of p in each group of columns.

    Parameters
    ----------
    columns
        Columns of the entries of the difference p; None if p is dense.
    n
        Number of entries of p.
    starts
        (n_groups + 1,) first column of each group, then the number of columns.
    """
    if columns is None:
        for group in range(len(starts)):
            ranges[group] = starts[group]
    else:
        entry = 0
        for group in range(len(starts)):
            while entry < n and columns[entry] < starts[group]:
                entry += 1
            ranges[group] = entry
