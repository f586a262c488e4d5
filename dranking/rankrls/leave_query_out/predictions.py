"""Leave-query-out predictions and errors of RankRLS on sets of features.

Ranking measures are computed from predictions and need the documents; the squared error needs no
documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.tile_tasks import Literal, Shared
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.triangular_factor import centred_rows
from dranking.rankrls.kernels.lqo.held_out import score_held_out
from dranking.rankrls.kernels.lqo.one_more import (
    ExtendedRidge,
    extended_ridge,
    weights_with_each,
)
from dranking.rankrls.kernels.lqo.predictions import held_out_scores, held_out_weights
from dranking.rankrls.kernels.lqo.rounding import with_ties
from dranking.rankrls.leave_query_out.held_out import (
    LEAST_LEFT,
    STRIP,
    FeatureSets,
    Fits,
    factors_of,
    fit_without_each_query,
    unchanged,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

LqoMeasure: TypeAlias = Callable[[QueryBlock, Array], Array]
"""Function from a block, and the leave-query-out predictions (n_models, n_documents) of the
documents of the block, to an array. The arrays of all blocks are summed."""

EQUAL_SCORES = 1e-9
"""Share of a prediction by which another one may differ and count as equal. One feature in float32
tells documents apart by 6e-8 of its value; the rounding of held-out weights, which the certificate
allows up to 1e-6, is mostly below 1e-12."""

EQUAL_TERMS = 1e-14
"""Share of the largest prediction of the query by which predictions near 0, whose terms cancel, may
differ and count as equal. A larger share would tie documents beside one with a huge value."""


def with_exact_ties(block: QueryBlock, scores: Array) -> Array:
    """Predictions (n_documents,) of a block, where those that only rounding tells apart are equal.

    Documents with equal predictions in exact arithmetic tie in a measure, instead of standing in
    the order of rounding errors. Predictions that are all 0 but for rounding, since the held-out
    weights are, have no size to compare with and stay as they are. Infinite predictions tie with
    their like alone, and NaN with nothing.
    """
    groups = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    sizes = np.where(np.isfinite(scores), np.abs(scores), 0.0)
    largest = np.zeros(block.n_queries)
    np.maximum.at(largest, groups, sizes)
    return with_ties(scores, groups, EQUAL_SCORES * sizes + EQUAL_TERMS * largest[groups])


def measure_sets(tiles: Tiles, sets: FeatureSets, measure: LqoMeasure) -> Array:
    """Sum a measure of the leave-query-out predictions of every feature set over all blocks."""
    total: Array = tiles.sum_map(
        measure_block_sets,
        Shared(fit_without_each_query(tiles, sets, predictions=True)[0]),
        Literal(sets),
        Literal(measure),
        columns=sets.features,
        feature_block=0,
        name="leave-query-out",
    )
    return total


def measure_additions(
    tiles: Tiles,
    selected: Sequence[int],
    candidates: Sequence[int],
    regularization: float,
    measure: LqoMeasure,
) -> Array:
    """Sum a measure of the leave-query-out predictions with each candidate over all blocks.

    The models of all candidates come from one factor, and take two passes; where rounding could
    decide, each candidate's model has a factor of its own, as in `measure_sets`.
    """
    sets = FeatureSets.of([[*selected, candidate] for candidate in candidates], regularization)
    factor = tiles.sum(factors_of(tiles, sets), unchanged, "factors")
    ridge = with_one_blas_thread(extended_ridge, factor.values, len(selected), regularization)
    if ridge is not None:
        n_lost, total = tiles.sum_map(
            partial(with_one_blas_thread, measure_block_additions),
            Literal(ridge),
            Literal(sets),
            Literal(measure),
            columns=sets.features,
            feature_block=0,
            name="leave-query-out",
        )
        if not n_lost:
            measured: Array = total
            return measured
    return measure_sets(tiles, sets, measure)


def measure_block_additions(
    block: QueryBlock,
    shared: NDArray[np.float32] | None,
    ridge: ExtendedRidge,
    sets: FeatureSets,
    measure: LqoMeasure,
) -> tuple[int, Array]:
    """Number of models of a block without a meaning, and the measure with each candidate.

    `shared` is as in `measure_block_sets`.
    """
    strips = centred_rows(block, shared, sets.features, STRIP)
    found = [
        weights_with_each(rows[:, :-1], rows[:, -1], ptr, ridge, LEAST_LEFT) for rows, ptr in strips
    ]
    weights = np.concatenate([each for each, _ in found], axis=1)
    columns = dense_columns(block, sets.features) if shared is None else shared.T
    scores = np.empty((len(sets.subsets), block.n_documents))
    for subset, own, out in zip(sets.subsets, weights, scores, strict=True):
        score_held_out(np.ascontiguousarray(columns[:, subset]), block.query_ptr, own, out)
    return sum(n for _, n in found), measure(block, scores)


def measure_block_sets(
    block: QueryBlock,
    shared: NDArray[np.float32] | None,
    fits: Sequence[Fits],
    sets: FeatureSets,
    measure: LqoMeasure,
) -> Array:
    """Measure the leave-query-out predictions of a block for every feature set.

    `shared` (n_used, n_documents) are the features of the sets; None if the block holds them.
    """
    columns = dense_columns(block, sets.features) if shared is None else shared.T
    scores = np.empty((len(sets.subsets), block.n_documents))
    for subset, fit, out in zip(sets.subsets, fits, scores, strict=True):
        own = np.ascontiguousarray(columns[:, subset])
        score_held_out(own, block.query_ptr, fit.weights, out)
    return measure(block, scores)


def measure_block_predictions(
    block: QueryBlock,
    features: NDArray[np.float32],
    factors: Array,
    products: Array,
    measure: LqoMeasure,
) -> Array:
    """Measure the leave-query-out predictions of a block for the first 1, 2, ..., t features.

    Parameters
    ----------
    features
        (n_documents, t) the selected features.
    factors, products
        As in `held_out_weights`: the Cholesky factors of M_q[S, S], and c_q[S].
    measure
        The criterion that is computed from the predictions.
    """
    t = features.shape[1]
    weights = np.zeros((block.n_queries, t, t))
    held_out_weights(factors, products, weights)
    scores = np.empty((t, block.n_documents))
    held_out_scores(np.ascontiguousarray(features), block.query_ptr, weights, scores)
    return measure(block, scores)


def dense_columns(block: QueryBlock, columns: Indices) -> NDArray[np.float32]:
    """(n_documents, len(columns)) some features of a block, as a dense array."""
    features: NDArray[np.float32] = block.features[:, columns]
    return features.toarray() if block.is_sparse else features  # type: ignore[attr-defined]
