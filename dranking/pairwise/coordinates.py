"""Coordinates in which the sum of a loss over pairs has a curvature near 1 in all directions."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.data.blocks import QueryBlock
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import block_totals
from dranking.rankrls.gram.triangular_factor import TriangularFactor, block_factor
from dranking.rankrls.kernels.lqo.orthogonal import ScaledFactor, augmented_rows, scaled_factor

Array = NDArray[np.float64]

MAX_FACTORED_FEATURES = 256
"""Largest number of features that are made orthogonal. For more, columns are scaled alone."""


class Coordinates(NamedTuple):
    """Weights w as a linear function of u: u = T D w for independent columns, else u = s w.

    Attributes
    ----------
    features
        (r,) independent columns, in the order of T.
    norms
        (r,) D.
    upper
        (r, r) T, upper triangular: T'T is the mean of squared differences of two documents of a
        query, plus lambda, for columns divided by D.
    others
        (n - r,) all other columns.
    scales
        (n - r,) s.
    """

    features: NDArray[np.intp]
    norms: Array
    upper: Array
    others: NDArray[np.intp]
    scales: Array

    @property
    def order(self) -> NDArray[np.intp]:
        """(n_features,) column of each entry of u."""
        return np.concatenate((self.features, self.others))

    def weights(self, u: Array) -> Array:
        """(n_features,) w."""
        r, w = len(self.features), np.empty(len(u))
        w[self.features] = linalg.solve_triangular(self.upper, u[:r]) / self.norms
        w[self.others] = u[r:] / self.scales
        return w

    def of(self, weights: Array) -> Array:
        """(n_features,) u."""
        scaled = self.upper @ (self.norms * weights[self.features])
        return np.concatenate((scaled, self.scales * weights[self.others]))

    def gradient(self, slopes: Array) -> Array:
        """(n_features,) derivatives with respect to u, from the derivatives with respect to w."""
        scaled = slopes[self.features] / self.norms
        turned = linalg.solve_triangular(self.upper, scaled, trans="T")
        return np.concatenate((turned, slopes[self.others] / self.scales))


def coordinates_of(tiles: Tiles, regularization: float) -> Coordinates:
    """The coordinates for a data set and lambda, from one pass over the documents."""
    n = tiles.dataset.n_features
    if n > MAX_FACTORED_FEATURES:
        squares, _, _, n_documents = tiles.sum_blocks(block_squares, name="scales")
        return _scaled(np.arange(n), 2.0 / n_documents * squares, regularization)
    factor, n_documents = tiles.sum_blocks(
        partial(with_one_blas_thread, sized_factor), name="scales"
    )
    values = np.sqrt(2.0 / n_documents) * factor.values
    found: ScaledFactor = with_one_blas_thread(scaled_factor, values)
    r = len(found.triangle)
    independent, norms = found.columns[:r], found.norms[found.columns[:r]]
    own = ScaledFactor(norms, np.arange(r), found.triangle[:, :r], found.products)
    rows, order, features = augmented_rows(own, regularization)
    upper, pivots = with_one_blas_thread(_upper, rows[order])
    places = features[pivots]
    others = np.setdiff1d(np.arange(n), independent)
    rest = _scaled(others, np.square(found.norms[others]), regularization)
    return rest._replace(features=independent[places], norms=norms[places], upper=upper)


def block_squares(block: QueryBlock) -> tuple[Array, Array, float, np.float64]:
    """Moments of a block, and its weighted number of documents."""
    return *block_totals(block), _n_documents(block)


def sized_factor(block: QueryBlock) -> tuple[TriangularFactor, np.float64]:
    """R of a block, and its weighted number of documents."""
    return block_factor(block), _n_documents(block)


def _n_documents(block: QueryBlock) -> np.float64:
    return np.float64(block.weights @ np.diff(block.query_ptr))


def _scaled(others: NDArray[np.intp], squares: Array, regularization: float) -> Coordinates:
    """Coordinates without independent columns."""
    nothing = np.empty(0, dtype=np.intp)
    scales = np.sqrt(squares + regularization)
    return Coordinates(nothing, np.empty(0), np.empty((0, 0)), others, scales)


def _upper(rows: Array) -> tuple[Array, NDArray[np.intp]]:
    if not rows.size:
        return np.empty((0, 0)), np.empty(0, dtype=np.intp)
    upper, pivots = linalg.qr(rows, mode="r", pivoting=True)
    return upper[: rows.shape[1]], pivots
