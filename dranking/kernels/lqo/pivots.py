"""What a pick of greedy RankRLS means for each query: a matter of t numbers, not of n.

S is the ordered list of the features selected before, f the pick; M_q, z and the rest are as in
`dranking.kernels.lqo.state`. Queries go in groups, side by side (`packed_triangles` beside it).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.lqo.packed_triangles import (
    append_to_factors,
    packed_row,
    solve_lower,
    solve_upper,
    subtract_dot,
    subtract_symmetric,
)
from dranking.kernels.machine.compile import kernel

Array = NDArray[np.float64]


class Picks(NamedTuple):
    """Features to select one after the other, c of them; t features are selected before.

    Attributes
    ----------
    slots
        (t + c,) where the Gram rows of S and then of the picks are kept.
    rows
        (capacity, n_queries, n_features) kept Gram rows: `rows[slots[j], q]` is A_q[i, :] of the
        j-th of these features i.
    total_rows
        (c, n_features) A[f, :] of each pick f.
    total_within
        (c, t + c) A[f, :] at S and the picks.
    columns
        (t + c,) which column each of S and of the picks has here.
    announced
        (t + 3, n_queries) as of `announcement`, of a single pick that another tile may hold: then
        `columns` are not looked at. Without rows where this one holds all features.
    """

    slots: NDArray[np.int64]
    rows: Array
    total_rows: Array
    total_within: Array
    columns: NDArray[np.int64]
    announced: Array


class Pivots(NamedTuple):
    """What the selection of f means for each of a group of queries.

    Attributes
    ----------
    beta, delta
        (t, lanes) M_q[S, S]^-1 M_q[S, f] and M_q[S, S]^-1 g[S].
    pivots, norms
        (lanes,) M_f at f after eliminating S, and z_f . z_f.
    """

    beta: Array
    delta: Array
    pivots: Array
    norms: Array


class GroupPivots(NamedTuple):
    """`Pivots` of several picks for a group of queries, query by query.

    Attributes
    ----------
    beta, delta
        (lanes, c, t + c), of the j-th pick the first t + j numbers.
    pivots, norms
        (lanes, c).
    """

    beta: Array
    delta: Array
    pivots: Array
    norms: Array


@kernel
def find_pivots(
    within: Array, factors: Array, own: Array, total_within: Array, regularization: float
) -> Pivots:
    """What selecting f takes of a group of queries: a matter of t numbers each, not of n.

    A row is appended to their A_q[S, S], `within`, and to its Cholesky factor.

    Parameters
    ----------
    own
        (t + 1, at most lanes) A_q[f, S] and A_q[f, f].
    total_within
        (t + 1,) A[f, S] and A[f, f].
    """
    t = len(own) - 1
    row = packed_row(t)
    grown = within[row : row + t + 1]
    left_out = np.empty(grown.shape)  # M_q[f, S] and M_q[f, f]
    for j in range(t + 1):
        for q in range(own.shape[1]):
            grown[j, q] = own[j, q]
        left_out[j] = total_within[j] - grown[j]
    left_out[t] += regularization

    beta, pivots = left_out[:t].copy(), left_out[t].copy()
    append_to_factors(factors, beta, pivots, regularization)
    delta = grown[:t].copy()
    subtract_symmetric(within, beta, delta)  # g[S]
    solve_lower(factors, delta)
    solve_upper(factors, delta)
    # z_f . z_f comes from here: where features nearly copy each other, what the recursion for v
    # knows of f has lost more digits than the two agree on.
    norms = grown[t].copy()
    subtract_dot(beta, grown[:t], norms)
    subtract_dot(delta, left_out[:t], norms)
    return Pivots(beta, delta, pivots, np.maximum(norms, 0.0))


@kernel
def find_group_pivots(
    within: Array,
    factors: Array,
    picks: Picks,
    queries: tuple[int, int],
    regularization: float,
    out: GroupPivots,
) -> None:
    """Overwrite `out` with the pivots of every pick for a group of queries, first to last.

    Rows are appended to their A_q[S, S], `within`, and to its Cholesky factors.
    """
    n_picks, n_slots = picks.total_within.shape
    first, end = queries
    n_queries = end - first
    own = np.empty((n_slots, n_queries))
    for pick in range(n_picks):
        size = n_slots - n_picks + pick
        rows_f = picks.rows[picks.slots[size]]
        for q in range(n_queries):
            for j in range(size + 1):
                if len(picks.announced) > 0:
                    own[j, q] = picks.announced[j, first + q]
                else:
                    own[j, q] = rows_f[first + q, picks.columns[j]]
        total_within = picks.total_within[pick, : size + 1]
        found = find_pivots(within, factors, own[: size + 1], total_within, regularization)
        for q in range(n_queries):
            for j in range(size):
                out.beta[q, pick, j] = found.beta[j, q]
                out.delta[q, pick, j] = found.delta[j, q]
            out.pivots[q, pick], out.norms[q, pick] = found.pivots[q], found.norms[q]
