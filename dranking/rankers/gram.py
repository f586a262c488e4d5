"""What RankRLS-type rankers read of the data: moments and Gram rows, summed over all queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import Task
from dranking.engine.tiles import Literal, Tiles
from dranking.kernels import gram
from dranking.kernels.dense_gram import Moments

Array = NDArray[np.float64]


class BlockRows(NamedTuple):
    """Gram rows kept of a block, and the sums over its queries of those fetched last."""

    rows: Array
    totals: Array


class GramRows:
    """The Gram rows A_q[i, :] fetched so far, and their sums A[i, :] over all queries.

    Rows stay where the data is; only their sums travel. Each fetch is one pass over X.

    Attributes
    ----------
    diagonal, products
        (n_features,) diag A and b.
    label_norm
        y.y, the error of ranking at random.
    totals
        Feature -> A[i, :] (n_features,), for the features fetched.
    n_passes
        Passes over X so far, that for the moments included.
    """

    def __init__(self, tiles: Tiles, capacity: int) -> None:
        self._tiles = tiles
        self.moments = tiles.map_blocks(block_moments, name="moments")
        self.diagonal, self.products, self.label_norm = tiles.sum(
            self.moments, sum_moments, "moments"
        )
        self.rows: list[Task] = tiles.map_blocks(empty_rows, Literal(capacity), name="rows")
        self.capacity = capacity
        self.slots: dict[int, int] = {}
        self.totals: dict[int, Array] = {}
        self.n_passes = 1

    @property
    def n_free(self) -> int:
        """Rows that can still be kept."""
        return self.capacity - len(self.slots)

    def fetch(self, features: Sequence[int]) -> None:
        """Compute the rows of features that are not there yet, in one pass over X."""
        start = len(self.slots)
        wanted = np.array(features, dtype=np.int64)
        slots = np.arange(start, start + len(wanted), dtype=np.int64)
        self.rows = self._tiles.map_blocks(
            fetch_rows, self.rows, Literal(wanted), Literal(slots), name="gram-rows"
        )
        totals = self._tiles.sum(self.rows, row_totals, "gram-rows")
        self.slots.update(zip(features, slots.tolist(), strict=True))
        self.totals.update(zip(features, totals, strict=True))
        self.n_passes += 1


def block_moments(block: QueryBlock) -> Moments:
    """Moments of one block."""
    return gram.moments(block.features, block.relevance, block.query_ptr, block.weights)


def sum_moments(moments: Moments) -> tuple[Array, Array, Array]:
    """Sums over the queries of a block, in order."""
    return moments.diagonal.sum(axis=0), moments.products.sum(axis=0), moments.label_norms.sum()


def empty_rows(block: QueryBlock, capacity: int) -> BlockRows:
    """Room for Gram rows; memory is taken as they are written."""
    n = block.n_features
    return BlockRows(np.empty((block.n_queries, capacity, n)), np.empty((0, n)))


def fetch_rows(
    block: QueryBlock, kept: BlockRows, wanted: NDArray[np.int64], slots: NDArray[np.int64]
) -> BlockRows:
    """Write more rows behind those kept.

    Slots are written once and always with the same bits, so a task that runs again after a worker
    was lost changes nothing.
    """
    totals = gram.gram_rows(
        block.features, block.query_ptr, block.weights, wanted, slots, kept.rows
    )
    return BlockRows(kept.rows, totals)


def row_totals(kept: BlockRows) -> Array:
    """(J, n_features) sums of the rows fetched last."""
    return kept.totals


def ridge_weights(gram: Array, products: Array, regularization: float) -> Array:
    """(A + lambda I)^-1 b, for features of any scales.

    Where lambda is lost in the rounding of A, features that copy each other leave directions that
    are nothing but rounding; those get no weight.

    Parameters
    ----------
    gram
        (t, t) float64 A, symmetric.
    products
        (t,) float64 b.
    regularization
        lambda > 0.
    """
    shifted = gram.copy()
    shifted[np.diag_indices_from(shifted)] += regularization
    # A unit diagonal: what is lost then does not depend on the features' units.
    scale = 1.0 / np.sqrt(np.diag(shifted))
    shifted *= scale
    shifted *= scale[:, None]
    rounding = len(scale) * np.finfo(np.float64).eps
    factor, failed = linalg.lapack.dpotrf(shifted, lower=True)
    weights: Array
    if not failed and np.diag(factor).min() ** 2 > rounding:
        weights = scale * linalg.lapack.dpotrs(factor, scale * products, lower=True)[0]
        return weights
    values, vectors = linalg.eigh(shifted)
    kept = values > rounding * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    weights = scale * (vectors @ ((vectors.T @ (scale * products)) / values))
    return weights
