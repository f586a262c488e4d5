"""Models fitted without one query at a time, from the Gram matrices of a few kept features.

For query q and the kept features S, let G = A_q[S, S] and b = b_q[S], and for all other queries
M = A[S, S] - G + lambda I and c = b[S] - b_q[S] (`dranking/rankers/greedy/THEORY.md`). All models
follow from these matrices in O(t^3) for each query, where t = |S|; nothing is carried from round to
round.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

Array = NDArray[np.float64]


class KeptTotals(NamedTuple):
    """Sums over all queries for the kept features.

    Attributes
    ----------
    gram
        (t, t) A[S, S], symmetric.
    products
        (t,) b[S].
    regularization
        lambda.
    """

    gram: Array
    products: Array
    regularization: float


class HeldOutFit(NamedTuple):
    """The models of all queries; each model is fitted to all other queries.

    Attributes
    ----------
    inverses
        (n_queries, t, t) N = M^-1.
    weights
        (n_queries, t) w = N c.
    residual_products
        (n_queries, t) b - G w, products of the features with the residual of the held-out query.
    errors
        (n_queries,) squared norm of the residual of the held-out query.
    """

    inverses: Array
    weights: Array
    residual_products: Array
    errors: Array


def fit_held_out(
    grams: Array, products: Array, label_norms: Array, totals: KeptTotals
) -> HeldOutFit:
    """Fit a model without each query in turn.

    Parameters
    ----------
    grams, products, label_norms
        (n_queries, t, t) G, (n_queries, t) b, (n_queries,) y_q.y_q.
    totals
        Sums of G and b over all queries, and lambda.
    """
    systems = totals.gram - grams
    shifted = np.arange(grams.shape[1])
    systems[:, shifted, shifted] += totals.regularization
    inverses = inverses_of(systems)
    weights = _times(inverses, totals.products - products)
    residual_products = products - _times(grams, weights)
    # y.y - 2 w'b + w'Gw
    errors = label_norms - np.einsum("qi,qi->q", weights, products + residual_products)
    return HeldOutFit(inverses, weights, residual_products, np.maximum(errors, 0.0))


def removal_errors(fit: HeldOutFit, grams: Array) -> Array:
    """(t,) leave-query-out error, summed over these queries, after removing one feature each.

    Without feature j the weights are w - N_j kappa with kappa = w_j / N_jj. So the residual p
    becomes p + kappa X N_j and the error e + 2 kappa (N X'p)_j + kappa^2 (N G N)_jj.
    """
    kappa = fit.weights / np.einsum("qii->qi", fit.inverses)
    along = _times(fit.inverses, fit.residual_products)
    norms = np.einsum("qij,qij->qj", fit.inverses, grams @ fit.inverses)
    errors = fit.errors[:, None] + 2.0 * kappa * along + kappa * kappa * norms
    total: Array = np.maximum(errors, 0.0).sum(axis=0)
    return total


def inverses_of(systems: Array) -> Array:
    """(n, t, t) inverses of symmetric positive definite matrices; features may have any scales.

    If lambda is lost in the rounding of A, features that copy each other span directions in which a
    matrix holds only rounding errors. The inverse is zero along these directions.
    """
    scale = 1.0 / np.sqrt(np.einsum("qii->qi", systems))
    scaled = systems * scale[:, :, None] * scale[:, None, :]
    rounding = scaled.shape[1] * np.finfo(np.float64).eps
    try:
        factors = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        factors = np.zeros_like(scaled)
    if np.einsum("qii->qi", factors).min(initial=1.0) ** 2 > rounding:
        roots = np.linalg.inv(factors)
    else:
        values, vectors = np.linalg.eigh(scaled)
        kept = values > rounding * values[:, -1:]
        values = np.where(kept, values, np.inf)
        roots = vectors.transpose(0, 2, 1) / np.sqrt(values)[:, :, None]
    roots *= scale[:, None, :]
    inverses: Array = roots.transpose(0, 2, 1) @ roots
    return inverses


@kernel
def add_back_fitting_scores(
    rows: Array,
    slots: NDArray[np.int64],
    moments: tuple[Array, Array],
    totals: tuple[Array, Array, Array, float],
    fit: tuple[Array, Array],
    scores: Array,
) -> None:
    """Add the error with each candidate, whose coefficient alone is fitted, to `scores`.

    `scores` is (n_features,). The weights w of the kept features stay, and candidate i gets the
    coefficient a = r_i / s_i, fitted to the residuals of the other queries, where
    r = c_i - (A - A_q)[i, S] w and s = A_ii - A_q,ii + lambda. The error of the query is then
    e - 2 a x_i.p + a^2 A_q,ii with x_i.p = b_q,i - A_q[i, S] w.

    Parameters
    ----------
    rows, slots
        (capacity, n_queries, n_features) Gram rows; `rows[slots[j], q]` is A_q[j, :].
    moments
        (n_queries, n_features) diagonal of A_q, and b_q.
    totals
        (n_features,) diagonal of A, and b; (t, n_features) A[S, :]; lambda.
    fit
        (n_queries, t) w and (n_queries,) e.
    """
    diagonal, products = moments
    total_diagonal, total_products, total_rows, regularization = totals
    weights, errors = fit
    n = len(scores)
    own, everybody = np.empty(n), np.empty(n)
    for q in range(len(errors)):
        own[:] = 0.0
        everybody[:] = 0.0
        for j in range(len(slots)):
            row, total, weight = rows[slots[j], q], total_rows[j], weights[q, j]
            for i in range(n):
                own[i] += weight * row[i]
                everybody[i] += weight * total[i]
        for i in range(n):
            r = (total_products[i] - products[q, i]) - (everybody[i] - own[i])
            s = max(total_diagonal[i] - diagonal[q, i], 0.0) + regularization
            a = np.divide(r, s)
            u = products[q, i] - own[i]
            scores[i] += errors[q] - 2.0 * a * u + a * a * diagonal[q, i]


@kernel
def score_held_out(
    columns: NDArray[np.float32], query_ptr: NDArray[np.int64], weights: Array, scores: Array
) -> None:
    """Overwrite `scores` (n_documents,) with scores by the weights (n_queries, t) of their query.

    The score of each document is summed on its own in the order of the columns (n_documents, t),
    so that equal documents tie exactly.
    """
    for q in range(len(query_ptr) - 1):
        for d in range(query_ptr[q], query_ptr[q + 1]):
            total = 0.0
            for j in range(weights.shape[1]):
                total += weights[q, j] * columns[d, j]
            scores[d] = total


def _times(matrices: Array, vectors: Array) -> Array:
    """(n, t) products of n matrices (t, t) with n vectors (t,)."""
    product: Array = (matrices @ vectors[:, :, None])[:, :, 0]
    return product
