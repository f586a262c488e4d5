"""Models fitted without one query at a time, on the selected features and one candidate each.

The models of several candidates share all features but one. With T, W, z and p of the selected
features as in `dranking.rankrls.kernels.lqo.held_out`, a candidate adds to T a column with h above
the diagonal and k on the diagonal, to W a column c, and to z a number d. One solution per query
serves all candidates: with s = (I - W W')^-1 c, by the Sherman-Morrison formula,

    g = (c'p - d) / (1 - c's)                     the model's new term is -g, in the units of z
    T D w = [z - W'p - W's g; -g]

and the smallest eigenvalue of I - W W' - c c' is at least 1 - c's times the smallest of I - W W'.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.rankrls.kernels.lqo.held_out import least_eigenvalues, stacked_queries
from dranking.rankrls.kernels.lqo.orthogonal import (
    DEPENDENT,
    LEAST_MARGIN,
    augmented_rows,
    scaled_factor,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class ExtendedRidge(NamedTuple):
    """Ridge regression of all queries on t selected features, and what m candidates add to it.

    Attributes
    ----------
    columns, norms, triangle
        (r,) independent columns among all features, (r,) their norms, (r, r) R of these columns
        of norm 1.
    basis
        (r, t + m) Q_1, and the direction that each candidate adds.
    products
        (t + m,) z, and d of each candidate.
    upper, above, diagonal
        (t, t) T; (t, m) h and (m,) k.
    order, scales
        (t,) selected feature of each column of T; (t + m,) norms of these and of the candidates.
    """

    columns: Indices
    norms: Array
    triangle: Array
    basis: Array
    products: Array
    upper: Array
    above: Array
    diagonal: Array
    order: Indices
    scales: Array


def extended_ridge(factor: Array, n_selected: int, regularization: float) -> ExtendedRidge | None:
    """Ridge regression on the first features, and what each of the others adds.

    `factor` is R of [X y], (n + 1, n + 1) upper triangular. None where a feature has no data, or a
    candidate is a sum of selected features but for rounding.
    """
    found = scaled_factor(factor)
    rank, n = len(found.triangle), len(found.norms)
    rows, order, features = augmented_rows(found, regularization)
    if len(features) < n:
        return None
    selected, added = np.flatnonzero(features < n_selected), np.argsort(features)[n_selected:]
    turned, upper, pivots = linalg.qr(rows[order][:, selected], mode="economic", pivoting=True)
    rest, above = rows[order][:, added], np.zeros((n_selected, n - n_selected))
    for _ in range(2):  # the second time for the rounding of the first
        along = turned.T @ rest
        above += along
        rest = rest - turned @ along
    diagonal = np.linalg.norm(rest, axis=0)
    if not (diagonal > np.sqrt(DEPENDENT * n * np.finfo(float).eps)).all():
        return None
    basis = np.empty((len(rows), n))
    basis[order] = np.column_stack((turned, rest / diagonal))
    used = features[selected[pivots]]
    return ExtendedRidge(
        columns=found.columns[:rank],
        norms=found.norms[found.columns[:rank]],
        triangle=np.ascontiguousarray(found.triangle[:, :rank]),
        basis=np.ascontiguousarray(basis[:rank]),
        products=basis[:rank].T @ found.products[:rank],
        upper=upper,
        above=above,
        diagonal=diagonal,
        order=used,
        scales=found.norms[np.concatenate((used, np.arange(n_selected, n)))],
    )


def weights_with_each(
    rows: Array, labels: Array, query_ptr: Indices, ridge: ExtendedRidge, least_left: float
) -> tuple[Array, int]:
    """Weights of the models with each candidate, and the number of models without a meaning.

    Parameters
    ----------
    rows, labels
        (n_documents, t + m) and (n_documents,) centred, times the roots of query weights.
    query_ptr
        (n_queries + 1,) offsets.
    ridge
        The ridge regression on all queries, these queries included.
    least_left
        Least share of a coefficient of all queries that is left without the query.

    Returns
    -------
    weights
        (m, n_queries, t + 1), the selected features in their order and the candidate last.
    n_lost
        Number of queries and candidates where the query alone determines a direction, or less than
        `least_left` of a coefficient is left.
    """
    t, m = ridge.above.shape
    orthogonal = linalg.solve_triangular(
        ridge.triangle, (rows[:, ridge.columns] / ridge.norms).T, trans="T"
    ).T
    turned = orthogonal @ ridge.basis
    left = labels - turned[:, :t] @ ridge.products[:t]
    weights, n_lost = np.empty((m, len(query_ptr) - 1, t + 1)), 0
    for queries, stack in stacked_queries(np.column_stack((turned, left)), query_ptr):
        own, added = stack[:, :, :t], stack[:, :, t:-1]
        systems = np.eye(stack.shape[1]) - own @ own.transpose(0, 2, 1)
        margins = least_eigenvalues(own, systems)
        # These systems may be singular, and their solutions are not used.
        systems[margins < LEAST_MARGIN] = np.eye(stack.shape[1])
        solved = np.linalg.solve(systems, stack[:, :, t:])
        moves, residuals = solved[:, :, :-1], solved[:, :, -1]
        pivots = 1.0 - (added * moves).sum(axis=1)
        is_lost = ~(margins[:, None] * pivots >= LEAST_MARGIN)
        pivots[is_lost] = 1.0  # the models are not used
        gains = (np.einsum("qlc,ql->qc", added, residuals) - ridge.products[t:]) / pivots
        fitted = np.empty((m, len(queries), t + 1))
        before = ridge.products[:t] - np.einsum("qli,ql->qi", own, residuals)
        changes = np.einsum("qli,qlc->cqi", own, moves) * gains.T[:, :, None]
        fitted[:, :, :t], fitted[:, :, t] = before - changes, -gains.T
        weights[:, queries] = _of_features(ridge, fitted)
        whole = np.empty((m, 1, t + 1))
        whole[:, 0, :t], whole[:, 0, t] = ridge.products[:t], ridge.products[t:]
        is_small = (np.abs(fitted) < least_left * np.abs(whole)).any(axis=2)
        n_lost += int((is_lost.T | is_small).sum())
    return weights, n_lost


def _of_features(ridge: ExtendedRidge, fitted: Array) -> Array:
    """(m, n_queries, t + 1) weights of the features from T D w, for each candidate."""
    t, m = ridge.above.shape
    weights = np.empty_like(fitted)
    last = fitted[:, :, t] / ridge.diagonal[:, None]
    right = fitted[:, :, :t] - last[:, :, None] * ridge.above.T[:, None, :]
    solved = linalg.solve_triangular(ridge.upper, right.reshape(m * right.shape[1], t).T).T
    weights[:, :, ridge.order] = solved.reshape(right.shape) / ridge.scales[:t]
    weights[:, :, t] = last / ridge.scales[t:, None]
    return weights
