"""Whole Gram matrices of queries, kept: packed, read back row by row, summed.

A query's A_q (design: greedy RankRLS) is one row of numbers. Of dense features it is symmetric in
every bit and only the lower triangle is kept: A_q[i, j] with j <= i is number i (i + 1) / 2 + j.
Sparse features are centred on one side of the product alone, so that rounding tells A_q[i, j] from
A_q[j, i]; all of it is kept, row by row. Either way what is read back are the numbers that
`gram_rows` finds, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import frozen, kernel
from dranking.kernels.gram import gram_rows

Array = NDArray[np.float64]

ROWS_AT_ONCE = 32
"""Gram rows computed in one pass over a block that is in memory."""


def n_entries(n_features: int, triangular: bool) -> int:
    """Numbers kept of one A_q."""
    return n_features * (n_features + 1) // 2 if triangular else n_features * n_features


def packed_gram(features: Any, query_ptr: NDArray[np.int64], means: Array) -> Array:
    """A_q of every query, without query weights.

    Parameters
    ----------
    features, query_ptr, means
        As in `dranking.kernels.gram.gram_rows`.

    Returns
    -------
    (n_queries, n_entries) float64: triangles if the features are dense.
    """
    n_queries, n = len(query_ptr) - 1, features.shape[1]
    triangular = isinstance(features, np.ndarray)
    packed = np.empty((n_queries, n_entries(n, triangular)))
    rows = np.empty((min(ROWS_AT_ONCE, n), n_queries, n))
    for first in range(0, n, ROWS_AT_ONCE):
        wanted = np.arange(first, min(first + ROWS_AT_ONCE, n))
        slots = wanted - first
        gram_rows(features, query_ptr, np.ones(n_queries), means, wanted, slots, rows)
        for i, slot in zip(wanted.tolist(), slots.tolist(), strict=True):
            start, size = (i * (i + 1) // 2, i + 1) if triangular else (i * n, n)
            packed[:, start : start + size] = rows[slot, :, :size]
    return packed


def copy_rows(
    packed: Array,
    triangular: bool,
    query_weights: Array,
    wanted: NDArray[np.int64],
    slots: NDArray[np.int64],
    rows: Array,
) -> Array:
    """What `dranking.kernels.gram.gram_rows` does, from A_q that are kept.

    Parameters
    ----------
    packed, triangular
        (n_queries, n_entries) A_q, and whether they are lower triangles.
    query_weights
        (n_queries,) float64.
    wanted, slots, rows
        As in `gram_rows`; `rows[slots]` is overwritten.

    Returns
    -------
    (J, n_features) float64 sums of the rows over the queries, in order.
    """
    totals = np.zeros((len(wanted), rows.shape[2]))
    queries = (frozen(packed), frozen(query_weights))
    _copy_rows(*queries, triangular, frozen(wanted), frozen(slots), rows, totals)
    return totals


@kernel
def _copy_rows(
    packed: Array,
    weights: Array,
    triangular: bool,
    wanted: NDArray[np.int64],
    slots: NDArray[np.int64],
    rows: Array,
    totals: Array,
) -> None:
    n = totals.shape[1]
    for q in range(len(packed)):
        kept, weight = packed[q], weights[q]
        for k in range(len(wanted)):
            i, row, total = wanted[k], rows[slots[k], q], totals[k]
            start, before = (i * (i + 1) // 2, i + 1) if triangular else (i * n, n)
            for j in range(before):
                row[j] = weight * kept[start + j]
            for j in range(before, n):
                row[j] = weight * kept[j * (j + 1) // 2 + i]
            for j in range(n):
                total[j] += row[j]


def total_gram(packed: Array, triangular: bool, query_weights: Array, n_features: int) -> Array:
    """(n_features, n_features) sum of the A_q times their weights, symmetric; queries in order."""
    total = np.zeros(packed.shape[1])
    _add_weighted(frozen(packed), frozen(query_weights), total)
    return unpacked(total, triangular, n_features)


@kernel
def _add_weighted(packed: Array, weights: Array, total: Array) -> None:
    for q in range(len(packed)):
        kept, weight = packed[q], weights[q]
        for j in range(len(total)):
            total[j] += weight * kept[j]


def unpacked(entries: Array, triangular: bool, n_features: int) -> Array:
    """The symmetric (n_features, n_features) matrix of one row of numbers."""
    if not triangular:
        square = entries.reshape(n_features, n_features)
        return (square + square.T) / 2
    matrix = np.zeros((n_features, n_features))
    matrix[np.tril_indices(n_features)] = entries
    return matrix + np.tril(matrix, -1).T


def scaled_entries(packed: Array, triangular: bool, scale: Array) -> Array:
    """(n_queries, n_entries) A_q of features that are divided by `scale` (n_features,)."""
    n = len(scale)
    i, j = np.tril_indices(n) if triangular else np.divmod(np.arange(n * n), n)
    return packed / scale[i] / scale[j]
