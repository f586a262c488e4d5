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

from dranking.kernels.compile import kernel
from dranking.kernels.machine import CACHE_LINE, fma, prefetch
from dranking.kernels.packed import (
    append_to_factors,
    packed_row,
    solve_lower,
    solve_upper,
    subtract_dot,
    subtract_symmetric,
)

Array = NDArray[np.float64]


class BlockState(NamedTuple):
    """What a block knows of one path of selections; n_features are those it holds.

    Attributes
    ----------
    state
        (n_queries, 4, n_features), as above.
    errors
        (n_queries,), as above.
    within, factors
        (n_groups, size (size + 1) / 2, lanes) packed A_q[S, S], and Cholesky factors of M_q[S, S].
    total_rows
        (size, n_features) A[S, :] in the order of selection.
    scores
        (n_features + 1,) LQO error of the block with each candidate, and the present one. Both
        are sums over the queries in order, so that a feature without any effect ties the present
        error in every bit.
    """

    state: Array
    errors: Array
    within: Array
    factors: Array
    total_rows: Array
    scores: Array


class Pick(NamedTuple):
    """A feature f to select; t features are selected before it.

    Attributes
    ----------
    slots
        (t + 1,) where the Gram rows of S and, last, of f are kept.
    rows
        (capacity, n_queries, n_features) kept Gram rows: `rows[slots[j], q]` is A_q[i, :] of the
        j-th of these features i.
    total_row
        (n_features,) A[f, :].
    total_within
        (t + 1,) A[f, S] and A[f, f].
    announced
        (t + 3, n_queries) as of `announcement`.
    """

    slots: NDArray[np.int64]
    rows: Array
    total_row: Array
    total_within: Array
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


class OwnNumbers(NamedTuple):
    """M_f at f, z_f . z_f, and r and u at f, of one query after eliminating S."""

    pivot: float
    norm: float
    r: float
    u: float


@kernel
def initial_state(
    diagonal: Array,
    products: Array,
    total_diagonal: Array,
    total_products: Array,
    regularization: float,
    state: Array,
) -> None:
    """Overwrite `state` (n_queries, 4, n_features) with that of an empty S.

    Parameters
    ----------
    diagonal, products
        (n_queries, n_features) of A_q and b_q.
    total_diagonal, total_products
        (n_features,) their sums over all queries.
    """
    n = len(total_diagonal)
    for q in range(len(diagonal)):
        for i in range(n):
            left_out = total_diagonal[i] - diagonal[q, i]
            state[q, 0, i] = max(left_out, 0.0) + regularization
            state[q, 1, i] = total_products[i] - products[q, i]
            state[q, 2, i] = products[q, i]
            state[q, 3, i] = diagonal[q, i]


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
def score(block: BlockState) -> None:
    """Overwrite the block's scores."""
    n = len(block.scores) - 1
    block.scores[:] = 0.0
    for q in range(len(block.errors)):
        add_scores(block.state[q], block.errors[q], block.scores[:n])
        block.scores[n] += block.errors[q]


@kernel
def announcement(
    state: Array, rows: Array, slots: NDArray[np.int64], position: NDArray[np.int64]
) -> Array:
    """What must be known of f, per query, to select it wherever other features are.

    Parameters
    ----------
    state
        (n_queries, 4, n_features), f among them.
    rows, slots
        As in `Pick`.
    position
        (t + 1,) column that each of S and, last, f has here, or -1.

    Returns
    -------
    (t + 3, n_queries) A_q[f, S], A_q[f, f], r and u at f.
    """
    t, n_queries = len(position) - 1, len(state)
    f = position[t]
    announced = np.empty((t + 3, n_queries))
    for q in range(n_queries):
        row_f = rows[slots[t], q]
        for j in range(t + 1):
            # A_q[f, i] and A_q[i, f] are the same sum of the same products.
            here = position[j] >= 0
            announced[j, q] = row_f[position[j]] if here else rows[slots[j], q, f]
        announced[t + 1, q], announced[t + 2, q] = state[q, 1, f], state[q, 2, f]
    return announced


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
def eliminate(
    beta: Array, delta: Array, pick: Pick, total_rows: Array, q: int, m: Array, h: Array
) -> None:
    """Overwrite m and h (n_features,) with M_f and z_f . z_i of query q after eliminating S.

    `total_rows` begins with A[S, :] and A[f, :]. With R the rows of S: g = A_q[f, :] - beta' R,
    m = M_q[f, :] - beta' (A_S - R) and h = g - delta' (A_S - R). One read of R, four rows at a
    time. Meanwhile those of the next query are brought near: they lie far apart, which no hardware
    foresees.
    """
    rows, slots = pick.rows, pick.slots
    n, t = len(m), len(beta)
    g = np.empty(n)
    row_f, total_f = rows[slots[t], q], total_rows[t]
    for i in range(n):
        g[i], m[i], h[i] = row_f[i], total_f[i] - row_f[i], 0.0
    following = min(q + 1, rows.shape[1] - 1)
    whole = t - t % 4
    for j in range(0, whole, 4):
        for slot in slots[j : j + 4]:
            row = rows[slot, following]
            for i in range(0, n, CACHE_LINE):
                prefetch(row, i)
        b0, b1, b2, b3 = -beta[j], -beta[j + 1], -beta[j + 2], -beta[j + 3]
        c0, c1, c2, c3 = -delta[j], -delta[j + 1], -delta[j + 2], -delta[j + 3]
        r0, r1 = rows[slots[j], q], rows[slots[j + 1], q]
        r2, r3 = rows[slots[j + 2], q], rows[slots[j + 3], q]
        a0, a1, a2, a3 = total_rows[j], total_rows[j + 1], total_rows[j + 2], total_rows[j + 3]
        for i in range(n):
            x0, x1, x2, x3 = r0[i], r1[i], r2[i], r3[i]
            y0, y1, y2, y3 = a0[i] - x0, a1[i] - x1, a2[i] - x2, a3[i] - x3
            g[i] = fma(b3, x3, fma(b2, x2, fma(b1, x1, fma(b0, x0, g[i]))))
            m[i] = fma(b3, y3, fma(b2, y2, fma(b1, y1, fma(b0, y0, m[i]))))
            h[i] = fma(c3, y3, fma(c2, y2, fma(c1, y1, fma(c0, y0, h[i]))))
    for j in range(whole, t):
        b0, c0, r0, a0 = -beta[j], -delta[j], rows[slots[j], q], total_rows[j]
        for i in range(n):
            y0 = a0[i] - r0[i]
            g[i] = fma(b0, r0[i], g[i])
            m[i] = fma(b0, y0, m[i])
            h[i] = fma(c0, y0, h[i])
    for i in range(n):
        h[i] += g[i]


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
def update(block: BlockState, pick: Pick, regularization: float) -> None:
    """Select a feature: one round of the greedy algorithm for every query of a block.

    Changes `block` in place; the scores are those of the next round.
    """
    scores, lanes = block.scores, block.factors.shape[2]
    n, t = len(scores) - 1, len(pick.slots) - 1
    own, r_f, u_f = pick.announced[: t + 1], pick.announced[t + 1], pick.announced[t + 2]
    beta, delta, m, h = np.empty(t), np.empty(t), np.empty(n), np.empty(n)
    block.total_rows[t] = pick.total_row
    scores[:] = 0.0
    for group in range(len(block.factors)):
        first, end = group * lanes, min((group + 1) * lanes, len(block.errors))
        within, factors = block.within[group], block.factors[group]
        pivots = find_pivots(within, factors, own[:, first:end], pick.total_within, regularization)
        for q in range(first, end):
            lane = q - first
            for j in range(t):
                beta[j], delta[j] = pivots.beta[j, lane], pivots.delta[j, lane]
            eliminate(beta, delta, pick, block.total_rows, q, m, h)
            numbers = OwnNumbers(pivots.pivots[lane], pivots.norms[lane], r_f[q], u_f[q])
            lost = advance_state(block.state[q], m, h, numbers, regularization)
            block.errors[q] -= lost
            add_scores(block.state[q], block.errors[q], scores[:n])
            scores[n] += block.errors[q]


@kernel
def held_out_weights(factors: Array, left_out: Array, weights: Array) -> None:
    """Overwrite `weights` with those of every query held out, for every size of the selection.

    Parameters
    ----------
    factors
        (n_groups, at least t (t + 1) / 2, lanes) packed Cholesky factors of M_q[S, S].
    left_out
        (n_queries, t) c_q[S], the products b[S] without the query's own.
    weights
        (n_queries, t, t): row j holds the weights of the first j + 1 features, fitted to all
        queries but q; what is behind them stays.
    """
    t, lanes = left_out.shape[1], factors.shape[2]
    eliminated = np.zeros((t, lanes))
    for group in range(len(factors)):
        queries = range(group * lanes, min((group + 1) * lanes, len(left_out)))
        for q in queries:
            eliminated[:, q % lanes] = left_out[q]
        solve_lower(factors[group], eliminated)
        for size in range(1, t + 1):
            # The factor of the first features is the corner of the factor of all.
            solved = eliminated[:size].copy()
            solve_upper(factors[group], solved)
            for q in queries:
                weights[q, size - 1, :size] = solved[:, q % lanes]


@kernel
def held_out_scores(
    features: NDArray[np.float32],
    query_ptr: NDArray[np.int64],
    weights: Array,
    scores: Array,
) -> None:
    """Overwrite `scores` (t, n_documents) with what documents score while their query is held out.

    Each score is summed document by document in the order of selection, so that equal documents
    tie exactly.

    Parameters
    ----------
    features
        (n_documents, t) columns of S, in its order.
    weights
        (n_queries, t, t) as of `held_out_weights`.
    """
    for q in range(len(query_ptr) - 1):
        for d in range(query_ptr[q], query_ptr[q + 1]):
            for size in range(len(scores)):
                total = 0.0
                for j in range(size + 1):
                    total += weights[q, size, j] * features[d, j]
                scores[size, d] = total
