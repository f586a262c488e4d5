"""State, score and update of greedy RankRLS (`dranking/rankers/greedy/THEORY.md`).

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

from dranking.kernels.lqo.pivots import Picks, Pivots, append_to_gram, empty_pivots, find_pivots
from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import fma

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
    """Add one query's LQO error with each candidate to `scores` (n_features + 1,), and e itself.

    `state` is (4, n_features): E_i = e - 2 a u + a^2 v with a = r / s.
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    for i in range(len(s)):
        a = np.divide(r[i], s[i])  # `/` checks for zero each time, and s is at least lambda
        scores[i] += error - 2.0 * a * u[i] + a * a * v[i]
    scores[len(s)] += error


@kernel
def initial_scores(start: Start, errors: Array, regularization: float, scores: Array) -> None:
    """Overwrite `scores` (n_features + 1,) with those of an empty S, see `BlockState`."""
    n = len(scores) - 1
    state = np.empty((4, n))
    scores[:] = 0.0
    for q in range(len(errors)):
        initial_state(start, q, regularization, state)
        add_scores(state, errors[q], scores)


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
    pivots: Pivots, pick: int, lane: int, picks: Picks, total_rows: Array, q: int, sums: Array
) -> None:
    """Overwrite rows of `sums` (3, n_features) with m, h and g of query q for a pick f.

    These are M_f, z_f . z_i and z_f . x_i after eliminating S. With R the rows of S:
    g = A_q[f, :] - beta' R, m = M_q[f, :] - beta' (A_S - R) and h = g - delta' (A_S - R), summed in
    the order of S, by fused multiplications.

    Parameters
    ----------
    total_rows
        (at least t + 1, n_features) A[i, :] of S and f.
    """
    beta, delta, rows, slots = pivots.beta[pick], pivots.delta[pick], picks.rows, picks.slots
    m, h, g = sums[0], sums[1], sums[2]
    t = len(slots) - len(picks.total_rows) + pick
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
def advance_state(state: Array, sums: Array, own: OwnNumbers, regularization: float) -> float:
    """Bring the state (4, n_features) of one query past the selection of f.

    The first two rows of `sums` are m and h as of `eliminate`. Returns by how much the query's
    error falls. (A function of its own, because Numba vectorises the loop only so.)
    """
    s, r, u, v = state[0], state[1], state[2], state[3]
    m, h = sums[0], sums[1]
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

    The state of a query and its Gram rows are read once for all picks; each pick is selected as it
    would be alone.

    Parameters
    ----------
    state, errors
        State and errors of the block before the picks.
    after
        The block afterwards. Its state and errors are overwritten, and its scores, which are those
        of the round that follows each pick; rows are appended to its other arrays.
    """
    n_picks, n = picks.total_rows.shape
    t, lanes = len(picks.slots) - n_picks, after.factors.shape[2]
    for pick in range(n_picks):
        for i in range(n):
            after.total_rows[t + pick, i] = picks.total_rows[pick, i]
    pivots, sums = empty_pivots(n_picks, t + n_picks, lanes), np.empty((3, n))
    after.scores[:] = 0.0
    for q in range(len(errors)):
        group, lane = q // lanes, q % lanes
        if lane == 0:
            within, factors = after.within[group], after.factors[group]
            for pick in range(n_picks):
                append_to_gram(within, picks, pick, q)
                find_pivots(within, factors, picks, pick, regularization, pivots)
        after_q = after.state[q % len(after.state)]
        if t == 0:
            initial_state(after.start, q, regularization, after_q)
        else:
            for k in range(4):
                for i in range(n):
                    after_q[k, i] = state[q, k, i]
        error = errors[q]
        for pick in range(n_picks):
            eliminate(pivots, pick, lane, picks, after.total_rows, q, sums)
            own = own_numbers(after_q, picks, pivots, pick, lane, q)
            error -= advance_state(after_q, sums, own, regularization)
            add_scores(after_q, error, after.scores[pick])
        after.errors[q] = error


@kernel
def own_numbers(
    state: Array, picks: Picks, pivots: Pivots, pick: int, lane: int, q: int
) -> OwnNumbers:
    """Numbers of a pick f in query q, from the state (4, n_features) or as they were announced."""
    size = len(picks.slots) - len(picks.total_rows) + pick
    if len(picks.announced) > 0:
        r, u = picks.announced[size + 1, q], picks.announced[size + 2, q]
    else:
        r, u = state[1, picks.columns[size]], state[2, picks.columns[size]]
    return OwnNumbers(pivots.pivots[pick, lane], pivots.norms[pick, lane], r, u)
