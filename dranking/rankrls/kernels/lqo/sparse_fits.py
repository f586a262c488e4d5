"""Fits of the selected features S to all queries of CSR data, and to all queries but one.

`dranking.rankrls.kernels.lqo.sparse` has the symbols.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.gram.dense import Queries
from dranking.rankrls.kernels.gram.sparse import Csr
from dranking.rankrls.kernels.gram.sparse_query import (
    NOT_ASKED,
    Fit,
    arrays_for_queries,
    enter_query,
)
from dranking.rankrls.kernels.lqo.pivots import append_to_factors, packed_row, solve_lower
from dranking.rankrls.kernels.lqo.sparse_hold_out import add_multiple, hold_out

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


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
def held_out_factors(
    x: Csr, relevance: Array, queries: Queries, fit: Fit, factors: Array, other_products: Array
) -> None:
    """Overwrite the arguments of `dranking.rankrls.kernels.lqo.predictions.held_out_weights`.

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
