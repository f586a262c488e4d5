"""One query of CSR features held out: what only the selected features that occur in it change.

S is the ordered list of selected features, P those t' <= t of them that vary within the query; all
others have nothing but zeros in A_q and b_q. So the query is described by X_q[:, P], centred, and
by matrices of t' x t' numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import kernel
from dranking.kernels.dense_gram import Queries
from dranking.kernels.packed import append_to_factors, solve_lower, solve_upper
from dranking.kernels.sparse_gram import Csr, Present, find_present, forget_present

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Fit(NamedTuple):
    """The features selected, and their part of the sums over all queries.

    Attributes
    ----------
    column
        (n_features,) place of a feature in S, or -1.
    selected
        (t,) S.
    gram
        (t, t) A[S, S]; row j is that of the j-th feature.
    products
        (t,) b[S].
    regularization
        lambda.
    """

    column: Indices
    selected: Indices
    gram: Array
    products: Array
    regularization: float


class HeldOut(NamedTuple):
    """Room for one query, used again for the next.

    Attributes
    ----------
    present
        The features that occur.
    labels
        (n_documents,) y_q.
    wanted
        (n_features,) features asked for that vary within the query.
    local
        (n_features,) place of a feature in `wanted`, or -1.
    products
        (n_wanted, t + 1) A_q[P, i] of those, then b_q[i].
    members
        (t,) places of P in S.
    position
        (n_features,) place of a feature in P, or -1.
    centred
        (n_documents, t) X_q[:, P].
    rest
        (t + 1,) what these rounded columns, and then the labels, do not sum to zero.
    gram
        (t, t) G = A_q[P, P].
    inverse
        (t, t) N = M_q[S, S]^-1 at P.
    factor
        (t (t + 1) / 2, 1) packed Cholesky factor of M_q[S, S].
    weights
        (t, 1) those of S fitted to all other queries.
    pull
        (t,) X_q[:, P]' p_q, p_q the residual of the labels while the query is held out.
    """

    present: Present
    labels: Array
    wanted: Indices
    local: Indices
    products: Array
    members: Indices
    position: Indices
    centred: Array
    rest: Array
    gram: Array
    inverse: Array
    factor: Array
    weights: Array
    pull: Array


class Found(NamedTuple):
    """Features that occur in a query, those of them with products, members, and y_q . y_q."""

    n_present: int
    n_wanted: int
    n_members: int
    label_norm: float


@kernel
def room_for_queries(x: Csr, queries: Queries, n_features: int, t: int) -> HeldOut:
    """Room for any of these queries."""
    n_documents, n_values = 0, 0
    for q in range(len(queries.ptr) - 1):
        start, end = queries.ptr[q], queries.ptr[q + 1]
        n_documents = max(n_documents, end - start)
        n_values = max(n_values, x.indptr[end] - x.indptr[start])
    counters = np.zeros((2, n_features), dtype=np.int64)
    return HeldOut(
        Present(np.zeros(n_features), np.zeros(n_features), counters[0], counters[1]),
        np.empty(n_documents),
        np.empty(n_features, dtype=np.int64),
        np.full(n_features, -1, dtype=np.int64),
        np.empty((min(n_values, n_features), t + 1)),
        np.empty(t, dtype=np.int64),
        np.full(n_features, -1, dtype=np.int64),
        np.empty((n_documents, t)),
        np.empty(t + 1),
        np.empty((t, t)),
        np.empty((t, t)),
        np.empty((t * (t + 1) // 2, 1)),
        np.empty((t, 1)),
        np.empty(t),
    )


@kernel
def centre_labels(relevance: Array, start: int, end: int, labels: Array) -> tuple[float, float]:
    """Overwrite `labels` with the centred relevance of documents start to end.

    Returns their squared norm, and what the rounded labels do not sum to zero.
    """
    centre, norm, rest = 0.0, 0.0, 0.0
    for d in range(start, end):
        centre += relevance[d]
    centre /= end - start
    for d in range(end - start):
        label = relevance[start + d] - centre
        labels[d] = label
        norm += label * label
        rest += label
    return norm, rest


@kernel
def centre_members(x: Csr, start: int, end: int, fit: Fit, query: HeldOut) -> int:
    """Fill members, position, centred columns and their rest; returns the number of members."""
    present, p = query.present, 0
    for j in range(len(fit.selected)):
        i = fit.selected[j]
        if present.squares[i] > 0.0:
            query.members[p] = j
            query.position[i] = p
            query.rest[p] = 0.0
            p += 1
    if p == 0:
        return 0
    for d in range(start, end):
        row = query.centred[d - start]
        for k in range(p):
            row[k] = -present.mean[fit.selected[query.members[k]]]
        for e in range(x.indptr[d], x.indptr[d + 1]):
            i = x.indices[e]
            if query.position[i] >= 0:
                row[query.position[i]] = x.data[e] - present.mean[i]
        for k in range(p):
            query.rest[k] += row[k]
    return p


@kernel
def multiply_wanted(
    x: Csr, start: int, end: int, p: int, n_wanted: int, weight: float, query: HeldOut
) -> None:
    """Fill products, in one read of the query's nonzeros."""
    products, rest, mean = query.products, query.rest, query.present.mean
    products[:n_wanted, : p + 1] = 0.0
    for d in range(start, end):
        label, row = query.labels[d - start], query.centred[d - start]
        for e in range(x.indptr[d], x.indptr[d + 1]):
            o = query.local[x.indices[e]]
            if o >= 0:
                out, value = products[o], x.data[e]
                for k in range(p):
                    out[k] += row[k] * value
                out[p] += label * value
    for o in range(n_wanted):
        # What centring left over, times the mean: the other side of the centring.
        for k in range(p + 1):
            products[o, k] = weight * (products[o, k] - rest[k] * mean[query.wanted[o]])


@kernel
def enter_query(
    x: Csr,
    relevance: Array,
    queries: Queries,
    q: int,
    fit: Fit,
    place: Indices,
    query: HeldOut,
) -> Found:
    """Fill what the nonzeros of query q say: all up to `rest`.

    `place` is (n_features,), at least 0 for the features asked for beside S.
    """
    start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
    present = query.present
    norm, rest = centre_labels(relevance, start, end, query.labels)
    n_present = find_present(x, x.indptr[start], x.indptr[end], end - start, present)
    n_wanted = 0
    for o in range(n_present):
        i = present.features[o]
        if (place[i] >= 0 or fit.column[i] >= 0) and present.squares[i] > 0.0:
            query.wanted[n_wanted] = i
            query.local[i] = n_wanted
            n_wanted += 1
    p = centre_members(x, start, end, fit, query)
    query.rest[p] = rest
    multiply_wanted(x, start, end, p, n_wanted, weight, query)
    return Found(n_present, n_wanted, p, weight * norm)


@kernel
def leave_query(found: Found, query: HeldOut) -> None:
    """Make room for the next query."""
    for o in range(found.n_wanted):
        query.local[query.wanted[o]] = -1
        query.position[query.wanted[o]] = -1
    forget_present(query.present, found.n_present)


@kernel
def hold_out(p: int, fit: Fit, query: HeldOut) -> None:
    """Fill gram, factor, and c_q[S] in the place of weights.

    The sums are those of the Gram rows, bit for bit: a feature that occurs in this query alone
    leaves exactly nothing.
    """
    gram, members, weights = query.gram, query.members, query.weights
    weights[:, 0] = fit.products
    for b in range(p):
        products = query.products[query.local[fit.selected[members[b]]]]
        for a in range(b + 1):
            gram[a, b] = products[a]
            gram[b, a] = products[a]
        weights[members[b], 0] -= products[p]
    t, b = len(fit.selected), 0
    column, corner = np.empty((t, 1)), np.empty(1)
    for k in range(t):
        column[:k, 0] = fit.gram[:k, k]
        corner[0] = fit.gram[k, k]
        if b < p and members[b] == k:
            for a in range(b):
                column[members[a], 0] -= gram[a, b]
            corner[0] -= gram[b, b]
            b += 1
        corner[0] += fit.regularization
        append_to_factors(query.factor, column[:k], corner, fit.regularization)


@kernel
def fit_others(size: int, p: int, weight: float, query: HeldOut) -> float:
    """Turn c_q[S] into weights; fill inverse and pull; returns e[q] = p_q . p_q.

    `size` is the number of documents of the query, `weight` its own.
    """
    solve_lower(query.factor, query.weights)
    solve_upper(query.factor, query.weights)
    unit = np.empty(query.weights.shape)
    for b in range(p):
        unit[:] = 0.0
        unit[query.members[b]] = 1.0
        solve_lower(query.factor, unit)
        solve_upper(query.factor, unit)
        for a in range(p):
            query.inverse[a, b] = unit[query.members[a], 0]
    error = 0.0
    query.pull[:p] = 0.0
    for d in range(size):
        left, row = query.labels[d], query.centred[d]
        for k in range(p):
            left -= row[k] * query.weights[query.members[k], 0]
        error += left * left
        for k in range(p):
            query.pull[k] += weight * row[k] * left
    return weight * error
