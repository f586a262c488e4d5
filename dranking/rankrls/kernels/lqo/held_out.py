"""Models fitted without one query at a time, from orthogonal factors of a few kept features.

X = Q B are the centred features of all queries, as in `dranking.rankrls.kernels.lqo.orthogonal`: B
(r, t) is scaled to columns of norm 1 and has independent rows. With the rows P = sqrt(lambda) D^-1
below, where D holds the norms of the features,

    [B; P] = [Q_1; Q_2] T,      z = Q_1'Q'y,      W = X_q D^-1 B^- Q_1

where X_q D^-1 B^- are the rows of query q in Q. In all of these, numbers have the scale of 1 or of
y, whatever the units of the features. The residual of q under the model of all other queries is

    p = (I - W W')^-1 (y_q - W z),      T D w = z - W'p

and removing feature j takes from the model the direction a_j = T^-T e_j, scaled to norm 1:

    p without j = p + v_j (a_j'z - u_j'p) / (1 + u_j'v_j),   u_j = W a_j,   v_j = (I - W W')^-1 u_j

I - W W' loses digits only if the query alone determines a direction, which makes the query
*dominant*. The model of a dominant query follows from the factor of all other queries: with W and z
from that factor, p = y_q - W z, and p without j is p + u_j a_j'z. There W = X_q D^-1 T^-1 is not
formed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.lqo.orthogonal import (
    DEPENDENT,
    LEAST_MARGIN,
    augmented_rows,
    scaled_factor,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Ridge(NamedTuple):
    """Ridge regression of all queries on t features with data, for one lambda.

    Attributes
    ----------
    columns, norms, triangle
        (r,) independent columns, (r,) their norms, (r, r) R of these columns of norm 1.
    basis
        (r, t) Q_1.
    products
        (t,) z.
    features, scales
        (t,) the feature of each column of T, and its norm.
    upper
        (t, t) T.
    directions
        (t, t) a_j in column j.
    """

    columns: Indices
    norms: Array
    triangle: Array
    basis: Array
    products: Array
    features: Indices
    scales: Array
    upper: Array
    directions: Array


class HeldOut(NamedTuple):
    """The models of some queries; each model is fitted to all other queries.

    Attributes
    ----------
    queries
        (n_queries,) positions of these queries in the strip.
    residuals
        (n_queries, l) p, padded by zeros, or turned so that its norm stays.
    weights
        (n_queries, n_features) weights.
    without
        (n_queries, n_features) squared norm of the residual without each feature.
    margins
        (n_queries,) smallest eigenvalues of I - W W', or lower bounds. A query is dominant, and its
        model without meaning, where the margin is below `LEAST_MARGIN`.
    left
        (n_queries,) least share of a coefficient that is left when the part of these queries is
        subtracted. The weights lose the other digits, although the residual may have all digits.
    """

    queries: NDArray[np.intp]
    residuals: Array
    weights: Array
    without: Array
    margins: Array
    left: Array


def ridge_of(factor: Array, regularization: float) -> Ridge:
    """Ridge regression from R of [X y], (n + 1, n + 1) upper triangular, with lambda > 0."""
    found = scaled_factor(factor)
    rank = len(found.triangle)
    rows, order, features = augmented_rows(found, regularization)
    turned, upper, pivots = linalg.qr(rows[order], mode="economic", pivoting=True)
    basis = np.empty_like(turned)
    basis[order] = turned
    # Slices of a matrix become contiguous when they are sent to a worker, and BLAS adds in another
    # order on them than on slices: the bits would depend on where a task runs.
    return Ridge(
        columns=found.columns[:rank],
        norms=found.norms[found.columns[:rank]],
        triangle=np.ascontiguousarray(found.triangle[:, :rank]),
        basis=np.ascontiguousarray(basis[:rank]),
        products=basis[:rank].T @ found.products[:rank],
        features=features[pivots],
        scales=found.norms[features[pivots]],
        upper=upper,
        directions=_directions(upper),
    )


def _directions(upper: Array) -> Array:
    """(t, t) T^-T scaled to columns of norm 1, where a sum that is rounding alone counts as zero.

    Among features that depend on each other, T has diagonal elements as small as sqrt(lambda) D^-1,
    far below rounding if the units are large. Rounding, divided by such an element, would be all
    that is left of a direction.
    """
    t = len(upper)
    found = np.eye(t)
    for i in range(t):
        sums = found[i] - upper[:i, i] @ found[:i]
        # An element of T is off by a share of the norm of its column, however small it is itself.
        size = np.linalg.norm(upper[:, i]) * np.linalg.norm(found[:i], axis=0)
        rounding = DEPENDENT * t * np.finfo(float).eps * size
        found[i] = np.where(np.abs(sums) <= rounding, 0.0, sums) / upper[i, i]
    found /= np.abs(found).max(axis=0, initial=0.0)
    directions: Array = found / np.linalg.norm(found, axis=0)
    return directions


def weights_of(ridge: Ridge, n_features: int) -> Array:
    """(n_features,) weights fitted to all queries."""
    weights = np.zeros(n_features)
    weights[ridge.features] = linalg.solve_triangular(ridge.upper, ridge.products) / ridge.scales
    return weights


def hold_out(
    rows: Array, labels: Array, query_ptr: Indices, ridge: Ridge, *, removals: bool = False
) -> Iterator[HeldOut]:
    """Yield the models of all queries of a strip, some queries of similar size at a time.

    Parameters
    ----------
    rows, labels
        (n_documents, n_features) and (n_documents,) centred, times the roots of query weights.
    query_ptr
        (n_queries + 1,) offsets.
    ridge
        The ridge regression on all queries, these queries included.
    removals
        Whether to find errors without each feature.
    """
    for queries, stack in stacked_queries(_rotated(rows, labels, ridge), query_ptr):
        turned, right = stack[:, :, :-1], stack[:, :, -1:]
        along = turned @ ridge.directions if removals else turned[:, :, :0]
        systems = np.eye(turned.shape[1]) - turned @ turned.transpose(0, 2, 1)
        margins = least_eigenvalues(turned, systems)
        # These systems may be singular, and their solutions are not used.
        systems[margins < LEAST_MARGIN] = np.eye(systems.shape[1])
        both = np.concatenate((right, along), axis=2)
        solved = np.asarray(np.linalg.solve(systems, both), dtype=np.float64)
        residuals, moves = solved[:, :, 0], solved[:, :, 1:]
        gains = ridge.products @ ridge.directions[:, : along.shape[2]]
        gains = gains - np.einsum("qli,ql->qi", along, residuals)
        gains /= 1.0 + np.einsum("qli,qli->qi", along, moves)
        fitted = ridge.products - np.einsum("qli,ql->qi", turned, residuals)
        weights, without = _of_features(ridge, rows.shape[1], fitted, residuals, moves, gains)
        left = np.divide(
            np.abs(fitted),
            np.abs(ridge.products),
            out=np.ones_like(fitted),
            where=ridge.products != 0.0,
        )
        yield HeldOut(queries, residuals, weights, without, margins, left.min(axis=1, initial=1.0))


def hold_out_dominant(
    rows: Array, labels: Array, ridge: Ridge, *, removals: bool = False
) -> HeldOut:
    """The model of one query, from the ridge regression of all other queries; as `hold_out`."""
    # Rows of this query may be far longer in some directions than the rows of all other queries, so
    # the rows are never turned into Q: T is solved for the weights and for the directions alone.
    scaled = rows[:, ridge.features] / ridge.scales
    residuals = (labels - scaled @ linalg.solve_triangular(ridge.upper, ridge.products))[None]
    moves = scaled @ linalg.solve_triangular(ridge.upper, ridge.directions)
    moves = moves[None] if removals else moves[None, :, :0]
    gains = (ridge.products @ ridge.directions[:, : moves.shape[2]])[None]
    fitted = ridge.products[None]
    weights, without = _of_features(ridge, rows.shape[1], fitted, residuals, moves, gains)
    return HeldOut(np.zeros(1, dtype=np.intp), residuals, weights, without, np.ones(1), np.ones(1))


def _rotated(rows: Array, labels: Array, ridge: Ridge) -> Array:
    """(n_documents, t + 1) W and y_q - W z."""
    scaled = rows[:, ridge.columns] / ridge.norms
    orthogonal = linalg.solve_triangular(ridge.triangle, scaled.T, trans="T").T
    turned = orthogonal @ ridge.basis
    return np.column_stack((turned, labels - turned @ ridge.products))


def stacked_queries(rows: Array, query_ptr: Indices) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Yield queries of similar size, and their rows (n_queries, l, n), with rows of zeros.

    Queries with more rows than columns are replaced by their R: no product of columns changes.
    """
    sizes = np.diff(query_ptr)
    classes = np.frexp(sizes.astype(np.float64))[1]
    for each in np.unique(classes):
        queries = np.flatnonzero(classes == each)
        size = sizes[queries].max()
        is_there = np.arange(size) < sizes[queries, None]
        stack = np.zeros((len(queries), size, rows.shape[1]))
        stack[is_there] = rows[(query_ptr[queries, None] + np.arange(size))[is_there]]
        if size > rows.shape[1]:
            stack = np.asarray(np.linalg.qr(stack, mode="r"))
        yield queries, stack


def least_eigenvalues(turned: Array, systems: Array) -> Array:
    """Lower bounds of the smallest eigenvalues of I - W W'; the eigenvalues if these are small."""
    margins: Array = 1.0 - np.square(turned).sum(axis=(1, 2))
    doubtful = margins < 0.5
    if doubtful.any() and systems.shape[1]:
        margins[doubtful] = np.linalg.eigvalsh(systems[doubtful])[:, 0]
    return margins


def _of_features(
    ridge: Ridge, n_features: int, fitted: Array, residuals: Array, moves: Array, gains: Array
) -> tuple[Array, Array]:
    """Weights from `fitted`, T D w, and errors from p + moves * gains, in the order of features."""
    n_queries = len(residuals)
    weights = np.zeros((n_queries, n_features))
    scaled = linalg.solve_triangular(ridge.upper, fitted.T).T
    weights[:, ridge.features] = scaled / ridge.scales
    errors = np.square(residuals).sum(axis=1)
    without = np.repeat(errors[:, None], n_features, axis=1)
    if moves.shape[2]:
        changed = residuals[:, :, None] + moves * gains[:, None, :]
        without[:, ridge.features] = np.square(changed).sum(axis=1)
    return weights, without


@kernel
def add_back_fitting_scores(
    rows: Array,
    slots: NDArray[np.int64],
    moments: tuple[Array, Array],
    totals: tuple[Array, Array, Array, float],
    fit: tuple[Array, Array],
    scores: Array,
    least: Array,
) -> None:
    """Add the error with each candidate, whose coefficient alone is fitted, to `scores`.

    `scores` is (n_features,), and `least` takes the smallest s over the queries. The weights w of
    the kept features stay, and candidate i gets the coefficient a = r_i / s_i, fitted to the
    residuals of the other queries, where r = c_i - (A - A_q)[i, S] w and
    s = A_ii - A_q,ii + lambda. The error of the query is then e - 2 a x_i.p + a^2 A_q,ii with
    x_i.p = b_q,i - A_q[i, S] w.

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
            least[i] = min(least[i], s)
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
