"""The leave-query-out criterion on CSR features, without arrays that are kept per query.

S is the ordered list of selected features. A fit of S to *all* queries gives every candidate i
coefficients c_i = (A[S,S] + lambda I)^-1 A[S,i], and so a residual z0 = x_qi - X_q[:,S] c_i among
the documents of a query. Holding query q out turns such a residual into

    z = (I + X_q[:,S] M_q[S,S]^-1 X_q[:,S]') z0

(Woodbury; M_q is the Gram matrix of the other queries plus lambda I). Let p and p0 be z and z0 of
the labels in place of a feature, w the weights of S, and d = A[i,i] + lambda - A[S,i]'c_i the Schur
complement of the fit to all queries. The four numbers of the state
(`dranking/rankrls/greedy/THEORY.md`) are

    s = d - z0'z        r = b[i] - A[S,i]'w - z0'p        u = p'z        v = z'z

Only P matters, the features of S that vary within q. Let c and x be c_i and A_q[.,i] at P, and
G = A_q[P,P], N = M_q[S,S]^-1 at P, k = X_q[:,P]'p and w_q the weights at P with q held out. Then
with

    g = X_q[:,P]'z0 = x - G c        h = N g        z = z0 + X_q[:,P] h
    z0'z0 = A_q[i,i] - c'(x + g)     p'z0 = b_q[i] - w_q'x - c'k

all four numbers are sums over P: z0'z = z0'z0 + g'h, u = p'z0 + k'h and v = z0'z0 + 2 g'h + h'G h.
A feature that does not vary within q has x = 0, A_q[i,i] = 0 and b_q[i] = 0, and the remaining
terms are quadratic and linear forms of c, which are the same forms for all such features.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.gram.dense import Queries
from dranking.rankrls.kernels.gram.sparse import Csr
from dranking.rankrls.kernels.gram.sparse_query import (
    Fit,
    Found,
    HeldOut,
    arrays_for_queries,
    enter_query,
)
from dranking.rankrls.kernels.lqo.sparse_fits import Candidates, add_product
from dranking.rankrls.kernels.lqo.sparse_forms import (
    absent_forms,
    add_forms,
    present_forms,
)
from dranking.rankrls.kernels.lqo.sparse_hold_out import add_multiple, fit_others, hold_out

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Pair: TypeAlias = tuple[int, int]

STRIP = 1_024
"""Number of candidates scored at a time, whose sums stay in the first-level cache."""


class Workspace(NamedTuple):
    """Arrays for the candidates of a query, used again for the next query.

    Attributes
    ----------
    state
        (4, STRIP) s, r, u and v of candidates that do not vary in the query.
    present
        (7, n_present) s, r, u and v of the features that occur, two rows of sums, and gains.
    coefficients
        (t + 1, n_present) c of the features that occur.
    gains, complements
        (n_candidates,) gains and s in the query.
    """

    state: Array
    present: Array
    coefficients: Array
    gains: Array
    complements: Array


@kernel
def finish_gains(state: Array, least: float, gains: Array, complements: Array) -> None:
    """Overwrite `gains` with a^2 v - 2 a u for a = r / s, and `complements` with s.

    s is at least `least`, v at least 0.
    """
    n = len(gains)
    s, r, u, v = state[0][:n], state[1][:n], state[2][:n], state[3][:n]
    for i in range(n):
        complements[i] = s[i] if s[i] > least else least  # also where s is NaN
        a = np.divide(r[i], complements[i])  # `/` checks for zero each time
        gains[i] = a * (a * max(v[i], 0.0) - 2.0 * u[i])


@kernel
def start_absent(
    candidates: Candidates, first: int, n: int, regularization: float, state: Array
) -> None:
    """Overwrite `state` with s, r, u and v of n candidates before forms are applied."""
    diagonal, explained = candidates.diagonal, candidates.explained_diagonal
    products, known = candidates.products, candidates.explained_products
    for i in range(n):
        state[0, i] = diagonal[first + i] + regularization - explained[first + i]
        state[1, i] = products[first + i] - known[first + i]
        state[2, i] = 0.0
        state[3, i] = 0.0


@kernel
def absent_gains(
    p: int, query: HeldOut, candidates: Candidates, regularization: float, work: Workspace
) -> None:
    """Overwrite the gains as if no candidate varied in the query."""
    forms, gains, complements = absent_forms(p, query), work.gains, work.complements
    for first in range(0, len(gains), STRIP):
        n = min(STRIP, len(gains) - first)
        start_absent(candidates, first, n, regularization, work.state)
        add_forms(forms, candidates.coefficients, first, n, work.state)
        here = slice(first, first + n)
        finish_gains(work.state, regularization, gains[here], complements[here])


@kernel
def gather(values: Array, places: Indices, out: Array) -> None:
    """Overwrite `out` with the values at some places; a place below 0 may yield any value."""
    for o in range(len(places)):
        out[o] = values[max(places[o], 0)]


@kernel
def residual_products(p: int, query: HeldOut, c: Array, shared: Array, known: Array) -> None:
    """Turn the products x into g = x - G c; add c'(x + g) to `shared`, w_q'x + c'k to `known`."""
    n = len(known)
    for a in range(p):
        x, c_a = query.products[a][:n], c[a][:n]
        add_multiple(query.weights[query.members[a], 0], x, known)
        add_multiple(query.pull[a], c_a, known)
        add_product(c_a, x, shared)
        for b in range(p):
            add_multiple(-query.gram[a, b], c[b][:n], x)
        add_product(c_a, x, shared)


@kernel
def start_present(
    weight: float, squares: Array, products: Array, regularization: float, present: Array
) -> None:
    """Turn rows of `present` into s, r, u and v before forms are applied.

    On entry, rows 0 to 5 hold A[i,i], b[i], A[S,i]'c_i, A[S,i]'w, c'(x + g) and w_q'x + c'k.
    `squares` is A_q[i,i] without the query weight, and `products` is b_q[i].
    """
    for i in range(len(squares)):
        own, product = weight * squares[i], products[i]
        shared, known = present[4, i], present[5, i]
        s = (present[0, i] - own) + regularization - (present[2, i] - shared)
        r = (present[1, i] - product) - (present[3, i] - known)
        present[0, i], present[1, i] = s, r
        present[2, i], present[3, i] = product - known, max(own - shared, 0.0)


@kernel
def present_gains(
    found: Found,
    weight: float,
    query: HeldOut,
    candidates: Candidates,
    regularization: float,
    work: Workspace,
) -> None:
    """Overwrite the gains of the candidates that vary in the query."""
    n, p = found.n_present, found.n_members
    places, squares = query.entries.roles[:n], query.entries.squares[:n]
    present, gains, complements = work.present, work.present[6][:n], work.present[5][:n]
    for a in range(p):
        gather(candidates.coefficients[query.members[a]], places, work.coefficients[a])
    gather(candidates.diagonal, places, present[0])
    gather(candidates.products, places, present[1])
    gather(candidates.explained_diagonal, places, present[2])
    gather(candidates.explained_products, places, present[3])
    for o in range(n):
        present[4, o], present[5, o] = 0.0, 0.0
    residual_products(p, query, work.coefficients, present[4][:n], present[5][:n])
    start_present(weight, squares, query.products[p], regularization, present)
    add_forms(present_forms(p, query), query.products, 0, n, present)
    finish_gains(present, regularization, gains, complements)
    for o in range(n):
        if places[o] >= 0 and squares[o] > 0.0:
            work.gains[places[o]] = gains[o]
            work.complements[places[o]] = complements[o]


@kernel
def workspace_for(query: HeldOut, n_candidates: int) -> Workspace:
    """Arrays for the candidates of any query for which `query` is large enough."""
    shape = query.products.shape
    return Workspace(
        np.empty((4, STRIP)),
        np.empty((7, shape[1])),
        np.empty(shape),
        np.empty(n_candidates),
        np.empty(n_candidates),
    )


@kernel
def take_least(values: Array, least: Array) -> None:
    """Replace the elements of `least` by the smaller of themselves and the values."""
    for i in range(len(least)):
        least[i] = min(least[i], values[i])


@kernel
def add_gains(
    x: Csr,
    relevance: Array,
    queries: Queries,
    fit: Fit,
    candidates: Candidates,
    gains: Array,
    least: Array,
) -> float:
    """Add to `gains` the change of the leave-query-out error if a candidate is selected.

    Parameters
    ----------
    relevance
        (n_documents,) without NaN.
    gains
        (n_candidates,) changes, negative if the error falls.
    least
        (n_candidates,) takes the smaller of itself and the smallest s over the queries.

    Returns
    -------
    The leave-query-out error of S without a candidate, summed over the queries in order.
    """
    query, error = arrays_for_queries(x, queries, fit), 0.0
    work = workspace_for(query, len(gains))
    for q in range(len(queries.ptr) - 1):
        weight = queries.weights[q]
        found = enter_query(x, relevance, queries, q, fit, query)
        p = found.n_members
        if p > 0:
            hold_out(p, fit, query)
            error += fit_others(queries.ptr[q + 1] - queries.ptr[q], p, weight, query)
        else:
            error += found.label_norm
        if len(gains) == 0:
            continue
        if p > 0:
            absent_gains(p, query, candidates, fit.regularization, work)
        else:
            work.gains[:], work.complements[:] = 0.0, np.inf
        present_gains(found, weight, query, candidates, fit.regularization, work)
        add_multiple(1.0, work.gains, gains)
        take_least(work.complements, least)
    return error
