"""RankRLS fitted without each query in turn, on any sets of features, with all digits.

The first pass over the documents finds R of the features that the sets use; the second pass fits
the models of each query (`dranking.kernels.lqo.held_out`). Where one query alone determines a
direction of the features, the second pass is repeated with R of all other blocks. A statistics
store takes the place of the documents, with half the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.statistics.per_query import QueryStatistics
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Task
from dranking.engine.tile_tasks import Literal, Shared, given
from dranking.engine.tiles import Tiles
from dranking.kernels.lqo.held_out import HeldOut, Ridge, hold_out, hold_out_dominant, ridge_of
from dranking.kernels.lqo.orthogonal import LEAST_MARGIN, triangle_of
from dranking.rankers.gram.triangular_factor import (
    TriangularFactor,
    block_factor,
    centred_rows,
    others_of_each,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


PASSES = 2
"""Passes over the documents that the fits take, if no query is dominant."""


class FeatureSets(NamedTuple):
    """Sets of features, on each of which a model is fitted.

    Attributes
    ----------
    features
        (n_used,) indices of all features that occur.
    subsets
        The sets, each as positions in `features`, in an order of its own.
    regularization
        lambda.
    """

    features: Indices
    subsets: Sequence[Indices]
    regularization: float


class Fits(NamedTuple):
    """The models of a block's queries on one set of t features, each fitted to all other queries.

    Attributes
    ----------
    weights
        (n_queries, t) weights.
    errors
        (n_queries,) squared norm of the residual of the held-out query.
    without
        (n_queries, t) the same without each feature.
    is_dominant
        (n_queries,) whether the query's values still have no meaning, since the factor of all other
        blocks was not there.
    """

    weights: Array
    errors: Array
    without: Array
    is_dominant: NDArray[np.bool_]


def fit_without_each_query(
    tiles: Tiles, sets: FeatureSets, *, removals: bool = False
) -> list[Task]:
    """Tasks with the `Fits` of every set, for every block: two passes over the documents or three.

    The tasks run where the first feature block is. `removals` asks for errors without each feature.
    """
    parts = tiles.map_blocks(
        partial(with_one_blas_thread, block_factor),
        Literal(sets.features),
        columns=sets.features,
        feature_block=0,
        name="factors",
    )
    factor: TriangularFactor = tiles.sum(parts, _unchanged, "factors")
    models = with_one_blas_thread(_models, factor.values, sets)
    fit = partial(with_one_blas_thread, partial(fit_block, removals=removals))

    def fits(others: Literal | Shared) -> list[Task]:
        return tiles.map_blocks(
            fit,
            others,
            Literal(sets),
            Literal(models),
            columns=sets.features,
            feature_block=0,
            name="held-out",
        )

    found = fits(Literal(None))
    if tiles.sum(found, _n_dominant, "held-out"):
        others = iter(with_one_blas_thread(others_of_each, tiles.gather(parts)))
        lengths = map(len, tiles.executor.gather(parts))
        found = fits(
            Shared(
                [
                    tiles.executor.submit(given, [next(others) for _ in range(n)], name="others")
                    for n in lengths
                ]
            )
        )
    return found


def fit_block(
    block: QueryBlock | QueryStatistics,
    columns: NDArray[np.float32] | None,
    others: TriangularFactor | None,
    sets: FeatureSets,
    models: Sequence[Ridge],
    *,
    removals: bool,
) -> list[Fits]:
    """The `Fits` of a block for every set.

    Parameters
    ----------
    columns
        (n_used, n_documents) features of the sets; None if the block holds them.
    others
        Factor of all other blocks; None if no query is dominant, as far as is known.
    models
        Ridge regression of all queries on each set.
    """
    strips = list(centred_rows(block, columns, sets.features))
    found = []
    for subset, ridge in zip(sets.subsets, models, strict=True):
        fits, first = _no_fits(block.n_queries, len(subset)), 0
        for rows, ptr in strips:
            for group in hold_out(rows[:, subset], rows[:, -1], ptr, ridge, removals=removals):
                _fill(fits, first + group.queries, group)
            first += len(ptr) - 1
        found.append(fits)
    if others is not None and any(fits.is_dominant.any() for fits in found):
        _fit_dominant(strips, others, sets, found, removals)
    return found


def _fit_dominant(
    strips: Sequence[tuple[Array, Indices]],
    others: TriangularFactor,
    sets: FeatureSets,
    found: Sequence[Fits],
    removals: bool,
) -> None:
    """Fill in the dominant queries, from the factors of all other queries."""
    own = [
        TriangularFactor(triangle_of(rows[start:stop]))
        for rows, ptr in strips
        for start, stop in pairwise(ptr.tolist())
    ]
    without = others_of_each([others, *own])[1:]
    for fits, subset in zip(found, sets.subsets, strict=True):
        for q in np.flatnonzero(fits.is_dominant).tolist():
            [ridge] = _models(without[q].values, sets._replace(subsets=[subset]))
            rows = own[q].values
            group = hold_out_dominant(rows[:, subset], rows[:, -1], ridge, removals=removals)
            _fill(fits, np.array([q]), group)


def _models(factor: Array, sets: FeatureSets) -> list[Ridge]:
    """Ridge regression on each of the sets, from the factor of all features that they use."""
    last = len(factor) - 1
    return [
        ridge_of(triangle_of(factor[:, [*subset.tolist(), last]]), sets.regularization)
        for subset in sets.subsets
    ]


def _no_fits(n_queries: int, t: int) -> Fits:
    weights, without = np.zeros((n_queries, t)), np.zeros((n_queries, t))
    return Fits(weights, np.zeros(n_queries), without, np.zeros(n_queries, dtype=np.bool_))


def _fill(fits: Fits, queries: NDArray[np.intp], group: HeldOut) -> None:
    fits.weights[queries] = group.weights
    fits.errors[queries] = np.square(group.residuals).sum(axis=1)
    fits.without[queries] = group.without
    fits.is_dominant[queries] = group.margins < LEAST_MARGIN


def _unchanged(factor: TriangularFactor) -> TriangularFactor:
    return factor


def _n_dominant(found: Sequence[Fits]) -> int:
    return sum(int(fits.is_dominant.sum()) for fits in found)
