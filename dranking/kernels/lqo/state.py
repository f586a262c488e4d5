"""Greedy RankRLS's state per query, its score and its update (design: greedy RankRLS).

For query q and feature i the state holds four numbers. S is the ordered list of selected
features, M_q the Gram matrix of all other queries plus lambda I, z_qi the held-out residual of
feature i after regression on S, p_q that of the labels:

    state[q, 0, i] = s   Schur complement of M_q at i after eliminating S
    state[q, 1, i] = r   right-hand side there
    state[q, 2, i] = u   p_q . z_qi
    state[q, 3, i] = v   z_qi . z_qi

and `errors[q] = p_q . p_q`, the leave-query-out error of the query with the features chosen so far.
The state means something only for features outside S.

A block may hold some of the features alone: all but the selected one's own numbers is computed
feature by feature, and those are announced by the tile that holds it (`announcement`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.lqo.pivots import GroupPivots, Picks, find_group_pivots
from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import borrowed
from dranking.kernels.machine.panels import (
    NARROW_WIDTH,
    bring_near,
    eliminate_columns,
    eliminate_panel,
)

Array = NDArray[np.float64]


class Start(NamedTuple):
    """What the state of an empty S follows from.

    Attributes
    ----------
    diagonal, products
        (n_queries, n_features) of A_q and b_q.
    total_diagonal, total_products
        (n_features,) their sums over all queries.
    """

    diagonal: Array
    products: Array
    total_diagonal: Array
    total_products: Array


class BlockState(NamedTuple):
    """What a block knows of one path of selections; n_features are those it holds.

    Attributes
    ----------
    start
        What all began with.
    state
        (n_queries, 4, n_features), as above; without queries while S is empty, and of any one alone
        where no pick is left.
    errors
        (n_queries,), as above.
    within, factors
        (n_groups, size (size + 1) / 2, lanes) packed A_q[S, S], and Cholesky factors of M_q[S, S].
    total_rows
        (size, n_features) A[S, :] in the order of selection. Of these three, what is behind the
        first |S| rows means nothing.
    scores
        (n_rounds, n_features + 1) LQO error of the block with each candidate, and the present one,
        after each of the rounds that led here; a single row before the first. Both are sums over
        the queries in order, so that a feature without any effect ties the present error in every
        bit.
    """

    start: Start
    state: Array
    errors: Array
    within: Array
    factors: Array
    total_rows: Array
    scores: Array


class OwnNumbers(NamedTuple):
    """M_f at f, z_f . z_f, and r and u at f, of one query after eliminating S."""

    pivot: float
    norm: float
    r: float
    u: float


@kernel
def initial_state(start: Start, q: int, regularization: float, state: Array) -> None:
    """Overwrite `state` (4, n_features) with that of query q and an empty S."""
    diagonal, products = start.diagonal[q], start.products[q]
    total_diagonal, total_products = start.total_diagonal, start.total_products
    s, r, u, v = state[0], state[1], state[2], state[3]
    for i in range(len(diagonal)):
        s[i] = max(total_diagonal[i] - diagonal[i], 0.0) + regularization
        r[i] = total_products[i] - products[i]
        u[i] = products[i]
        v[i] = diagonal[i]


@kernel
def add_scores(state: Array, error: float, scores: Array) -> None:
    """Add one query's LQO error with each candidate to `scores` (n_features,).

    `state` is (4, n_features): E_i = e - 2 a u + a^2 v with a = r / s.
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    for i in range(len(scores)):
        a = np.divide(r[i], s[i])  # `/` checks for zero each time, and s is at least lambda
        scores[i] += error - 2.0 * a * u[i] + a * a * v[i]


@kernel
def initial_scores(start: Start, errors: Array, regularization: float, scores: Array) -> None:
    """Overwrite `scores` (n_features + 1,) with those of an empty S, see `BlockState`."""
    n = len(scores) - 1
    state = np.empty((4, n))
    scores[:] = 0.0
    for q in range(len(errors)):
        initial_state(start, q, regularization, state)
        add_scores(state, errors[q], scores[:n])
        scores[n] += errors[q]


@kernel
def announcement(
    start: Start,
    state: Array,
    rows: Array,
    slots: NDArray[np.int64],
    position: NDArray[np.int64],
) -> Array:
    """What must be known of f, per query, to select it wherever other features are.

    Parameters
    ----------
    start, state
        Those of the block, f among the features.
    rows, slots
        As in `Picks`, f being the only one.
    position
        (t + 1,) column that each of S and, last, f has here, or -1.

    Returns
    -------
    (t + 3, n_queries) A_q[f, S], A_q[f, f], r and u at f.
    """
    t, n_queries = len(position) - 1, len(start.products)
    f = position[t]
    announced = np.empty((t + 3, n_queries))
    for q in range(n_queries):
        row_f = rows[slots[t], q]
        for j in range(t + 1):
            # A_q[f, i] and A_q[i, f] are the same sum of the same products.
            here = position[j] >= 0
            announced[j, q] = row_f[position[j]] if here else rows[slots[j], q, f]
        if t == 0:
            u = start.products[q, f]
            announced[1, q], announced[2, q] = start.total_products[f] - u, u
        else:
            announced[t + 1, q], announced[t + 2, q] = state[q, 1, f], state[q, 2, f]
    return announced


@kernel
def eliminate(
    beta: Array,
    delta: Array,
    picks: Picks,
    total_rows: Array,
    q: int,
    out: Array,
) -> None:
    """Overwrite `out` (n_picks, 2, n_features) with m and h of query q for each pick f.

    These are M_f and z_f . z_i after eliminating the S before: with R the rows of S, m = M_q[f, :]
    - beta' (A_S - R) and h = A_q[f, :] - beta' R - delta' (A_S - R).

    Parameters
    ----------
    beta, delta
        (n_picks, size) of each pick the first numbers, as of `GroupPivots`.
    total_rows
        (at least size, n_features) A[i, :] of S and the picks.
    """
    beta, delta, picks = borrowed(beta), borrowed(delta), borrowed(picks)
    total_rows, out = borrowed(total_rows), borrowed(out)
    n_picks, size = beta.shape
    n = out.shape[2]
    for first in range(0, n, NARROW_WIDTH):
        # The last panel begins within the one before.
        column = min(first, n - NARROW_WIDTH)
        for pick in range(n_picks):
            t = size - n_picks + pick
            of_pick = beta[pick, :t], delta[pick, :t], picks.rows, picks.slots, total_rows, q
            if column < 0:
                eliminate_columns(*of_pick, 0, n, out[pick])
            else:
                eliminate_panel(*of_pick, column, out[pick])


@kernel
def advance_state(
    state: Array, m: Array, h: Array, own: OwnNumbers, regularization: float
) -> float:
    """Bring the state (4, n_features) of one query past the selection of f.

    `m` and `h` are (n_features,) M_f and z_f . z_i after eliminating S. Returns what the query's
    error loses. (A function of its own because only so Numba vectorises the loop.)
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    norm, r_f, u_f = own.norm, own.r, own.u
    scale = 1.0 / own.pivot
    a_f = r_f * scale
    for i in range(len(m)):
        rho = m[i] * scale
        u[i] += a_f * (rho * norm - h[i]) - rho * u_f
        v[i] = max(v[i] + rho * (rho * norm - 2.0 * h[i]), 0.0)
        s[i] = max(s[i] - rho * m[i], regularization)
        r[i] -= rho * r_f
    lost: float = 2.0 * a_f * u_f - a_f * a_f * norm
    return lost


@kernel
def update(
    state: Array, errors: Array, picks: Picks, regularization: float, after: BlockState
) -> None:
    """Select features: as many rounds of the greedy algorithm for every query of a block.

    What the state of a query and its rows are read for is done for all picks at once, while they
    are near; each pick is selected as it would be alone.

    Parameters
    ----------
    state, errors
        Those of the block, without the picks.
    after
        The block afterwards: overwrites its state, errors and scores, which are those of the round
        that follows each pick, and adds rows to all else.
    """
    picks, after = borrowed(picks), borrowed(after)
    n_picks, n = picks.total_rows.shape
    t = len(picks.slots) - n_picks
    after.total_rows[t : t + n_picks] = picks.total_rows
    after.scores[:] = 0.0
    n_groups, _, lanes = after.factors.shape
    room = (lanes, n_picks, t + n_picks)
    pivots = GroupPivots(np.empty(room), np.empty(room), np.empty(room[:2]), np.empty(room[:2]))
    rows = np.empty((n_picks, 2, n))
    for group in range(n_groups):
        first, end = group * lanes, min((group + 1) * lanes, len(errors))
        within, factors = after.within[group], after.factors[group]
        find_group_pivots(within, factors, picks, (first, end), regularization, pivots)
        for q in range(first, end):
            bring_near(picks.rows, picks.slots, min(q + 1, len(errors) - 1))
            after_q = after.state[q % len(after.state)]
            if t == 0:
                initial_state(after.start, q, regularization, after_q)
            else:
                after_q[:] = state[q]
            after.errors[q] = errors[q]
            select_in_query(q, q - first, picks, pivots, regularization, after, rows)


@kernel
def select_in_query(
    q: int,
    lane: int,
    picks: Picks,
    pivots: GroupPivots,
    regularization: float,
    after: BlockState,
    rows: Array,
) -> None:
    """Bring the state of a query past every pick, and add to the scores.

    `rows` (n_picks, 2, n_features) is room.
    """
    picks, pivots, after, rows = borrowed(picks), borrowed(pivots), borrowed(after), borrowed(rows)
    n_picks, n = picks.total_rows.shape
    t = len(picks.slots) - n_picks
    state = after.state[q % len(after.state)]
    beta, delta = pivots.beta[lane], pivots.delta[lane]
    eliminate(beta, delta, picks, after.total_rows, q, rows)
    for pick in range(n_picks):
        size = t + pick
        if len(picks.announced) > 0:
            r_f, u_f = picks.announced[size + 1, q], picks.announced[size + 2, q]
        else:
            f = picks.columns[size]
            r_f, u_f = state[1, f], state[2, f]
        own = OwnNumbers(pivots.pivots[lane, pick], pivots.norms[lane, pick], r_f, u_f)
        after.errors[q] -= advance_state(state, rows[pick, 0], rows[pick, 1], own, regularization)
        add_scores(state, after.errors[q], after.scores[pick, :n])
        after.scores[pick, n] += after.errors[q]
