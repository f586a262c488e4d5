"""The leave-query-out criterion on CSR features, without arrays that are kept per query.

S is the ordered list of selected features. A fit of S to *all* queries gives every candidate i
coefficients c_i = (A[S,S] + lambda I)^-1 A[S,i], and so a residual z0 = x_qi - X_q[:,S] c_i among
the documents of a query. Holding query q out turns such a residual into

    z = (I + X_q[:,S] M_q[S,S]^-1 X_q[:,S]') z0

(Woodbury; M_q is the Gram matrix of the other queries plus lambda I). Let p and p0 be z and z0 of
the labels in place of a feature, w the weights of S, and d = A[i,i] + lambda - A[S,i]'c_i the Schur
complement of the fit to all queries. The four numbers of the state
(`dranking/rankers/greedy/THEORY.md`) are

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

from dranking.kernels.gram.dense import Queries
from dranking.kernels.gram.sparse import Csr
from dranking.kernels.gram.sparse_query import (
    NOT_ASKED,
    Fit,
    Found,
    HeldOut,
    arrays_for_queries,
    enter_query,
)
from dranking.kernels.lqo.pivots import append_to_factors, packed_row, solve_lower
from dranking.kernels.lqo.sparse_hold_out import add_multiple, fit_others, hold_out
from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import fma

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Pair: TypeAlias = tuple[int, int]

STRIP = 1_024
"""Number of candidates scored at a time, whose sums stay in the first-level cache."""


class Candidates(NamedTuple):
    """Features to score, and the part of each feature that S explains over all queries.

    Attributes
    ----------
    coefficients
        (t, n_candidates) c_i.
    diagonal, products
        (n_candidates,) A[i, i] and b[i].
    explained_diagonal, explained_products
        (n_candidates,) A[S, i]'c_i and A[S, i]'w.
    """

    coefficients: Array
    diagonal: Array
    products: Array
    explained_diagonal: Array
    explained_products: Array


class Forms(NamedTuple):
    """Quadratic and linear forms by which vectors x of p numbers change s, r, u and v.

    m is p or p + 1, whichever is even: if p is odd, the last row is repeated, with zero
    coefficients.

    Attributes
    ----------
    order
        (m,) rows of an array that hold the elements of the vectors.
    squares
        (2, m, m) coefficients of s -= x'squares[0] x and v += x'squares[1] x; upper triangular, so
        that entries off the diagonal are doubled.
    lines
        (2, m) coefficients: r += lines[0]'x and u += lines[1]'x.
    """

    order: Indices
    squares: Array
    lines: Array


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
def empty_forms(p: int) -> Forms:
    """Forms of zeros over rows 0 to p - 1."""
    m = p + p % 2
    order = np.empty(m, dtype=np.int64)
    for a in range(m):
        order[a] = min(a, p - 1)
    return Forms(order, np.zeros((2, m, m)), np.zeros((2, m)))


@kernel
def fold(p: int, squares: Array) -> None:
    """Add the entries below the diagonals to the entries above, and clear those below."""
    for form in range(len(squares)):
        for a in range(p):
            for b in range(a + 1, p):
                squares[form, a, b] += squares[form, b, a]
                squares[form, b, a] = 0.0


@kernel
def absent_forms(p: int, query: HeldOut) -> Forms:
    """The forms of c for a feature that does not vary in the query.

    With T = I + N G and z = -X_q[:,P] T c, the quadratic forms of s and v are G T and T'G T, and
    the linear forms of r and u are k and -T'k.
    """
    forms, turned = empty_forms(p), np.zeros((p, p))
    squares, lines = forms.squares, forms.lines
    for a in range(p):
        lines[0, a], turned[a, a] = query.pull[a], 1.0
        for j in range(p):
            add_multiple(query.inverse[a, j], query.gram[j][:p], turned[a])
    for a in range(p):
        for j in range(p):
            add_multiple(query.gram[a, j], turned[j], squares[0, a][:p])
    for j in range(p):
        add_multiple(-query.pull[j], turned[j], lines[1][:p])
        for a in range(p):
            add_multiple(turned[j, a], squares[0, j], squares[1, a])
    fold(p, squares)
    for a in range(len(forms.order)):
        forms.order[a] = query.members[forms.order[a]]
    return forms


@kernel
def present_forms(p: int, query: HeldOut) -> Forms:
    """The forms of g for a feature that varies in the query: N and 2 N + N G N, and N k."""
    forms, inverse = empty_forms(p), query.inverse
    squares, lines = forms.squares, forms.lines
    for a in range(p):
        for b in range(p):
            squares[0, a, b], squares[1, a, b] = inverse[a, b], 2.0 * inverse[a, b]
        for j in range(p):
            lines[1, a] += inverse[a, j] * query.pull[j]
            within = 0.0
            for b in range(p):
                within += inverse[a, b] * query.gram[b, j]
            add_multiple(within, inverse[j][:p], squares[1, a][:p])
    fold(p, squares)
    return forms


@kernel
def add_squares(
    x0: Array, x1: Array, y0: Array, y1: Array, squares: Array, at: Pair, s: Array, v: Array
) -> None:
    """Subtract x'form[0] y from s and add x'form[1] y to v, for pairs x and y of elements.

    `form` is `squares[:, at[0] : at[0] + 2, at[1] : at[1] + 2]`.
    """
    a, b = at
    d00, d01 = -squares[0, a, b], -squares[0, a, b + 1]
    d10, d11 = -squares[0, a + 1, b], -squares[0, a + 1, b + 1]
    e00, e01 = squares[1, a, b], squares[1, a, b + 1]
    e10, e11 = squares[1, a + 1, b], squares[1, a + 1, b + 1]
    for i in range(len(s)):
        s[i] += x0[i] * fma(d00, y0[i], d01 * y1[i]) + x1[i] * fma(d10, y0[i], d11 * y1[i])
        v[i] += x0[i] * fma(e00, y0[i], e01 * y1[i]) + x1[i] * fma(e10, y0[i], e11 * y1[i])


@kernel
def add_lines(x0: Array, x1: Array, lines: Array, a: int, r: Array, u: Array) -> None:
    """Add line[0]'x to r and line[1]'x to u, for pairs x of elements.

    `line` is `lines[:, a : a + 2]`.
    """
    r0, r1, u0, u1 = lines[0, a], lines[0, a + 1], lines[1, a], lines[1, a + 1]
    for i in range(len(r)):
        r[i] = fma(r1, x1[i], fma(r0, x0[i], r[i]))
        u[i] = fma(u1, x1[i], fma(u0, x0[i], u[i]))


@kernel
def add_forms(forms: Forms, rows: Array, first: int, n: int, state: Array) -> None:
    """Apply the forms of columns first to first + n of `rows` to the rows of `state`: s, r, u, v.

    (The code selects a row before its columns, so that Numba knows that columns are contiguous.)
    """
    order, squares, lines, end = forms.order, forms.squares, forms.lines, first + n
    s, r, u, v = state[0][:n], state[1][:n], state[2][:n], state[3][:n]
    for a in range(0, len(order), 2):
        x0, x1 = rows[order[a]][first:end], rows[order[a + 1]][first:end]
        add_lines(x0, x1, lines, a, r, u)
        for b in range(a, len(order), 2):
            y0, y1 = rows[order[b]][first:end], rows[order[b + 1]][first:end]
            add_squares(x0, x1, y0, y1, squares, (a, b), s, v)


@kernel
def finish_gains(state: Array, least: float, gains: Array, complements: Array) -> None:
    """Overwrite `gains` with a^2 v - 2 a u for a = r / s, and `complements` with s.

    s is at least `least`, v at least 0.
    """
    n = len(gains)
    s, r, u, v = state[0][:n], state[1][:n], state[2][:n], state[3][:n]
    for i in range(n):
        complements[i] = max(s[i], least)
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
def add_product(x: Array, y: Array, out: Array) -> None:
    """`out += x y`, element by element."""
    for i in range(len(out)):
        out[i] += x[i] * y[i]


@kernel
def divide(out: Array, divisor: float) -> None:
    """`out /= divisor`."""
    for i in range(len(out)):
        out[i] = np.divide(out[i], divisor)


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


@kernel
def held_out_factors(
    x: Csr, relevance: Array, queries: Queries, fit: Fit, factors: Array, other_products: Array
) -> None:
    """Overwrite the arguments of `dranking.kernels.lqo.predictions.held_out_weights`.

    Parameters
    ----------
    factors
        (n_groups, t (t + 1) / 2, lanes) packed Cholesky factors of M_q[S, S].
    other_products
        (n_queries, t) c_q[S].
    """
    query, lanes = arrays_for_queries(x, queries, fit), factors.shape[2]
    for q in range(len(queries.ptr) - 1):
        found = enter_query(x, relevance, queries, q, fit, query)
        hold_out(found.n_members, fit, query)
        group, lane = factors[q // lanes], q % lanes
        for i in range(len(group)):
            group[i, lane] = query.factor[i, 0]
        for j in range(len(query.weights)):
            other_products[q, j] = query.weights[j, 0]


@kernel
def fit_to_all(
    fit: Fit, coefficients: Array, explained_diagonal: Array, explained_products: Array
) -> None:
    """Overwrite the last three arguments with the part of every candidate that S explains.

    On entry, `coefficients` holds (t, n_candidates) A[S, i]. Every candidate goes through the same
    operations, so copies stay equal in every bit.
    """
    t = len(fit.selected)
    factor, column, corner = np.empty((packed_row(t), 1)), np.empty((t, 1)), np.empty(1)
    labels = np.empty((t, 1))
    for k in range(t):
        labels[k, 0] = fit.products[k]
        for j in range(k):
            column[j, 0] = fit.gram[j, k]
        corner[0] = fit.gram[k, k] + fit.regularization
        append_to_factors(factor, column, corner, k, fit.regularization)
    solve_lower(factor, labels, t)
    explained_diagonal[:] = 0.0
    explained_products[:] = 0.0
    for j in range(t):
        own, row = coefficients[j], packed_row(j)
        for k in range(j):
            add_multiple(-factor[row + k, 0], coefficients[k], own)
        divide(own, factor[row + j, 0])
        add_product(own, own, explained_diagonal)
        add_multiple(labels[j, 0], own, explained_products)
    for j in range(t - 1, -1, -1):
        own, row = coefficients[j], packed_row(j)
        divide(own, factor[row + j, 0])
        for k in range(j):
            add_multiple(-factor[row + k, 0], own, coefficients[k])


def explain(fit: Fit, total_columns: Array, diagonal: Array, products: Array) -> Candidates:
    """Fit the candidates by the selected features, over all queries.

    Parameters
    ----------
    total_columns
        (t, n_candidates) A[S, i].
    diagonal, products
        (n_candidates,) A[i, i] and b[i].
    """
    coefficients = total_columns.copy()
    explained = np.zeros((2, len(diagonal)))
    fit_to_all(fit, coefficients, explained[0], explained[1])
    return Candidates(coefficients, diagonal, products, explained[0], explained[1])


def roles(n_features: int, selected: Indices, candidates: Indices) -> Indices:
    """(n_features,) role of each feature, see `Fit`; no candidate is selected."""
    role = np.full(n_features, NOT_ASKED)
    role[candidates] = np.arange(len(candidates))
    role[selected] = -2 - np.arange(len(selected))
    return role
