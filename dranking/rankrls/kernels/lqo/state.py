"""State of greedy RankRLS per query: its start, the scores it gives, and its update.

`dranking/rankrls/greedy/THEORY.md` has the derivation. For query q and feature i the state holds
four numbers. S is the ordered list of selected features, and M_q is the Gram matrix of all queries
but q, plus lambda I. z_qi and p_q are residuals of feature i and of the labels on the documents of
q, after regressions on S that are fitted to all queries but q:

    state[q, 0, i] = s   Schur complement of M_q at i after eliminating S
    state[q, 1, i] = r   right-hand side there
    state[q, 2, i] = u   p_q . z_qi
    state[q, 3, i] = v   z_qi . z_qi

and `errors[q] = p_q . p_q`, the leave-query-out error of the query with the features selected so
far. The state is meaningful only for features outside S.

A block may hold only some of the features. Every feature is updated on its own. The tile that holds
the selected feature announces the numbers of this feature that all updates need (`announcement`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.machine.instructions import fma
from dranking.rankrls.kernels.lqo.pivots import Picks, append_to_gram, find_pivots

Array = NDArray[np.float64]


class Start(NamedTuple):
    """Moments from which the state of an empty S is computed.

    Attributes
    ----------
    diagonal, products
        (n_queries, n_features) diagonal of A_q, and b_q.
    total_diagonal, total_products
        (n_features,) sums of `diagonal` and `products` over all queries of the data set.
    """

    diagonal: Array
    products: Array
    total_diagonal: Array
    total_products: Array


class BlockState(NamedTuple):
    """State of a block on one path of selections, for the n_features features of its tile.

    Attributes
    ----------
    start
        Moments of the block.
    state
        (n_queries, 4, n_features), as in the module's text. The array has no queries while S is
        empty, and has a single query, without meaning, after the last pick.
    errors
        (n_queries,), as in the module's text.
    within, factors
        (n_groups, size (size + 1) / 2, lanes) packed A_q[S, S], and packed Cholesky factors of
        M_q[S, S]; `dranking.rankrls.kernels.lqo.pivots` has the layout.
    total_rows
        (size, n_features) A[S, :] in the order of selection. Of `within`, `factors` and
        `total_rows`, only the first |S| rows have a meaning.
    scores
        (n_rounds, n_features + 1) leave-query-out error of the block with each feature added and,
        in the last entry, without another feature. There is a row for each round of the update that
        made this state, or a single row before the first update. All entries are sums over the
        queries in the same order, so that a feature without any effect has, in every bit, the error
        without another feature.
    least
        (n_rounds, n_features) smallest s over the queries; without meaning for features in S.
    """

    start: Start
    state: Array
    errors: Array
    within: Array
    factors: Array
    total_rows: Array
    scores: Array
    least: Array


@part
def initial_state(start: Start, q: int, regularization: float, state: Array) -> None:
    """Overwrite `state` (4, n_features) with the state of query q and an empty S."""
    diagonal, products = start.diagonal[q], start.products[q]
    total_diagonal, total_products = start.total_diagonal, start.total_products
    s, r, u, v = state[0], state[1], state[2], state[3]
    for i in range(len(diagonal)):
        s[i] = max(total_diagonal[i] - diagonal[i], 0.0) + regularization
        r[i] = total_products[i] - products[i]
        u[i] = products[i]
        v[i] = diagonal[i]


@kernel
def add_scores(state: Array, error: float, scores: Array, least: Array) -> None:
    """Add one query's LQO error with each candidate to `scores` (n_features + 1,), and e itself.

    `state` is (4, n_features). The error with candidate i is E_i = e - 2 a u + a^2 v with
    a = r / s; the error e without a candidate is added to the last entry. `least` (n_features,)
    takes the smaller of itself and s.
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    for i in range(len(s)):
        a = np.divide(r[i], s[i])  # `/` checks for zero each time, and s is at least lambda
        scores[i] += error - 2.0 * a * u[i] + a * a * v[i]
        least[i] = s[i] if s[i] < least[i] else least[i]  # `min` is one more function to compile
    scores[len(s)] += error


@kernel
def initial_scores(
    start: Start, errors: Array, regularization: float, scores: Array, least: Array
) -> None:
    """Overwrite `scores` (n_features + 1,) and `least` (n_features,) with those of an empty S.

    `BlockState` has their meaning.
    """
    state = np.empty((4, len(least)))
    scores[:], least[:] = 0.0, np.inf
    for q in range(len(errors)):
        initial_state(start, q, regularization, state)
        add_scores(state, errors[q], scores, least)


@kernel
def announcement(
    start: Start,
    state: Array,
    rows: Array,
    slots: NDArray[np.int64],
    position: NDArray[np.int64],
) -> Array:
    """Numbers of a pick f, in every query, for the tiles that do not hold f.

    Parameters
    ----------
    start, state
        Start and state of the block that holds f.
    rows, slots
        As in `Picks`, for f as the only pick.
    position
        (t + 1,) column of each feature of S and, last, of f in this block, or -1.

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
            # A_q[f, i] and A_q[i, f] have the same bits: the same products, summed in the same
            # order.
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
    lane: int,
    rows: Array,
    slots: NDArray[np.int64],
    total_rows: Array,
    q: int,
    sums: Array,
) -> None:
    """Overwrite the rows of `sums` (3, n_features) with m, h and g of query q for a pick f.

    For every feature i, m is M_q[f, i], h is z_f . z_i and g is z_f . x_i after eliminating S. Let
    R be the rows A_q[S, :] and A_S the rows A[S, :]. Then g = A_q[f, :] - beta' R,
    m = M_q[f, :] - beta' (A_S - R) and h = g - delta' (A_S - R), summed in the order of S, by fused
    multiplications.

    Parameters
    ----------
    beta, delta, lane
        (at least t, lanes) results of `find_pivots`, and the lane of the query.
    rows, slots
        (capacity, n_queries, n_features) Gram rows, and (t + 1,) slots of S and f in `rows`.
    total_rows
        (at least t + 1, n_features) A[i, :] of S and f.
    """
    m, h, g, t = sums[0], sums[1], sums[2], len(slots) - 1
    own, total = rows[slots[t], q], total_rows[t]
    for i in range(len(m)):
        g[i], m[i], h[i] = own[i], total[i] - own[i], 0.0
    for j in range(t):
        own, total, b, d = rows[slots[j], q], total_rows[j], -beta[j, lane], -delta[j, lane]
        for i in range(len(m)):
            others = total[i] - own[i]
            g[i] = fma(b, own[i], g[i])
            m[i] = fma(b, others, m[i])
            h[i] = fma(d, others, h[i])
    for i in range(len(m)):
        h[i] += g[i]


@kernel
def advance_state(
    state: Array, sums: Array, pivot: float, norm: float, r_f: float, u_f: float, least: float
) -> float:
    """Update the state (4, n_features) of one query for the selection of f.

    (Numba vectorises the loop only in a function of its own.)

    Parameters
    ----------
    sums
        m and h in the first two rows, as `eliminate` writes them.
    pivot, norm
        M_f at f after eliminating S, and z_f . z_f.
    r_f, u_f
        r and u at f.
    least
        Lower bound of s: lambda.

    Returns
    -------
    The decrease of the query's error.
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    m, h = sums[0], sums[1]
    scale = 1.0 / pivot
    a_f = r_f * scale
    for i in range(len(m)):
        rho = m[i] * scale
        u[i] += a_f * (rho * norm - h[i]) - rho * u_f
        v[i] = max(v[i] + rho * (rho * norm - 2.0 * h[i]), 0.0)
        s[i] = max(s[i] - rho * m[i], least)
        r[i] -= rho * r_f
    fall: float = 2.0 * a_f * u_f - a_f * a_f * norm
    return fall


@part
def copy_rows(source: Array, target: Array) -> None:
    """Overwrite the first rows of `target` with the rows of `source`."""
    for j in range(len(source)):
        for i in range(source.shape[1]):
            target[j, i] = source[j, i]


@kernel
def update(
    state: Array, errors: Array, picks: Picks, regularization: float, after: BlockState
) -> None:
    """Select features, one after the other, for every query of a block.

    The state and the Gram rows of a query are read once for all picks. The results have the same
    bits as with one update for each pick.

    Parameters
    ----------
    state, errors
        State and errors of the block before the picks.
    after
        The block after the picks. The update overwrites its state and errors, and `scores` and
        `least`: one row for each pick, of the round after the pick. Rows are appended to its other
        arrays.
    """
    n_picks, n = picks.total_rows.shape
    size, lanes = len(picks.slots), after.factors.shape[2]
    t, rows, slots = size - n_picks, picks.rows, picks.slots
    columns, announced = picks.columns, picks.announced
    beta, delta = np.empty((n_picks, size, lanes)), np.empty((n_picks, size, lanes))
    numbers, sums = np.empty((n_picks, 2, lanes)), np.empty((3, n))
    after.scores[:], after.least[:] = 0.0, np.inf
    copy_rows(picks.total_rows, after.total_rows[t:])
    for q in range(len(errors)):
        lane, error, now = q % lanes, errors[q], after.state[q % len(after.state)]
        if lane == 0:
            within, factors = after.within[q // lanes], after.factors[q // lanes]
            for pick in range(n_picks):
                append_to_gram(within, t + pick, rows[slots[t + pick]], columns, announced, q)
                find_pivots(
                    within,
                    factors,
                    picks.total_within[pick],
                    t + pick,
                    regularization,
                    beta[pick],
                    delta[pick],
                    numbers[pick],
                )
        if t == 0:
            initial_state(after.start, q, regularization, now)
        else:
            copy_rows(state[q], now)
        for pick in range(n_picks):
            f = t + pick
            eliminate(
                beta[pick], delta[pick], lane, rows, slots[: f + 1], after.total_rows, q, sums
            )
            if len(announced) > 0:
                r, u = announced[f + 1, q], announced[f + 2, q]
            else:
                r, u = now[1, columns[f]], now[2, columns[f]]
            pivot, norm = numbers[pick, 0, lane], numbers[pick, 1, lane]
            error -= advance_state(now, sums, pivot, norm, r, u, regularization)
            add_scores(now, error, after.scores[pick], after.least[pick])
        after.errors[q] = error
