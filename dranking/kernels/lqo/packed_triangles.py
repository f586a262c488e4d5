"""Packed triangular matrices of the queries, a group of queries side by side.

Entry (i, j) with j <= i of the matrix of a group's q-th query is `packed[i (i + 1) / 2 + j, q]`:
matrices grow by a row at the end, and what is done to all queries alike runs along neighbours.
Vectors lie side by side in the same way: (t, lanes).
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import fma

Array = NDArray[np.float64]

MOST_LANES = 64
"""Queries in a group: the factors of as many, of some dozen features, stay near the processor."""


def group_room(n_queries: int, size: int) -> Array:
    """(n_groups, size (size + 1) / 2, lanes) room for a matrix of each query, in even groups."""
    n_groups = max(1, -(-n_queries // MOST_LANES))
    return np.zeros((n_groups, size * (size + 1) // 2, -(-n_queries // n_groups)))


@kernel
def packed_row(i: int) -> int:
    """Where row i begins; also how many entries i rows have."""
    return i * (i + 1) // 2


@kernel
def solve_lower(factors: Array, x: Array) -> None:
    """Overwrite x (t, lanes) with L^-1 x, `factors` holding the L of each query."""
    lanes = x.shape[1]
    total = np.empty(lanes)
    for i in range(len(x)):
        row = packed_row(i)
        for q in range(lanes):
            total[q] = x[i, q]
        for j in range(i):
            for q in range(lanes):
                total[q] = fma(-factors[row + j, q], x[j, q], total[q])
        for q in range(lanes):
            x[i, q] = np.divide(total[q], factors[row + i, q])


@kernel
def solve_upper(factors: Array, x: Array) -> None:
    """Overwrite x (t, lanes) with L'^-1 x."""
    lanes = x.shape[1]
    solved = np.empty(lanes)
    for i in range(len(x) - 1, -1, -1):
        row = packed_row(i)
        for q in range(lanes):
            solved[q] = np.divide(x[i, q], factors[row + i, q])
            x[i, q] = solved[q]
        for j in range(i):
            for q in range(lanes):
                x[j, q] = fma(-factors[row + j, q], solved[q], x[j, q])


@kernel
def subtract_symmetric(packed: Array, x: Array, out: Array) -> None:
    """`out -= G x`, (t, lanes) each, `packed` holding the lower half of every G."""
    lanes = x.shape[1]
    total = np.empty(lanes)
    for i in range(len(x)):
        row = packed_row(i)
        for q in range(lanes):
            total[q] = fma(-packed[row + i, q], x[i, q], out[i, q])
        for j in range(i):
            for q in range(lanes):
                entry = packed[row + j, q]
                total[q] = fma(-entry, x[j, q], total[q])
                out[j, q] = fma(-entry, x[i, q], out[j, q])
        for q in range(lanes):
            out[i, q] = total[q]


@kernel
def subtract_dot(x: Array, y: Array, out: Array) -> None:
    """`out -= x' y`: x and y (t, lanes), out (lanes,)."""
    for j in range(len(x)):
        for q in range(len(out)):
            out[q] = fma(-x[j, q], y[j, q], out[q])


@kernel
def append_to_factors(factors: Array, columns: Array, corners: Array, least: float) -> None:
    """Append a row to the Cholesky factors of M[S, S]: that of a feature f.

    Parameters
    ----------
    columns
        (t, lanes) M[S, f]; becomes M[S, S]^-1 M[S, f].
    corners
        (lanes,) M[f, f]; becomes the pivot, the Schur complement of M at f.
    least
        The smallest pivot there can be.
    """
    t = len(columns)
    row = packed_row(t)
    solve_lower(factors, columns)
    factors[row : row + t] = columns
    subtract_dot(columns, columns, corners)
    for q in range(len(corners)):
        corners[q] = max(corners[q], least)
        factors[row + t, q] = np.sqrt(corners[q])
    solve_upper(factors, columns)
