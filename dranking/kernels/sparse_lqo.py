"""The leave-query-out criterion on CSR features; nothing is kept of any query.

S is the ordered list of selected features. A fit of S to *all* queries gives every candidate i
coefficients c_i = (A[S,S] + lambda I)^-1 A[S,i], and so a residual z0 = x_qi - X_q[:,S] c_i among
the documents of a query. Holding query q out turns such a residual into

    z = (I + X_q[:,S] M_q[S,S]^-1 X_q[:,S]') z0

(Woodbury; M_q is the Gram matrix of the other queries plus lambda I). With p and p0 the same of the
labels, w the weights of S and d the Schur complement A[i,i] + lambda - A[S,i]'c_i of the fit to all
queries, the four numbers of the design (greedy RankRLS) are

    s = d - z0'z        r = b[i] - A[S,i]'w - z0'p        u = p'z        v = z'z

Only P counts, the members of S that vary within q. Let c, x be c_i and A_q[.,i] at P, G = A_q[P,P],
N = M_q[S,S]^-1 at P, k = X_q[:,P]'p and w_q the weights at P with q held out. Then with

    g = X_q[:,P]'z0 = x - G c        h = N g        z = z0 + X_q[:,P] h
    z0'z0 = A_q[i,i] - c'(x + g)     p'z0 = b_q[i] - w_q'x - c'k

all are sums over P: z0'z = z0'z0 + g'h, u = p'z0 + k'h and v = z0'z0 + 2 g'h + h'G h. A feature
that does not vary within q has x = 0, A_q[i,i] = 0 and b_q[i] = 0, and what is left are quadratic
and linear forms of c that are the same for all such features.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import kernel
from dranking.kernels.dense_gram import Queries
from dranking.kernels.packed import append_to_factors, packed_row, solve_lower
from dranking.kernels.sparse_gram import Csr
from dranking.kernels.sparse_query import (
    Fit,
    HeldOut,
    enter_query,
    fit_others,
    hold_out,
    leave_query,
    room_for_queries,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

STRIP = 512
"""Candidates scored at a time: what is added up of them stays in the first-level cache."""


class Candidates(NamedTuple):
    """Features to score, and what S explains of them over all queries.

    Attributes
    ----------
    place
        (n_features,) place of a feature among the candidates, or -1.
    coefficients
        (t, n_candidates) c_i.
    diagonal, products
        (n_candidates,) A[i, i] and b[i].
    explained_diagonal, explained_products
        (n_candidates,) A[S, i]'c_i and A[S, i]'w.
    """

    place: Indices
    coefficients: Array
    diagonal: Array
    products: Array
    explained_diagonal: Array
    explained_products: Array


class Forms(NamedTuple):
    """What the criterion of a feature that does not vary within a query is made of.

    Attributes
    ----------
    explained
        (p, p) s = A[i,i] + lambda - A[S,i]'c_i - c' explained c.
    norm
        (p, p) v = c' norm c. Of both the upper triangle, what is beside the diagonal doubled.
    pull
        (p,) u = -pull'c.
    """

    explained: Array
    norm: Array
    pull: Array


@kernel
def absent_forms(p: int, query: HeldOut) -> Forms:
    """With T = I + N G, z = -X_q[:,P] T c: the forms are G T, T'G T and T'k."""
    turned, explained, norm, pull = np.eye(p), np.zeros((p, p)), np.zeros((p, p)), np.zeros(p)
    for a in range(p):
        for j in range(p):
            turned[a] += query.inverse[a, j] * query.gram[j, :p]
    for a in range(p):
        for j in range(p):
            explained[a] += query.gram[a, j] * turned[j]
    for j in range(p):
        pull += turned[j] * query.pull[j]
        for a in range(p):
            norm[a] += turned[j, a] * explained[j]
    for a in range(p):
        for b in range(a + 1, p):
            explained[a, b] += explained[b, a]
            norm[a, b] += norm[b, a]
    return Forms(explained, norm, pull)


@kernel
def absent_gains(
    p: int, query: HeldOut, candidates: Candidates, regularization: float, gains: Array
) -> None:
    """Overwrite `gains` (n_candidates,) with those of features that do not vary in the query."""
    forms = absent_forms(p, query)
    s, r, u, v = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    for first in range(0, len(gains), STRIP):
        m = min(STRIP, len(gains) - first)
        here = slice(first, first + m)
        diagonal, explained = candidates.diagonal[here], candidates.explained_diagonal[here]
        products, known = candidates.products[here], candidates.explained_products[here]
        for i in range(m):
            s[i] = diagonal[i] + regularization - explained[i]
            r[i] = products[i] - known[i]
            u[i] = 0.0
            v[i] = 0.0
        for a in range(p):
            left = candidates.coefficients[query.members[a], here]
            to_r, to_u = query.pull[a], forms.pull[a]
            for i in range(m):
                r[i] += to_r * left[i]
                u[i] -= to_u * left[i]
            for b in range(a, p):
                right = candidates.coefficients[query.members[b], here]
                to_s, to_v = forms.explained[a, b], forms.norm[a, b]
                for i in range(m):
                    product = left[i] * right[i]
                    s[i] -= to_s * product
                    v[i] += to_v * product
        out = gains[here]
        for i in range(m):
            a_i = np.divide(r[i], max(s[i], regularization))
            out[i] = a_i * (a_i * max(v[i], 0.0) - 2.0 * u[i])


@kernel
def present_gain(
    i: int,
    p: int,
    weight: float,
    query: HeldOut,
    candidates: Candidates,
    regularization: float,
    g: Array,
    h: Array,
) -> float:
    """The gain of a candidate that varies within the query; `g` and `h` are room for p numbers."""
    place, products = candidates.place[i], query.products[query.local[i]]
    squares, product = weight * query.present.squares[i], products[p]
    shared, known, along, u = 0.0, 0.0, 0.0, product  # c'(x + g), w_q'x + c'k, g'h and u
    for a in range(p):
        g[a] = products[a]
        for b in range(p):
            g[a] -= query.gram[a, b] * candidates.coefficients[query.members[b], place]
    for a in range(p):
        member = query.members[a]
        c = candidates.coefficients[member, place]
        h[a] = 0.0
        for b in range(p):
            h[a] += query.inverse[a, b] * g[b]
        shared += c * (products[a] + g[a])
        known += query.weights[member, 0] * products[a] + c * query.pull[a]
        along += g[a] * h[a]
        u += query.pull[a] * h[a]
    norm = squares - shared  # z0'z0
    v = max(norm, 0.0) + 2.0 * along
    for a in range(p):
        for b in range(p):
            v += h[a] * query.gram[a, b] * h[b]
    u -= known
    s = (candidates.diagonal[place] - squares) + regularization
    s -= candidates.explained_diagonal[place] - shared + along
    r = (candidates.products[place] - product) - (candidates.explained_products[place] - known)
    a_i = r / max(s, regularization)
    gain: float = a_i * (a_i * v - 2.0 * u)
    return gain


@kernel
def add_gains(
    x: Csr,
    relevance: Array,
    queries: Queries,
    fit: Fit,
    candidates: Candidates,
    gains: Array,
) -> float:
    """Add what each candidate would change of the leave-query-out error to `gains`.

    Parameters
    ----------
    relevance
        (n_documents,) without NaN.
    gains
        (n_candidates,); negative where the error falls.

    Returns
    -------
    The error with S alone, summed over the queries in order.
    """
    t, regularization = len(fit.selected), fit.regularization
    query = room_for_queries(x, queries, len(fit.column), t)
    own, g, h, error = np.zeros(len(gains)), np.empty(t), np.empty(t), 0.0
    for q in range(len(queries.ptr) - 1):
        weight = queries.weights[q]
        found = enter_query(x, relevance, queries, q, fit, candidates.place, query)
        p = found.n_members
        if p > 0:
            hold_out(p, fit, query)
            error += fit_others(queries.ptr[q + 1] - queries.ptr[q], p, weight, query)
            absent_gains(p, query, candidates, regularization, own)
        else:
            error += found.label_norm
        for o in range(found.n_wanted):
            i = query.wanted[o]
            place = candidates.place[i]
            if place >= 0:
                gain = present_gain(i, p, weight, query, candidates, regularization, g, h)
                if p > 0:
                    own[place] = gain
                else:
                    gains[place] += gain
        if p > 0:
            gains += own
        leave_query(found, query)
    return error


@kernel
def held_out_factors(
    x: Csr, relevance: Array, queries: Queries, fit: Fit, factors: Array, left_out: Array
) -> None:
    """Overwrite what `lqo.held_out_weights` takes.

    Parameters
    ----------
    factors
        (n_groups, t (t + 1) / 2, lanes) packed Cholesky factors of M_q[S, S].
    left_out
        (n_queries, t) c_q[S].
    """
    query = room_for_queries(x, queries, len(fit.column), len(fit.selected))
    nothing, lanes = np.full(len(fit.column), -1, dtype=np.int64), factors.shape[2]
    for q in range(len(queries.ptr) - 1):
        found = enter_query(x, relevance, queries, q, fit, nothing, query)
        hold_out(found.n_members, fit, query)
        factors[q // lanes, :, q % lanes] = query.factor[:, 0]
        left_out[q] = query.weights[:, 0]
        leave_query(found, query)


@kernel
def fit_to_all(
    fit: Fit, coefficients: Array, explained_diagonal: Array, explained_products: Array
) -> None:
    """Overwrite the last three with what S explains of every candidate.

    `coefficients` comes as (t, n_candidates) A[S, i]. Every candidate goes through the same
    operations, so copies stay equal in every bit.
    """
    t = len(fit.selected)
    factor, column, corner = np.empty((packed_row(t), 1)), np.empty((t, 1)), np.empty(1)
    for k in range(t):
        column[:k, 0] = fit.gram[:k, k]
        corner[0] = fit.gram[k, k] + fit.regularization
        append_to_factors(factor, column[:k], corner, fit.regularization)
    labels = fit.products.copy().reshape(t, 1)
    solve_lower(factor, labels)
    explained_diagonal[:] = 0.0
    explained_products[:] = 0.0
    for j in range(t):
        own, row = coefficients[j], factor[packed_row(j) : packed_row(j + 1), 0]
        for k in range(j):
            own -= row[k] * coefficients[k]
        own /= row[j]
        explained_diagonal += own * own
        explained_products += own * labels[j, 0]
    for j in range(t - 1, -1, -1):
        own, row = coefficients[j], factor[packed_row(j) : packed_row(j + 1), 0]
        own /= row[j]
        for k in range(j):
            coefficients[k] -= row[k] * own


def explain(
    fit: Fit, candidates: Indices, total_columns: Array, diagonal: Array, products: Array
) -> Candidates:
    """What the selected features explain of some candidates, over all queries.

    Parameters
    ----------
    candidates
        (n_candidates,) features, distinct.
    total_columns
        (t, n_candidates) A[S, i] of these.
    diagonal, products
        (n_candidates,) A[i, i] and b[i].
    """
    place = np.full(len(fit.column), -1, dtype=np.int64)
    place[candidates] = np.arange(len(candidates))
    found = Candidates(
        place,
        total_columns.copy(),
        diagonal,
        products,
        np.zeros(len(candidates)),
        np.zeros(len(candidates)),
    )
    fit_to_all(fit, found.coefficients, found.explained_diagonal, found.explained_products)
    return found
