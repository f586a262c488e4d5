"""Leave-query-out residuals of RankRLS on all features from orthogonal factors, never from A.

Forming A = X'X squares the condition of X. Here X = Q R comes from Householder reflections, whose
error is small for each column on its own, or from sums of products in double-double
(`dranking.rankrls.kernels.lqo.pair_factor`), and R = U S V' from one-sided Jacobi rotations, whose
error is small for each singular value on its own if only the scales of the columns differ (Demmel
and Veselic, Jacobi's method is more accurate than QR, 1992). With F = S (S^2 + lambda)^(-1/2) and
the rows W = Q_q U F of query q, the residual of q under the model fitted to the other queries is

    p_q = (I - W W')^-1 (y_q - W F U' Q'y)

in which all numbers have the scale of y_q. I - W W' loses digits only if a single query determines
a direction; then the model is computed from the factor of all other queries (`ridge_from_factor`,
`PairRidge`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

Array = NDArray[np.float64]

MAX_VALUES = 2**22
"""Largest number of values in the linear systems that are solved together."""

LEAST_MARGIN = 1e-3
"""Least eigenvalue of I - W W' with which the formula above is used; the residual then loses three
digits at most. For other queries, the factor of all other queries is computed."""

DEPENDENT = 4.0
"""Diagonal elements of R, for columns of norm 1, count as zero below this number times n times the
relative rounding error."""


class Rotation(NamedTuple):
    """The arrays that turn rows of Q into W, for every lambda; r is the numerical rank of X.

    Attributes
    ----------
    left
        (r, r) U.
    singular_values
        (r,) S.
    projected
        (r,) U' Q'y.
    label_norm
        Norm of y.
    """

    left: Array
    singular_values: Array
    projected: Array
    label_norm: float


class IndependentColumns(NamedTuple):
    """The arrays that turn centred rows of X into rows of Q.

    Attributes
    ----------
    columns
        (r,) independent columns of X, in the order of pivoting.
    norms
        (r,) norms of these columns.
    triangle
        (r, r) R of these columns, each divided by its norm.
    """

    columns: NDArray[np.int64]
    norms: Array
    triangle: Array


def triangle_of(rows: Array) -> Array:
    """(n, n) upper triangular R of the QR decomposition of (m, n) rows; m may be below n."""
    n = rows.shape[1]
    found = np.linalg.qr(rows, mode="r")
    triangle = np.zeros((n, n))
    triangle[: len(found)] = found
    return triangle


class ScaledFactor(NamedTuple):
    """R of X with columns of norm 1, by column pivoting; rows of rounding errors are left out.

    Attributes
    ----------
    norms
        (n,) norms of the columns of X.
    columns
        (n,) column of X at each position after pivoting.
    triangle
        (r, n) upper triangular in the pivoted order.
    products
        (n,) Q'y; entries from r on belong to no column.
    """

    norms: Array
    columns: NDArray[np.int64]
    triangle: Array
    products: Array


def scaled_factor(factor: Array) -> ScaledFactor:
    """The scaled factor of R of [X y], (n + 1, n + 1) upper triangular."""
    n = len(factor) - 1
    norms = np.linalg.norm(factor[:n, :n], axis=0)
    scaled = factor[:n, :n] / np.where(norms > 0.0, norms, 1.0)
    turn, triangle, columns = linalg.qr(scaled, pivoting=True)
    rank = int((np.abs(np.diag(triangle)) > DEPENDENT * n * np.finfo(float).eps).sum())
    products = turn.T @ factor[:n, n]
    return ScaledFactor(norms, columns.astype(np.int64), triangle[:rank], products)


def rotation_of(factor: Array) -> tuple[Rotation, IndependentColumns]:
    """The rotation, and the independent columns, that follow from R of [X y].

    Parameters
    ----------
    factor
        (n + 1, n + 1) upper triangular.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the Jacobi rotations do not converge.
    """
    norms, columns, triangle, products = scaled_factor(factor)
    rank, n = triangle.shape
    # X = Q B. The columns of B differ only in scale, which does not harm the Jacobi rotations.
    square = np.zeros((n, n))
    square[:rank, columns] = triangle * norms[columns]
    left, singular_values = _left_singular(square, rank)
    kept = columns[:rank]
    projected, label_norm = left.T @ products[:rank], float(np.linalg.norm(factor[:, -1]))
    # A slice becomes contiguous when it is sent to a worker, where BLAS would add in
    # another order.
    triangle = np.ascontiguousarray(triangle[:, :rank])
    rotation = Rotation(left, singular_values, projected, label_norm)
    return rotation, IndependentColumns(kept, norms[kept], triangle)


def _left_singular(square: Array, rank: int) -> tuple[Array, Array]:
    """Left singular vectors (rank, rank) and values of (n, n); rows from `rank` on are zero."""
    if rank == 0:
        return np.empty((0, 0)), np.empty(0)
    values, left, _, work, _, info = lapack.dgejsv(square, joba=0, jobu=0, jobv=0)
    if info != 0:
        raise np.linalg.LinAlgError(f"the Jacobi rotations did not converge ({info}).")
    return np.asfortranarray(left[:rank, :rank]), values[:rank] * (work[0] / work[1])


def orthogonal_rows(rows: Array, independent: IndependentColumns) -> Array:
    """(m, r) rows of Q of centred rows [X y] (m, n + 1)."""
    scaled = rows[:, independent.columns] / independent.norms
    solved: Array = linalg.solve_triangular(independent.triangle, scaled.T, trans="T").T
    return solved


def lqo_residuals(
    rows: Array,
    labels: Array,
    rotation: Rotation,
    regularizations: Array,
    least_margin: float = LEAST_MARGIN,
) -> tuple[Array, Array]:
    """Residuals of one query under the models of all other queries, for every lambda.

    Parameters
    ----------
    rows
        (l, r) rows Q_q U of the query.
    labels
        (l,) centred relevance, times the square root of the query's weight.
    rotation
        Rotation of all queries.
    regularizations
        (n_lambdas,) above 0.
    least_margin
        The query is dominant where its margin is below this number.

    Returns
    -------
    residuals
        (n_lambdas, l); without meaning where the query is dominant.
    margins
        (n_lambdas,) smallest eigenvalues of I - W W', or lower bounds of at least `least_margin`.
    """
    squares = rotation.singular_values**2
    shares = squares / (squares + regularizations[:, None])
    step = max(1, MAX_VALUES // max(1, rows.size, min(rows.shape) ** 2))
    residuals = np.empty((len(shares), len(labels)))
    # The margin grows with lambda: the margin for the least lambda is a lower bound for all.
    least = int(np.argmin(regularizations))
    margins = np.full(len(shares), _margins(_systems(rows, shares[least : least + 1]))[0])
    check_all = margins[0] < least_margin
    for first in range(0, len(shares), step):
        some = slice(first, first + step)
        systems = _systems(rows, shares[some])
        if check_all:
            margins[some] = _margins(systems)
            # These systems may be singular, and their solutions are not used.
            systems[margins[some] < least_margin] = np.eye(systems.shape[1])
        right = labels - (shares[some] * rotation.projected) @ rows.T
        if len(rows) <= rows.shape[1]:
            residuals[some] = _solved(systems, right)
        else:  # (I - W W')^-1 = I + W (I - W'W)^-1 W'
            roots = np.sqrt(shares[some])
            inner = _solved(systems, (right @ rows) * roots)
            residuals[some] = right + (inner * roots) @ rows.T
    return residuals, margins


def _systems(rows: Array, shares: Array) -> Array:
    """I - W W' (l, l), or I - W'W (r, r) if r < l, for each row of `shares`, F^2 (n_lambdas, r)."""
    if len(rows) <= rows.shape[1]:
        return np.eye(len(rows)) - (rows * shares[:, None, :]) @ rows.T
    roots = np.sqrt(shares)
    products = rows.T @ rows
    systems: Array = np.eye(len(products)) - roots[:, :, None] * products * roots[:, None, :]
    return systems


def _margins(systems: Array) -> Array:
    """(n_lambdas,) smallest eigenvalues; 1 if the systems have no rows."""
    if not systems.size:
        return np.ones(len(systems))
    smallest: Array = np.linalg.eigvalsh(systems)[:, 0].astype(np.float64, copy=False)
    return smallest


def ridge_from_factor(factor: Array, regularization: float) -> Array:
    """(n,) weights of ridge regression, from R of [X y].

    Solves the least-squares problem with the rows sqrt(lambda) D^-1 below R. These rows differ in
    scale by as much as the columns of X did. Householder reflections keep the digits of each row if
    columns are pivoted and rows sorted (Cox and Higham, Stability of Householder QR factorization
    for weighted least squares problems, 1998).

    Parameters
    ----------
    factor
        (n + 1, n + 1) upper triangular.
    regularization
        lambda > 0.
    """
    n = len(factor) - 1
    found = scaled_factor(factor)
    rank = len(found.triangle)
    if rank == 0:
        return np.zeros(n)
    rows, order, features = augmented_rows(found, regularization)
    labels = np.concatenate((found.products[:rank], np.zeros(len(features))))
    turned, upper, pivots = linalg.qr_multiply(rows[order], labels[order], pivoting=True)
    scaled = np.zeros(len(features))
    scaled[pivots] = linalg.solve_triangular(upper, turned)
    weights = np.zeros(n)
    weights[features] = scaled / found.norms[features]
    return weights


def ridge_solutions(factor: Array, rows: Array, regularization: float) -> tuple[Array, Array]:
    """Solutions v of (A + lambda I) v = x for rows x (m, n), from R of [X y].

    Returns
    -------
    solutions
        (m, n); columns without data have 0.
    halves
        (m, t) with the squared norms x'v.
    """
    found, solutions = scaled_factor(factor), np.zeros(rows.shape)
    augmented, order, features = augmented_rows(found, regularization)
    upper, pivots = linalg.qr(augmented[order], mode="r", pivoting=True)
    columns = features[pivots]
    upper, scales = upper[: len(columns)], found.norms[columns]
    halves = linalg.solve_triangular(upper, (rows[:, columns] / scales).T, trans="T")
    solutions[:, columns] = linalg.solve_triangular(upper, halves).T / scales
    return solutions, halves.T


def augmented_rows(
    found: ScaledFactor, regularization: float
) -> tuple[Array, NDArray[np.intp], NDArray[np.int64]]:
    """The rows of the least-squares problem of ridge regression, for features of norm 1.

    Returns
    -------
    rows
        (r + t, t) R of the t features with data, above sqrt(lambda) / norm on the diagonal.
    order
        (r + t,) rows by size, the largest first.
    features
        (t,) feature of each column.
    """
    features = found.columns[found.norms[found.columns] > 0.0]
    penalty = np.diag(np.sqrt(regularization) / found.norms[features])
    rows = np.concatenate((found.triangle[:, found.norms[found.columns] > 0.0], penalty))
    order = np.argsort(-np.abs(rows).max(axis=1, initial=0.0), kind="stable")
    return rows, order, features


def _solved(systems: Array, right: Array) -> Array:
    """(n, m) solutions of n systems (n, m, m) with the right-hand sides (n, m).

    Of systems that rounding made singular, the least-squares solutions.
    """
    try:
        found = np.linalg.solve(systems, right[:, :, None])
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(systems, hermitian=True) @ right[:, :, None]
    return found[:, :, 0].astype(np.float64, copy=False)
