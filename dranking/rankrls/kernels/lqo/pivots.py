"""Cholesky factors of M_q[S, S], and the pivots of selected features in every query.

The cost depends on the number of selected features t, not on the number of features n. S is the
ordered list of the features selected before, f is the selected feature; M_q, z and the other
symbols are those of `dranking.rankrls.kernels.lqo.state`.

Matrices are triangular and packed, and the matrices of a *group* of queries lie side by side: entry
(i, j), j <= i, of the matrix of the q-th query of a group is `packed[i (i + 1) / 2 + j, q]`. So a
new row of a matrix is appended at the end, and operations that all queries share run along
neighbours in memory. Vectors of a group lie side by side in this way too: (t, lanes), one lane per
query.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.machine.instructions import fma
from dranking.kernels.sorting import smaller

Array = NDArray[np.float64]

MOST_LANES = 64
"""Queries in a group. The factors of a group stay in the cache for up to some dozen features."""


class Picks(NamedTuple):
    """c features to select one after the other; t features are selected before.

    Attributes
    ----------
    slots
        (t + c,) positions in `rows` of the Gram rows of S and, after these, of the picks.
    rows
        (capacity, n_queries, n_features) kept Gram rows: `rows[slots[j], q]` is A_q[i, :], where i
        is the j-th of these features.
    total_rows
        (c, n_features) A[f, :] of each pick f.
    total_within
        (c, t + c) A[f, :] at S and the picks.
    columns
        (t + c,) the column in `rows` of each feature of S and of each pick.
    announced
        (t + 3, n_queries) result of `announcement` for a single pick, whose features other tiles
        may hold; `columns` is then not read. An array without rows if this tile holds all features.
    """

    slots: NDArray[np.int64]
    rows: Array
    total_rows: Array
    total_within: Array
    columns: NDArray[np.int64]
    announced: Array


def packed_matrices(n_queries: int, size: int) -> Array:
    """(n_groups, size (size + 1) / 2, lanes) zeros: a packed matrix per query, in even groups."""
    n_groups = max(1, -(-n_queries // MOST_LANES))
    return np.zeros((n_groups, size * (size + 1) // 2, -(-n_queries // n_groups)))


def least_pivots(factors: Array, t: int, n_queries: int) -> Array:
    """(t,) smallest pivots over the queries of all groups: squares of the factors' diagonals."""
    diagonals = np.array([j * (j + 3) // 2 for j in range(t)], dtype=np.int64)
    of_groups = factors[:, diagonals].transpose(1, 0, 2).reshape(t, -1)
    pivots: Array = np.square(of_groups[:, :n_queries]).min(axis=1, initial=np.inf)
    return pivots


@part
def packed_row(i: int) -> int:
    """First position of row i of a packed matrix, which is the number of entries of i rows."""
    return i * (i + 1) // 2


@kernel
def solve_lower(factors: Array, x: Array, t: int) -> None:
    """Overwrite `x[:t]` (t, lanes) with L^-1 x; `factors` holds the factor L of each query."""
    for i in range(t):
        row, own = packed_row(i), x[i]
        for j in range(i):
            factor, other = factors[row + j], x[j]
            for q in range(len(own)):
                own[q] = fma(-factor[q], other[q], own[q])
        factor = factors[row + i]
        for q in range(len(own)):
            own[q] = np.divide(own[q], factor[q])  # `/` would check for zero each time


@kernel
def solve_upper(factors: Array, x: Array, t: int) -> None:
    """Overwrite `x[:t]` (t, lanes) with L'^-1 x."""
    for i in range(t - 1, -1, -1):
        row, own = packed_row(i), x[i]
        factor = factors[row + i]
        for q in range(len(own)):
            own[q] = np.divide(own[q], factor[q])
        for j in range(i):
            factor, other = factors[row + j], x[j]
            for q in range(len(own)):
                other[q] = fma(-factor[q], own[q], other[q])


@kernel
def subtract_symmetric(packed: Array, x: Array, out: Array, t: int) -> None:
    """Subtract G x from `out[:t]` (t, lanes), where `packed` holds the lower triangle of each G."""
    for i in range(t):
        row, x_i, out_i = packed_row(i), x[i], out[i]
        entry = packed[row + i]
        for q in range(len(x_i)):
            out_i[q] = fma(-entry[q], x_i[q], out_i[q])
        for j in range(i):
            entry, x_j, out_j = packed[row + j], x[j], out[j]
            for q in range(len(x_i)):
                out_i[q] = fma(-entry[q], x_j[q], out_i[q])
                out_j[q] = fma(-entry[q], x_i[q], out_j[q])


@part
def append_to_factors(factors: Array, column: Array, corner: Array, t: int, least: float) -> None:
    """Append the row of a feature f to the Cholesky factors of M[S, S].

    Parameters
    ----------
    column
        (at least t, lanes) M[S, f]; becomes M[S, S]^-1 M[S, f].
    corner
        (lanes,) M[f, f]; becomes the pivot, the Schur complement of M at f.
    least
        Lower bound of the pivots.
    """
    row, lanes = packed_row(t), len(corner)
    solve_lower(factors, column, t)
    for j in range(t):
        factor, own = factors[row + j], column[j]
        for q in range(lanes):
            factor[q] = own[q]
            corner[q] = fma(-own[q], own[q], corner[q])
    factor = factors[row + t]
    for q in range(lanes):
        corner[q] = max(corner[q], least)
        factor[q] = np.sqrt(corner[q])
    solve_upper(factors, column, t)


@part
def append_to_gram(
    within: Array,
    t: int,
    rows_f: Array,
    columns: NDArray[np.int64],
    announced: Array,
    first: int,
) -> None:
    """Append the row A_q[f, S] and A_q[f, f] to the packed A_q[S, S], `within`, of a group.

    Parameters
    ----------
    t
        Number of features in S.
    rows_f
        (n_queries, n_features) A_q[f, :].
    columns, announced
        The arrays `columns` and `announced` of `Picks`.
    first
        First query of the group.
    """
    row = packed_row(t)
    for q in range(smaller(within.shape[1], len(rows_f) - first)):
        for j in range(t + 1):
            if len(announced) > 0:
                within[row + j, q] = announced[j, first + q]
            else:
                within[row + j, q] = rows_f[first + q, columns[j]]


@part
def find_pivots(
    within: Array,
    factors: Array,
    total: Array,
    t: int,
    regularization: float,
    beta: Array,
    delta: Array,
    numbers: Array,
) -> None:
    """Find the pivots of a feature f and append its row to the Cholesky factors of M_q[S, S].

    Parameters
    ----------
    within
        Packed A_q[S, S], to which the row of f was appended.
    factors
        Packed Cholesky factors of M_q[S, S].
    total
        (at least t + 1,) A[f, S] and A[f, f].
    t
        Number of features in S.
    beta, delta
        (at least t, lanes) overwritten with M_q[S, S]^-1 M_q[S, f] and M_q[S, S]^-1 g[S].
    numbers
        (2, lanes) overwritten with the pivots, M_f at f after eliminating S, and with z_f . z_f.
    """
    row, lanes, pivots, norms = packed_row(t), within.shape[1], numbers[0], numbers[1]
    for j in range(t):
        for q in range(lanes):
            delta[j, q] = within[row + j, q]
            beta[j, q] = total[j] - delta[j, q]
    for q in range(lanes):
        norms[q] = within[row + t, q]
        pivots[q] = (total[t] - norms[q]) + regularization
    append_to_factors(factors, beta, pivots, t, regularization)
    subtract_symmetric(within, beta, delta, t)
    solve_lower(factors, delta, t)
    solve_upper(factors, delta, t)
    # z_f . z_f is computed here and not read from v: if f nearly copies a feature of S, the
    # recursion for v has lost more digits of f than the two features have in common.
    for j in range(t):
        for q in range(lanes):
            norms[q] = fma(-beta[j, q], within[row + j, q], norms[q])
    for j in range(t):
        for q in range(lanes):
            norms[q] = fma(-delta[j, q], total[j] - within[row + j, q], norms[q])
    for q in range(lanes):
        norms[q] = max(norms[q], 0.0)
