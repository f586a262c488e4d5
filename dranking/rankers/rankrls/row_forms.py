"""Rows of documents, and rows that stand for documents in a statistics store: sums and factors.

Documents are summed and factored in double-double (`dranking.kernels.lqo.pair_factor`). The rows of
a store are summed by orthogonal factors (`dranking.kernels.lqo.orthogonal`): the sums of products
that the store holds have 16 digits, and more digits in what follows would not bring others back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.gram.double_double import UNIT, product_of_pairs
from dranking.kernels.lqo.factor_rounding import (
    SAFETY,
    UNCERTAIN,
    error_rounding,
    relative_rounding,
)
from dranking.kernels.lqo.orthogonal import (
    Rotation,
    orthogonal_rows,
    ridge_from_factor,
    rotation_of,
    triangle_of,
)
from dranking.kernels.lqo.pair_factor import (
    PairFactor,
    PairRidge,
    few_rows,
    orthogonal_pairs,
    pair_factor,
    rotation_of_pairs,
)
from dranking.rankers.gram.pair_sums import PairSums, pair_rows
from dranking.rankers.gram.triangular_factor import TriangularFactor, centred_rows

Array = NDArray[np.float64]
Rounding = tuple[float, Array, list[int]]

EPS = float(np.finfo(np.float64).eps)


class Basis(NamedTuple):
    """What turns rows of a form into rows of W.

    Attributes
    ----------
    rotation
        Rotation of all queries.
    factor
        `PairFactor` or `IndependentColumns`.
    least
        Least singular value of R with rows of norm 1; the rotation divides its rounding by it.
    """

    rotation: Rotation
    factor: Any
    least: float

    @property
    def own_rounding(self) -> float:
        """Relative error of predictions by the arithmetic in float64 that follows Q."""
        return SAFETY * (len(self.rotation.left) + 1) * EPS / self.least


class OwnRows(NamedTuple):
    """The rows of one query, or fewer rows with the same sums of products.

    Attributes
    ----------
    values
        (..., m, n_features + 1).
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
        Of a block: strips of rows, and offsets of the queries of each strip.
    sums
        Of rows: their `PairSums` or `TriangularFactor`, which `+` combines.
    basis
        Of the sums of all queries.
    orthogonal
        Of rows and the basis' factor: (m, r) rows of Q, or (m, n) rows [Q, rest].
    rounding
        Of the sums, the basis, the Gram matrix of all rows [Q, rest, y], and lambdas: the relative
        error that the margin divides, the (n_lambdas,) error of the factor, and the features behind
        this error.
    own
        Of the rows of a query: these, or not many more than there are columns.
    held_out
        Of the own rows of a query, the sums of all others, and lambdas: (n_lambdas,) errors,
        their rounding, and the features behind this rounding.
    weights
        Of the sums and one lambda: the weights (n_features,), and the minimum of the objective.
    """

    leading: tuple[int, ...]
    rows: Callable[[Any], Iterator[tuple[Array, NDArray[np.int64]]]]
    sums: Callable[[Array], Any]
    basis: Callable[[Any], Basis]
    orthogonal: Callable[[Array, Any], Array]
    rounding: Callable[[Any, Basis, Array, Array], Rounding]
    own: Callable[[Array], OwnRows]
    held_out: Callable[[OwnRows, Any, Array], tuple[Array, Array, list[int]]]
    weights: Callable[[Any, float], tuple[Array, float]]


def _pair_basis(sums: PairSums) -> Basis:
    factor = pair_factor(sums.values)
    rotation, least = rotation_of_pairs(factor)
    return Basis(rotation, factor, least)


def _pair_rounding(sums: PairSums, basis: Basis, check: Array, regularizations: Array) -> Rounding:
    """Measured on the features: how far Q is from orthonormal, and what dependent columns keep."""
    factor, r = basis.factor, basis.factor.rank
    products = check[:r, -1] - factor.triangle[0, :, -1]
    off = np.linalg.norm(check[:r, :r] - np.eye(r))
    off += np.linalg.norm(products) / max(basis.rotation.label_norm, np.finfo(float).tiny)
    # What is left of a dependent column changes R where it lies along Q; the rest is left out.
    along, squares = check[:r, r:-1], check.diagonal()[r:-1]
    row_norms = np.linalg.norm(factor.triangle[0, :, :-1], axis=1, keepdims=True)
    off += np.linalg.norm(along / row_norms) / basis.least
    left = np.maximum(squares - np.square(along).sum(axis=0), 0.0)
    left += SAFETY * (r + 1) * EPS * squares
    shares = left[:, None] / (left[:, None] + regularizations)
    doubtful = [int(factor.columns[r + j]) for j in np.flatnonzero(shares.max(axis=1) > UNCERTAIN)]
    if off > UNCERTAIN:
        doubtful += _uncertain(factor)
    return basis.own_rounding + float(off), shares.max(axis=0, initial=0.0), doubtful


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
    """Sums of products that are off by E move the error |p|^2 of weights w by 2 v'E w.

    Here (A + lambda I) v = X_q'p, and the elements of E are at most the error of the sums times the
    norms of two columns. The residuals p follow from the rows of the query with all their digits.
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


def _pair_weights(sums: PairSums, regularization: float) -> tuple[Array, float]:
    found = PairRidge(pair_factor(sums.values)).weights(regularization)
    residuals = product_of_pairs(sums.values, found)
    [[square], _] = product_of_pairs(residuals[:, None], found)
    weights = -found[0, :-1]
    return weights, float(square) + regularization * float(weights @ weights)


def _triangle_sums(rows: Array) -> TriangularFactor:
    return TriangularFactor(triangle_of(rows))


def _triangle_basis(factor: TriangularFactor) -> Basis:
    rotation, independent = rotation_of(factor.values)
    return Basis(rotation, independent, 1.0)


def _triangle_rounding(
    factor: TriangularFactor, basis: Basis, check: Array, regularizations: Array
) -> Rounding:
    """Estimated from the factor: the rows of a store agree with its sums, whose digits are lost."""
    return basis.own_rounding, *relative_rounding(factor.values, regularizations, 2)


def _triangle_own(rows: Array) -> OwnRows:
    return OwnRows(triangle_of(rows), 0.0)


def _triangle_held_out(
    own: OwnRows, others: TriangularFactor, regularizations: Array
) -> tuple[Array, Array, list[int]]:
    errors, off = np.zeros((2, len(regularizations)))
    rounding, uncertain = relative_rounding(others.values, regularizations, 2)
    features, labels = own.values[:, :-1], own.values[:, -1]
    for k, regularization in enumerate(regularizations):
        weights, _ = ridge_from_factor(others.values, regularization)
        residuals = labels - features @ weights
        errors[k] = residuals @ residuals
        scale = 2.0 * np.linalg.norm(labels) + np.linalg.norm(residuals)
        off[k] = error_rounding(errors[k : k + 1], rounding[k : k + 1] * scale)[0]
    return errors, off, uncertain


def _triangle_weights(factor: TriangularFactor, regularization: float) -> tuple[Array, float]:
    return ridge_from_factor(factor.values, regularization)


DOCUMENTS = RowForm(
    (2,),
    pair_rows,
    PairSums.of_rows,
    _pair_basis,
    orthogonal_pairs,
    _pair_rounding,
    _pair_own,
    _pair_held_out,
    _pair_weights,
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
    _triangle_weights,
)
