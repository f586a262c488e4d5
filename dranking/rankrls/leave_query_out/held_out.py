"""RankRLS fitted without each query in turn, on any sets of features, with all digits.

The first pass over the documents finds R of the features that the sets use; the second pass fits
the models of each query (`dranking.rankrls.kernels.lqo.held_out`). Where one query alone determines
a direction of the features, the second pass is repeated with R of all other blocks. A statistics
store takes the place of the documents, with half the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Task
from dranking.engine.tile_tasks import Literal, Shared, given
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.triangular_factor import (
    TriangularFactor,
    block_factor,
    centred_rows,
    others_of_each,
)
from dranking.rankrls.kernels.lqo.factor_rounding import (
    SAFETY,
    error_rounding,
    extrapolated_rounding,
    relative_rounding,
    sums_rounding,
)
from dranking.rankrls.kernels.lqo.held_out import (
    HeldOut,
    Ridge,
    hold_out,
    hold_out_dominant,
    ridge_of,
    weights_of,
)
from dranking.rankrls.kernels.lqo.orthogonal import LEAST_MARGIN, triangle_of
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

STRIP = 8_192
"""Documents of a strip: queries of similar size in a strip are held out together, for some 30 calls
of LAPACK and NumPy, whose overhead is shared by all of them."""

LEAST_LEFT = 1e-4
"""Least share of a coefficient of all queries that may be left to predictions without a query; they
then lose four digits at most, and documents tie where nine are equal."""


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

    @classmethod
    def of(cls, kept: Sequence[Sequence[int]], regularization: float) -> FeatureSets:
        """The sets of features `kept`."""
        features = list(dict.fromkeys(chain.from_iterable(kept)))
        position = {feature: j for j, feature in enumerate(features)}
        subsets = [
            np.array([position[feature] for feature in selected], dtype=np.int64)
            for selected in kept
        ]
        return cls(np.array(features, dtype=np.int64), subsets, regularization)


class Verified(NamedTuple):
    """Facts from orthogonal factors about a set of t features.

    Attributes
    ----------
    error
        Leave-query-out error.
    rounding
        Estimated error of `error` by rounding.
    weights
        (t,) weights fitted to all queries.
    without
        (t,) leave-query-out errors without each feature; zeros unless asked for.
    uncertain
        Positions of the features that nearly depend on others, the most uncertain first.
    """

    error: float
    rounding: float
    weights: Array
    without: Array
    uncertain: list[int]


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
    rounding
        (n_queries,) estimated error of `errors` by rounding.
    moved
        (n_queries,) estimated norm by which rounding moves the predictions of the query, times the
        root of its weight; of documents.
    is_dominant
        (n_queries,) whether the query's values still have no meaning, since the factor of all other
        blocks was not there.
    """

    weights: Array
    errors: Array
    without: Array
    rounding: Array
    moved: Array
    is_dominant: NDArray[np.bool_]


class Model(NamedTuple):
    """Ridge regression of all queries, or of all but a dominant query, on a set of features.

    Attributes
    ----------
    ridge
        The regression.
    relative_rounding
        Estimated relative error of predictions by rounding.
    uncertain
        Positions of the features behind that error.
    label_norm
        Norm of all labels.
    """

    ridge: Ridge
    relative_rounding: float
    uncertain: list[int]
    label_norm: float


def verify_sets(tiles: Tiles, sets: FeatureSets, *, removals: bool = False) -> list[Verified]:
    """Errors and weights of every set, from the documents: two passes or three."""
    return verified_of(tiles, sets, *fit_without_each_query(tiles, sets, removals=removals))


def verified_of(
    tiles: Tiles, sets: FeatureSets, fits: list[Task], models: Sequence[Model]
) -> list[Verified]:
    """Errors and weights of every set, from what `fit_without_each_query` returned."""
    sums = tiles.sum(fits, sums_of, "held-out-errors")
    return [
        Verified(
            float(error),
            float(rounding),
            weights_of(model.ridge, len(subset)),
            without,
            model.uncertain,
        )
        for (error, rounding, without), model, subset in zip(
            sums, models, sets.subsets, strict=True
        )
    ]


def sums_of(fits: Sequence[Fits]) -> tuple[tuple[float, float, Array], ...]:
    """Errors, rounding, and errors without each feature of a block, for every set."""
    return tuple(
        (float(fit.errors.sum()), float(fit.rounding.sum()), fit.without.sum(axis=0))
        for fit in fits
    )


def fit_without_each_query(
    tiles: Tiles, sets: FeatureSets, *, removals: bool = False, predictions: bool = False
) -> tuple[list[Task], list[Model]]:
    """Tasks with the `Fits` of every set, for every block; and the models of all queries.

    Two or three passes are made over the documents, by tasks that run where the first feature block
    is. `removals` asks for the errors without each feature. `predictions` asks for weights
    whose predictions are accurate even where they are small: without a query, nearly all of a
    coefficient may be gone, and then the error of the query has all digits, but its weights none.
    """
    parts = factors_of(tiles, sets)
    factor: TriangularFactor = tiles.sum(parts, unchanged, "factors")
    digits_lost = 1 if tiles.dataset.has_documents else 2
    models: list[Model] = with_one_blas_thread(_models, factor.values, sets, digits_lost)
    of_block = partial(fit_block, removals=removals, predictions=predictions)
    fit = partial(with_one_blas_thread, of_block)

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
    return found, models


def factors_of(tiles: Tiles, sets: FeatureSets) -> list[Task]:
    """Tasks with the factor of the features of some sets, for every block: one pass."""
    return tiles.map_blocks(
        partial(with_one_blas_thread, block_factor),
        Literal(sets.features),
        columns=sets.features,
        feature_block=0,
        name="factors",
    )


def fit_block(
    block: QueryBlock | QueryStatistics,
    columns: NDArray[np.float32] | None,
    others: TriangularFactor | None,
    sets: FeatureSets,
    models: Sequence[Model],
    *,
    removals: bool,
    predictions: bool,
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
    strips = list(centred_rows(block, columns, sets.features, STRIP))
    has_sums, found = isinstance(block, QueryStatistics), []
    for subset, model in zip(sets.subsets, models, strict=True):
        fits, first = _no_fits(block.n_queries, len(subset)), 0
        for rows, ptr in strips:
            own = rows[:, subset], rows[:, -1]
            for group in hold_out(*own, ptr, model.ridge, removals=removals):
                queries = first + group.queries
                _constants(fits, queries, group, model)
                if predictions:
                    fits.is_dominant[queries] |= group.left < LEAST_LEFT
            if has_sums:
                own_fits = slice(first, first + len(ptr) - 1)
                norms = np.sqrt(np.add.reduceat(np.square(np.column_stack(own)), ptr[:-1]))
                fits.rounding[own_fits] += sums_rounding(fits.weights[own_fits], norms)
            first += len(ptr) - 1
        found.append(fits)
    if others is not None and any(fits.is_dominant.any() for fits in found):
        _fit_dominant(strips, others, sets, found, 2 if has_sums else 1, removals)
    return found


def _fit_dominant(
    strips: Sequence[tuple[Array, Indices]],
    others: TriangularFactor,
    sets: FeatureSets,
    found: Sequence[Fits],
    digits_lost: int,
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
            alone = sets._replace(subsets=[subset])
            [model] = _models(without[q].values, alone, digits_lost)
            rows = own[q].values
            group = hold_out_dominant(rows[:, subset], rows[:, -1], model.ridge, removals=removals)
            _constants(fits, np.array([q]), group, model)
            used = [*subset.tolist(), -1]
            rest = triangle_of(without[q].values[:, used])
            _fill_rounding(fits, q, rest, rows[:, used], (model, sets.regularization, digits_lost))


def _fill_rounding(
    fits: Fits, q: int, others: Array, rows: Array, fitted: tuple[Model, float, int]
) -> None:
    """Fill in the rounding of a dominant query, from its rows and the factor of all others.

    `fitted` has the model of the others, lambda, and how often digits are lost.
    """
    model, regularization, digits_lost = fitted
    weights, errors = fits.weights[q], fits.errors[q : q + 1]
    moved = extrapolated_rounding(others, rows[:, :-1], weights, regularization, digits_lost)
    # The estimate has no digits itself where the others leave features dependent.
    size = 2.0 * float(np.linalg.norm(rows[:, -1])) + float(np.sqrt(errors[0]))
    moved += model.relative_rounding * size
    own = sums_rounding(weights, np.linalg.norm(rows, axis=0))
    if digits_lost == 1:
        # The residuals of documents are off by the rounding of what they sum.
        moved += float(np.sqrt(SAFETY * rows.shape[1] * np.finfo(float).eps * own))
    fits.moved[q], fits.rounding[q] = moved, error_rounding(errors, np.array([moved]))[0]
    if digits_lost == 2:
        fits.rounding[q] += own


def _models(factor: Array, sets: FeatureSets, digits_lost: int) -> list[Model]:
    """Ridge regression on each of the sets, from the factor of all features that they use.

    `digits_lost` is 2 for a factor from sums of products, which square the condition number.
    """
    last, models = len(factor) - 1, []
    for subset in sets.subsets:
        own = triangle_of(factor[:, [*subset.tolist(), last]])
        regularization = np.array([sets.regularization])
        [rounding], columns = relative_rounding(own, regularization, digits_lost)
        label_norm = float(np.linalg.norm(own[:, -1]))
        ridge = ridge_of(own, sets.regularization)
        models.append(Model(ridge, float(rounding), columns, label_norm))
    return models


def _no_fits(n_queries: int, t: int) -> Fits:
    weights, without = np.zeros((n_queries, t)), np.zeros((n_queries, t))
    errors, rounding, moved = np.zeros((3, n_queries))
    return Fits(weights, errors, without, rounding, moved, np.zeros(n_queries, dtype=np.bool_))


def _constants(fits: Fits, queries: NDArray[np.intp], group: HeldOut, model: Model) -> None:
    norms = np.linalg.norm(group.residuals, axis=1)
    fits.weights[queries] = group.weights
    fits.errors[queries] = np.square(group.residuals).sum(axis=1)
    fits.without[queries] = group.without
    fits.is_dominant[queries] = group.margins < LEAST_MARGIN
    # As in `rankrls.kernels.lqo.factor_rounding.moved_residuals`.
    margins = np.clip(group.margins, LEAST_MARGIN, 1.0)
    own = SAFETY * (len(model.ridge.columns) + 1) * np.finfo(float).eps / margins
    scale = norms + np.sqrt(1.0 - margins) * model.label_norm
    off = np.maximum(own, model.relative_rounding) * scale
    fits.moved[queries] = off
    fits.rounding[queries] = error_rounding(fits.errors[queries], off)


def unchanged(factor: TriangularFactor) -> TriangularFactor:
    """The factor of a block."""
    return factor


def _n_dominant(found: Sequence[Fits]) -> int:
    return sum(int(fits.is_dominant.sum()) for fits in found)
