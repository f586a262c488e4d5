"""Rows of documents, and rows that stand for documents in a statistics store: sums and factors.

Documents are summed and factored in double-double (`dranking.rankrls.kernels.lqo.pair_factor`). The
rows of a store are summed by orthogonal factors (`dranking.rankrls.kernels.lqo.orthogonal`): the
sums of products that the store holds have 16 digits, and more digits in what follows would not
bring others back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.floats import EPSILON
from dranking.rankrls.gram.pair_sums import PairSums, pair_rows
from dranking.rankrls.gram.triangular_factor import TriangularFactor, centred_rows
from dranking.rankrls.kernels.gram.double_double import UNIT, product_of_pairs
from dranking.rankrls.kernels.lqo.factor_rounding import (
    SAFETY,
    UNCERTAIN,
    error_rounding,
    extrapolated_rounding,
    relative_rounding,
    sums_rounding,
)
from dranking.rankrls.kernels.lqo.orthogonal import (
    LEAST_MARGIN,
    Rotation,
    orthogonal_rows,
    ridge_from_factor,
    rotation_of,
    triangle_of,
)
from dranking.rankrls.kernels.lqo.pair_factor import (
    PairFactor,
    PairRidge,
    few_rows,
    orthogonal_pairs,
    pair_factor,
    rotation_of_pairs,
)

Array = NDArray[np.float64]


class Basis(NamedTuple):
    """The basis that turns rows of a form into rows of W.

    Attributes
    ----------
    rotation
        The rotation that all queries share.
    factor
        `PairFactor` or `IndependentColumns`.
    least
        Least singular value of R with rows of norm 1; the rotation divides its rounding by it.
    smallest
        Least eigenvalue of A, where the form rests on A: without any query, no eigenvalue of
        A + lambda I is below lambda, so that no margin costs more digits than
        lambda / (smallest + lambda). Infinity for other forms.
    """

    rotation: Rotation
    factor: Any
    least: float
    smallest: float = np.inf

    @property
    def own_rounding(self) -> float:
        """Relative error of predictions by the arithmetic in float64 that follows Q."""
        return SAFETY * (len(self.rotation.left) + 1) * EPSILON / self.least


class Rounding(NamedTuple):
    """Errors by rounding of the results that follow from a basis.

    Attributes
    ----------
    own
        The relative error of predictions that the margin divides, or (n_lambdas,) such errors.
    of_factor
        (n_lambdas,) the relative error of predictions by the factor.
    of_sums
        (n_lambdas,) error of the squared norms of all residuals together, by sums of products.
    features
        The features behind the error of the factor, the most uncertain first.
    """

    own: float | Array
    of_factor: Array
    of_sums: Array
    features: list[int]


class OwnRows(NamedTuple):
    """The rows of one query, or fewer rows with the same sums of products.

    Attributes
    ----------
    values
        (..., m, n_features + 1) the rows.
    lost
        Relative error of these sums.
    """

    values: Array
    lost: float


class RowForm(NamedTuple):
    """Functions of one form of centred rows [X y], of shape (..., m, n_features + 1).

    Attributes
    ----------
    leading
        The leading axes of rows: (2,) for pairs, () for float64.
    rows
        Takes a block; yields strips of its rows, each with the offsets of its queries.
    sums
        Takes rows; returns their `PairSums` or `TriangularFactor`, which `+` combines.
    basis
        Takes the sums of all queries; returns their `Basis`.
    orthogonal
        Takes rows and the factor of the basis; returns (m, r) rows of Q, or (m, n) rows [Q, rest].
    rounding
        Takes the sums, the basis, the Gram matrix of all rows [Q, rest, y], and lambdas; returns
        their `Rounding`.
    own
        Takes the rows of a query; returns `OwnRows`: the same rows, or, if they are many more than
        there are columns, fewer rows with the same sums.
    held_out
        Takes the own rows of a query, the sums of all other queries, and lambdas; returns
        (n_lambdas,) errors, their rounding, and the features behind this rounding.
    least_margin
        Least margin of a query whose residuals follow from the rows of Q; others are dominant.
    """

    leading: tuple[int, ...]
    rows: Callable[[Any], Iterator[tuple[Array, NDArray[np.int64]]]]
    sums: Callable[[Array], Any]
    basis: Callable[[Any], Basis]
    orthogonal: Callable[[Array, Any], Array]
    rounding: Callable[[Any, Basis, Array, Array], Rounding]
    own: Callable[[Array], OwnRows]
    held_out: Callable[[OwnRows, Any, Array], tuple[Array, Array, list[int]]]
    least_margin: float = LEAST_MARGIN


def _pair_basis(sums: PairSums) -> Basis:
    factor = pair_factor(sums.values)
    rotation, least = rotation_of_pairs(factor)
    return Basis(rotation, factor, least)


def measured_rounding(basis: Basis, check: Array) -> tuple[float, Array]:
    """Rounding of the factor, measured on the features: Q that is not orthonormal, and rests.

    Parameters
    ----------
    basis
        Of pairs.
    check
        (n_features + 1, n_features + 1) Gram matrix of the rows [Q, rest, y].

    Returns
    -------
    Relative error of predictions; (n_features - r,) squares of what dependent columns have left.
    """
    factor, r = basis.factor, basis.factor.rank
    products = check[:r, -1] - factor.triangle[0, :, -1]
    off = np.linalg.norm(check[:r, :r] - np.eye(r))
    off += np.linalg.norm(products) / max(basis.rotation.label_norm, np.finfo(float).tiny)
    # The rest of a dependent column changes R as far as it lies along Q; its other part is ignored.
    along, squares = check[:r, r:-1], check.diagonal()[r:-1]
    row_norms = np.linalg.norm(factor.triangle[0, :, :-1], axis=1, keepdims=True)
    off += np.linalg.norm(along / row_norms) / basis.least
    left = np.maximum(squares - np.square(along).sum(axis=0), 0.0)
    return float(off), left + SAFETY * (r + 1) * EPSILON * squares


def _pair_rounding(sums: PairSums, basis: Basis, check: Array, regularizations: Array) -> Rounding:
    factor, r = basis.factor, basis.factor.rank
    off, left = measured_rounding(basis, check)
    shares = left[:, None] / (left[:, None] + regularizations)
    doubtful = [int(factor.columns[r + j]) for j in np.flatnonzero(shares.max(axis=1) > UNCERTAIN)]
    if off > UNCERTAIN:
        doubtful += _uncertain(factor)
    of_factor, nothing = shares.max(axis=0, initial=0.0), np.zeros(len(regularizations))
    return Rounding(basis.own_rounding + off, of_factor, nothing, doubtful)


def _uncertain(factor: PairFactor) -> list[int]:
    """The features that nearly depend on others, the most uncertain first."""
    pivots = factor.columns[: factor.rank]
    left = np.square(factor.triangle[0].diagonal() / factor.norms[pivots])
    order = np.argsort(left, kind="stable")
    names: list[int] = pivots[order[left[order] < _unit(factor) / UNCERTAIN]].tolist()
    return names or pivots[order[:1]].tolist()


def _unit(factor: PairFactor) -> float:
    """Estimated error of the sums of products of columns of norm 1."""
    return SAFETY**2 * len(factor.norms) * UNIT


def _pair_own(pairs: Array) -> OwnRows:
    if pairs.shape[1] <= pairs.shape[2]:
        return OwnRows(pairs, 0.0)
    return OwnRows(few_rows(pairs), SAFETY**2 * pairs.shape[2] * UNIT)


def _pair_held_out(
    own: OwnRows, others: PairSums, regularizations: Array
) -> tuple[Array, Array, list[int]]:
    """Errors of a held-out query; an error E of the sums of products moves |p|^2 by 2 v'E w.

    Here w are the weights, (A + lambda I) v = X_q'p, and the elements of E are at most the error of
    the sums times the norms of two columns. The residuals p follow from the rows of the query with
    all their digits.
    """
    factor = pair_factor(others.values)
    errors, off = np.zeros((2, len(regularizations)))
    unit, solved = _unit(factor), orthogonal_pairs(own.values, factor)
    own_norms = np.linalg.norm(own.values[0], axis=0)
    ridge = PairRidge(factor)
    for k, regularization in enumerate(regularizations):
        weights = ridge.weights(regularization)
        residuals = product_of_pairs(own.values, weights)[0]
        errors[k] = residuals @ residuals
        size, own_size = np.stack((factor.norms, own_norms)) @ np.abs(weights[0])
        moved = factor.norms[:-1] @ np.abs(ridge.solve(solved, residuals, regularization))
        off[k] = 2.0 * unit * (moved * size + np.sqrt(errors[k]) * own_size)
        off[k] += own.lost * own_size**2
    return errors, off, _uncertain(factor) if (off > UNCERTAIN * errors).any() else []


def products_of_rows(rows: Array, labels: Array) -> Array:
    """(n + 1, n + 1) sums of products of rows [Q, rest, y]: the check of Q on the features."""
    checked = np.column_stack((rows, labels))
    products: Array = checked.T @ checked
    return products


def _triangle_sums(rows: Array) -> TriangularFactor:
    return TriangularFactor(triangle_of(rows))


def _triangle_basis(factor: TriangularFactor) -> Basis:
    rotation, independent = rotation_of(factor.values)
    return Basis(rotation, independent, 1.0)


def _triangle_rounding(
    factor: TriangularFactor, basis: Basis, check: Array, regularizations: Array
) -> Rounding:
    """Estimated from the factor: the rows of a store agree with its sums, whose digits are lost.

    Weights of all queries stand for those without each query; what both differ by is part of the
    error of the factor.
    """
    of_factor, features = relative_rounding(factor.values, regularizations, 2)
    weights = np.stack([ridge_from_factor(factor.values, value) for value in regularizations])
    of_sums = sums_rounding(weights, np.linalg.norm(factor.values, axis=0))
    return Rounding(basis.own_rounding, of_factor, of_sums, features)


def _triangle_own(rows: Array) -> OwnRows:
    return OwnRows(triangle_of(rows), 0.0)


def _triangle_held_out(
    own: OwnRows, others: TriangularFactor, regularizations: Array
) -> tuple[Array, Array, list[int]]:
    errors, off = np.zeros((2, len(regularizations)))
    rounding, uncertain = relative_rounding(others.values, regularizations, 2)
    features, labels = own.values[:, :-1], own.values[:, -1]
    own_norms = np.linalg.norm(own.values, axis=0)
    for k, regularization in enumerate(regularizations):
        weights = ridge_from_factor(others.values, regularization)
        residuals = labels - features @ weights
        errors[k] = residuals @ residuals
        moved = extrapolated_rounding(others.values, features, weights, regularization, 2)
        # Where E is as large as A + lambda I, v has no digits either, and these terms are large.
        moved += rounding[k] * (2.0 * np.linalg.norm(labels) + np.linalg.norm(residuals))
        off[k] = error_rounding(errors[k : k + 1], np.array([moved]))[0]
        off[k] += sums_rounding(weights, own_norms)
    return errors, off, uncertain


DOCUMENTS = RowForm(
    (2,),
    pair_rows,
    PairSums.of_rows,
    _pair_basis,
    orthogonal_pairs,
    _pair_rounding,
    _pair_own,
    _pair_held_out,
)
STORES = RowForm(
    (),
    centred_rows,
    _triangle_sums,
    _triangle_basis,
    orthogonal_rows,
    _triangle_rounding,
    _triangle_own,
    _triangle_held_out,
)
