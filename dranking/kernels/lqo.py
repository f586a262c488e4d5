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
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import kernel

Array = NDArray[np.float64]


class BlockState(NamedTuple):
    """What a block knows of one path of selections.

    Attributes
    ----------
    state
        (n_queries, 4, n_features), as above.
    errors
        (n_queries,), as above.
    factors
        (n_queries, size (size + 1) / 2) packed Cholesky factors of M_q[S, S].
    scores
        (n_features + 1,) LQO error of the block with each candidate, and the present one. Both
        are sums over the queries in order, so that a feature without any effect ties the present
        error in every bit.
    """

    state: Array
    errors: Array
    factors: Array
    scores: Array


class Pick(NamedTuple):
    """A feature to select; t features are selected before it.

    Attributes
    ----------
    selected
        (t + 1,) S and, last, the new feature f.
    slots
        (t + 1,) where the Gram rows of these are kept.
    total_rows
        (t + 1, n_features) their rows A[i, :], summed over all queries.
    """

    selected: NDArray[np.int64]
    slots: NDArray[np.int64]
    total_rows: Array


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
def subtract_rows(
    beta: Array,
    rows: Array,
    q: int,
    slots: NDArray[np.int64],
    total_rows: Array,
    g: Array,
    m: Array,
) -> None:
    """`g -= beta' R` and `m -= beta' (A_S - R)`, R the rows of S for query q; four at a time."""
    n = len(g)
    t = len(beta)
    whole = t - t % 4
    for j in range(0, whole, 4):
        b0, b1, b2, b3 = beta[j], beta[j + 1], beta[j + 2], beta[j + 3]
        r0, r1 = rows[slots[j], q], rows[slots[j + 1], q]
        r2, r3 = rows[slots[j + 2], q], rows[slots[j + 3], q]
        a0, a1, a2, a3 = total_rows[j], total_rows[j + 1], total_rows[j + 2], total_rows[j + 3]
        for i in range(n):
            g[i] = (((g[i] - b0 * r0[i]) - b1 * r1[i]) - b2 * r2[i]) - b3 * r3[i]
            m[i] = (
                ((m[i] - b0 * (a0[i] - r0[i])) - b1 * (a1[i] - r1[i])) - b2 * (a2[i] - r2[i])
            ) - b3 * (a3[i] - r3[i])
    for j in range(whole, t):
        b0, r0, a0 = beta[j], rows[slots[j], q], total_rows[j]
        for i in range(n):
            g[i] -= b0 * r0[i]
            m[i] -= b0 * (a0[i] - r0[i])


@kernel
def subtract_left_out_rows(
    delta: Array,
    rows: Array,
    q: int,
    slots: NDArray[np.int64],
    total_rows: Array,
    h: Array,
) -> None:
    """`h -= delta' (A_S - R)`, R the rows of S for query q; four at a time."""
    n = len(h)
    t = len(delta)
    whole = t - t % 4
    for j in range(0, whole, 4):
        b0, b1, b2, b3 = delta[j], delta[j + 1], delta[j + 2], delta[j + 3]
        r0, r1 = rows[slots[j], q], rows[slots[j + 1], q]
        r2, r3 = rows[slots[j + 2], q], rows[slots[j + 3], q]
        a0, a1, a2, a3 = total_rows[j], total_rows[j + 1], total_rows[j + 2], total_rows[j + 3]
        for i in range(n):
            h[i] = (
                ((h[i] - b0 * (a0[i] - r0[i])) - b1 * (a1[i] - r1[i])) - b2 * (a2[i] - r2[i])
            ) - b3 * (a3[i] - r3[i])
    for j in range(whole, t):
        b0, r0, a0 = delta[j], rows[slots[j], q], total_rows[j]
        for i in range(n):
            h[i] -= b0 * (a0[i] - r0[i])


@kernel
def solve_lower(factor: Array, x: Array) -> None:
    """Overwrite x (t,) with L^-1 x, `factor` holding L's rows packed one behind the other."""
    for i in range(len(x)):
        row = i * (i + 1) // 2
        total = x[i]
        for j in range(i):
            total -= factor[row + j] * x[j]
        x[i] = total / factor[row + i]


@kernel
def solve_upper(factor: Array, x: Array) -> None:
    """Overwrite x (t,) with L'^-1 x."""
    for i in range(len(x) - 1, -1, -1):
        row = i * (i + 1) // 2
        x[i] /= factor[row + i]
        value = x[i]
        for j in range(i):
            x[j] -= factor[row + j] * value


@kernel
def append_to_factor(factor: Array, column: Array, corner: float, least: float) -> float:
    """Append a row to the packed Cholesky factor of M[S, S]: that of a feature f.

    Parameters
    ----------
    column
        (t,) M[S, f]; becomes beta = M[S, S]^-1 M[S, f].
    corner, least
        M[f, f], and the smallest pivot there can be.

    Returns
    -------
    The pivot: the Schur complement of M at f.
    """
    t = len(column)
    row = t * (t + 1) // 2
    solve_lower(factor, column)
    pivot = corner
    for j in range(t):
        factor[row + j] = column[j]
        pivot -= column[j] * column[j]
    pivot = max(pivot, least)
    factor[row + t] = np.sqrt(pivot)
    solve_upper(factor, column)
    return pivot


@kernel
def advance_state(state: Array, m: Array, h: Array, f: int, regularization: float) -> float:
    """Bring the state (4, n_features) of one query past the selection of f.

    `m` and `h` are (n_features,) M_f and z_f . z_i after eliminating S. Returns what the query's
    error loses. (A function of its own because only so Numba vectorises the loop.)
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    scale = 1.0 / m[f]
    # z_f . z_f is taken from h, found with the factor: where features nearly copy each other, what
    # the recursion for v knows of f has lost more digits than the two agree on.
    r_f, u_f, v_f = r[f], u[f], max(h[f], 0.0)
    a_f = r_f * scale
    for i in range(len(m)):
        rho = m[i] * scale
        u[i] += a_f * (rho * v_f - h[i]) - rho * u_f
        v[i] = max(v[i] + rho * (rho * v_f - 2.0 * h[i]), 0.0)
        s[i] = max(s[i] - rho * m[i], regularization)
        r[i] -= rho * r_f
    lost: float = 2.0 * a_f * u_f - a_f * a_f * v_f
    return lost


@kernel
def update(block: BlockState, rows: Array, pick: Pick, regularization: float) -> None:
    """Select a feature: one round of the greedy algorithm for every query of a block.

    Changes `block` in place; a row is appended to each Cholesky factor, and the scores are those
    of the next round.

    Parameters
    ----------
    rows
        (capacity, n_queries, n_features) Gram rows A_q[i, :] kept.
    """
    state, errors, scores = block.state, block.errors, block.scores
    selected, slots, total_rows = pick.selected, pick.slots, pick.total_rows
    n = state.shape[2]
    t = len(selected) - 1
    f = selected[t]
    beta, delta = np.empty(t), np.empty(t)
    g, m, h = np.empty(n), np.empty(n), np.empty(n)
    total_f = total_rows[t]
    scores[:] = 0.0
    for q in range(len(errors)):
        row_f, factor = rows[slots[t], q], block.factors[q]
        for j in range(t):
            beta[j] = total_rows[j, f] - rows[slots[j], q, f]
        corner = total_f[f] - row_f[f] + regularization
        pivot = append_to_factor(factor, beta, corner, regularization)

        for i in range(n):
            g[i] = row_f[i]
            m[i] = total_f[i] - row_f[i]
        subtract_rows(beta, rows, q, slots, total_rows, g, m)
        m[f] = pivot  # the same to rounding, and the one that the factor holds
        for j in range(t):
            delta[j] = g[selected[j]]
        solve_lower(factor, delta)
        solve_upper(factor, delta)
        h[:] = g
        subtract_left_out_rows(delta, rows, q, slots, total_rows, h)

        errors[q] -= advance_state(state[q], m, h, f, regularization)
        add_scores(state[q], errors[q], scores[:n])
        scores[n] += errors[q]


@kernel
def held_out_weights(factors: Array, left_out: Array, weights: Array) -> None:
    """Overwrite `weights` with those of every query held out, for every size of the selection.

    Parameters
    ----------
    factors
        (n_queries, at least t (t + 1) / 2) packed Cholesky factors of M_q[S, S].
    left_out
        (n_queries, t) c_q[S], the products b[S] without the query's own.
    weights
        (n_queries, t, t): row j holds the weights of the first j + 1 features, fitted to all
        queries but q; what is behind them stays.
    """
    for q in range(len(factors)):
        eliminated = left_out[q].copy()
        solve_lower(factors[q], eliminated)
        for j in range(len(eliminated)):
            # The factor of the first features is the corner of the factor of all.
            weights[q, j, : j + 1] = eliminated[: j + 1]
            solve_upper(factors[q], weights[q, j, : j + 1])


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
