"""Orthogonal factors of centred rows from their sums of products in double-double arithmetic.

The sums C = X'X square the condition of X, but their 32 digits hold 16 digits of R, with R'R = C,
where a column keeps 1e-8 of its norm apart from all others. The rows Q = X R^-1 follow from the
features by a triangular solve in double-double. All that follows from Q has the scale of 1, and is
computed in float64.

The pivot is the largest column that is left, in the units of the data, so that the rows of R differ
from well-conditioned rows in scale alone, which harms neither the Jacobi rotations of R' nor R R'
(Demmel and Veselic, Jacobi's method is more accurate than QR, 1992).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dranking.kernels.machine.compile import frozen, kernel
from dranking.rankrls.kernels.gram.double_double import (
    UNIT,
    divide,
    product_of_pairs,
    square_root,
    subtract_product,
    sum_of_pairs,
    sums_of_products,
)
from dranking.rankrls.kernels.lqo.orthogonal import Rotation

Array = NDArray[np.float64]

DEPENDENT = 16.0
"""The square of what a column has left beside the pivots counts as zero below this number times n
times `UNIT` times the square of the column's terms: what it takes of each pivot, and itself."""

STRIP = 32
"""Number of rows that are solved at a time: with some hundred columns, they fit into the
second-level cache."""


class PairFactor(NamedTuple):
    """R of [X y] as pairs, by a Cholesky factorisation with pivoting; r is the rank of X.

    Attributes
    ----------
    columns
        (n,) column of X at each position; the first r are the pivots, all others depend on these.
    triangle
        (2, r, n + 1) pairs; the columns in this order, the label last.
    norms
        (n + 1,) norms of the columns of X and of the label, in their own order.
    """

    columns: NDArray[np.int64]
    triangle: Array
    norms: Array

    @property
    def rank(self) -> int:
        """Number of pivots."""
        return len(self.triangle[0])


def pair_factor(sums: Array) -> PairFactor:
    """The factor of (2, n + 1, n + 1) sums of products of [X y]."""
    n = sums.shape[1] - 1
    columns, triangle = np.arange(n), np.zeros((2, n, n + 1))
    rank = int(_factor(frozen(sums), DEPENDENT * n * UNIT, columns, triangle))
    triangle = np.ascontiguousarray(triangle[:, :rank, np.append(columns, n)])
    return PairFactor(columns, triangle, np.sqrt(sums[0].diagonal()))


@kernel
def _factor(sums: Array, dependent: float, columns: NDArray[np.int64], triangle: Array) -> int:
    """Overwrite `columns`, and `triangle` in the order of `sums`; returns the rank."""
    n = len(columns)
    rest = np.empty((2, n))
    for j in range(n):
        rest[0, j], rest[1, j] = sums[0, j, j], sums[1, j, j]
    for k in range(n):
        place = _largest_independent(rest, sums, dependent, columns, triangle, k)
        if place < 0:
            return k
        columns[k], columns[place] = columns[place], columns[k]
        p = columns[k]
        for j in range(n + 1):
            triangle[0, k, j], triangle[1, k, j] = sums[0, p, j], sums[1, p, j]
        for i in range(k):
            factor = (triangle[0, i, p], triangle[1, i, p])
            for j in range(n + 1):
                triangle[0, k, j], triangle[1, k, j] = subtract_product(
                    (triangle[0, k, j], triangle[1, k, j]),
                    factor,
                    (triangle[0, i, j], triangle[1, i, j]),
                )
        root = square_root((rest[0, p], rest[1, p]))
        for j in range(n + 1):
            triangle[0, k, j], triangle[1, k, j] = divide(
                (triangle[0, k, j], triangle[1, k, j]), root
            )
        for t in range(k):
            triangle[0, k, columns[t]] = triangle[1, k, columns[t]] = 0.0
        triangle[0, k, p], triangle[1, k, p] = root
        for t in range(k + 1, n):
            j = columns[t]
            own = (triangle[0, k, j], triangle[1, k, j])
            rest[0, j], rest[1, j] = subtract_product((rest[0, j], rest[1, j]), own, own)
    return n


@kernel
def _largest_independent(
    rest: Array,
    sums: Array,
    dependent: float,
    columns: NDArray[np.int64],
    triangle: Array,
    k: int,
) -> int:
    """Place, from k on, of the largest column that is left; -1 if all depend on the pivots.

    The `rest` of columns that turn out to be dependent becomes 0.
    """
    while True:
        place, most = -1, 0.0
        for t in range(k, len(columns)):
            if rest[0, columns[t]] > most:
                place, most = t, rest[0, columns[t]]
        if place < 0 or most > dependent * _terms(sums, columns, triangle, k, place) ** 2:
            return place
        rest[0, columns[place]] = rest[1, columns[place]] = 0.0


@kernel
def _terms(sums: Array, columns: NDArray[np.int64], triangle: Array, k: int, place: int) -> float:
    """Norm of a column, and of the terms by which the first k pivots predict it, all summed.

    Products of columns are rounded by a share of the norms of both. So the square of the rest of a
    column is rounded by a share of the square of these terms, which may be far larger than the
    column: the smallest of the columns that add up to another is the difference of all the others.
    """
    j = columns[place]
    terms, weights = float(np.sqrt(sums[0, j, j])), np.empty(k)
    for i in range(k - 1, -1, -1):
        weights[i] = triangle[0, i, j]
        for t in range(i + 1, k):
            weights[i] -= triangle[0, i, columns[t]] * weights[t]
        weights[i] /= triangle[0, i, columns[i]]
        terms += abs(weights[i]) * np.sqrt(sums[0, columns[i], columns[i]])
    return terms


def orthogonal_pairs(pairs: Array, factor: PairFactor) -> Array:
    """(m, n) rows [Q, rest] of centred rows (2, m, n + 1), rounded to float64.

    The first r columns are orthonormal over all rows; the others are what the columns that depend
    on the pivots have left.
    """
    solved = np.empty((pairs.shape[1], len(factor.columns)))
    for first in range(0, len(solved), STRIP):
        rows = np.ascontiguousarray(pairs[:, first : first + STRIP, factor.columns])
        _solve(frozen(factor.triangle), rows)
        solved[first : first + STRIP] = rows[0]
    return solved


@kernel
def _solve(triangle: Array, rows: Array) -> None:
    """Overwrite the (2, m, n) rows X with [Q, rest], where X = Q R + rest."""
    for k in range(triangle.shape[1]):
        pivot = (triangle[0, k, k], triangle[1, k, k])
        factor_high, factor_low = triangle[0, k, k + 1 :], triangle[1, k, k + 1 :]
        for d in range(rows.shape[1]):
            own = divide((rows[0, d, k], rows[1, d, k]), pivot)
            rows[0, d, k], rows[1, d, k] = own
            high, low = rows[0, d, k + 1 :], rows[1, d, k + 1 :]
            for j in range(len(high)):
                high[j], low[j] = subtract_product(
                    (high[j], low[j]), own, (factor_high[j], factor_low[j])
                )


def rotation_of_pairs(factor: PairFactor) -> tuple[Rotation, float]:
    """The rotation, and the least singular value of R with rows of norm 1.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the Jacobi rotations do not converge.
    """
    rows, products = factor.triangle[0, :, :-1], factor.triangle[0, :, -1]
    label_norm = float(factor.norms[-1])
    if not factor.rank:
        return Rotation(np.empty((0, 0)), np.empty(0), products, label_norm), 1.0
    values, _, vectors, work, _, info = lapack.dgejsv(rows.T, joba=0, jobu=3, jobv=0)
    if info != 0:
        raise np.linalg.LinAlgError(f"the Jacobi rotations did not converge ({info}).")
    left = np.asfortranarray(vectors)
    rotation = Rotation(left, values * (work[0] / work[1]), left.T @ products, label_norm)
    scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rotation, float(np.linalg.norm(scaled, -2))


def few_rows(pairs: Array) -> Array:
    """Rows (2, l, n) with the sums of products of other rows (2, m, n), no more than columns."""
    n = pairs.shape[2]
    sums = np.zeros((2, n + 1, n + 1))
    sums[:, :n, :n] = sums_of_products(pairs)
    factor = pair_factor(sums)
    rows = np.empty((2, factor.rank, n))
    rows[:, :, factor.columns] = factor.triangle[:, :, :-1]
    return rows


class PairRidge:
    """Ridge regression from the factor for one lambda after another, as pairs.

    Parameters
    ----------
    factor
        The factor of the documents.
    """

    def __init__(self, factor: PairFactor) -> None:
        self._factor = factor
        transposed = factor.triangle[:, :, :-1].transpose(0, 2, 1)
        self._transposed = np.ascontiguousarray(transposed)
        self._squares = sums_of_products(self._transposed)

    def weights(self, regularization: float) -> Array:
        """(2, n + 1) pairs: the negative weights, and 1 for the label.

        The weights are R' (R R' + lambda I)^-1 Q'y. The product of rows [X y] and these numbers are
        the residuals.
        """
        found = np.zeros((2, len(self._factor.norms)))
        labels = self._factor.triangle[:, :, -1]
        found[:, self._factor.columns] = -self._from_rows(labels, regularization)
        found[0, -1] = 1.0
        return found

    def solve(self, rows: Array, vector: Array, regularization: float) -> Array:
        """(n,) solution v of (R'R + lambda I) v = X'p, for rows X = Q R + rest.

        Parameters
        ----------
        rows
            (m, n) rows [Q, rest].
        vector
            (m,) p.
        regularization
            lambda.
        """
        rank, right = self._factor.rank, rows.T @ vector
        # (R'R + lambda I)^-1 R' = R' (R R' + lambda I)^-1, also where columns depend on others.
        rests = right[rank:] / regularization
        along = right[:rank] - self._factor.triangle[0, :, rank:-1] @ rests
        solved = np.empty(len(right))
        found = self._from_rows(np.stack((along, np.zeros(rank))), regularization)[0]
        found[rank:] += rests
        solved[self._factor.columns] = found
        return solved

    def _from_rows(self, vector: Array, regularization: float) -> Array:
        """R' (R R' + lambda I)^-1 v of pairs, in the order of pivoting."""
        rank = self._factor.rank
        penalty, system = np.zeros((2, rank, rank)), np.zeros((2, rank + 1, rank + 1))
        np.fill_diagonal(penalty[0], regularization)
        system[:, :-1, :-1] = sum_of_pairs(self._squares, penalty)
        system[:, -1, :-1] = system[:, :-1, -1] = vector
        own = pair_factor(system)
        solved = np.ascontiguousarray(own.triangle[:, :, -1])
        back_substitute(frozen(own.triangle), solved)
        ordered = np.zeros_like(vector)
        ordered[:, own.columns[: own.rank]] = solved
        return product_of_pairs(self._transposed, ordered)


@kernel
def back_substitute(triangle: Array, vector: Array) -> None:
    """Overwrite the vector (2, r) of pairs with the solution of R x = v."""
    for k in range(vector.shape[1] - 1, -1, -1):
        own = (vector[0, k], vector[1, k])
        for j in range(k + 1, vector.shape[1]):
            own = subtract_product(
                own, (triangle[0, k, j], triangle[1, k, j]), (vector[0, j], vector[1, j])
            )
        vector[0, k], vector[1, k] = divide(own, (triangle[0, k, k], triangle[1, k, k]))
