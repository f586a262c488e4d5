"""RankRLS fitted without each query in turn: leave-query-out predictions and errors.

The models are fitted to any sets of features, from A_q[S, S] and b_q[S] alone. Ranking measures are
computed from predictions and need the documents; the squared error needs no documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.tile_tasks import Literal
from dranking.engine.tiles import Tiles
from dranking.kernels.gram.dense import Moments
from dranking.kernels.gram.per_query import centred_strips
from dranking.kernels.lqo.held_out import (
    HeldOutFit,
    KeptTotals,
    fit_held_out,
    removal_errors,
    score_held_out,
)
from dranking.kernels.lqo.predictions import held_out_scores, held_out_weights
from dranking.rankers.gram.rows import TotalRows

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

LqoMeasure: TypeAlias = Callable[[QueryBlock, Array], Array]
"""Function from a block, and the leave-query-out predictions (n_models, n_documents) of the
documents of the block, to an array. The arrays of all blocks are summed."""

MAX_NUMBERS = 2**19
"""Numbers in the matrices of the queries that are fitted together: 4 MB."""


class FeatureSets(NamedTuple):
    """Sets of features, on each of which a model is fitted.

    Attributes
    ----------
    features
        (n_used,) indices of all features that occur.
    subsets
        The sets, each as positions in `features`, in an order of its own.
    totals
        A[S, S], b[S] and lambda for each set S.
    """

    features: Indices
    subsets: Sequence[Indices]
    totals: Sequence[KeptTotals]


def feature_sets(
    kept: Sequence[Sequence[int]], gram: TotalRows, regularization: float
) -> FeatureSets:
    """The sets of features `kept`; the Gram rows of all these features were fetched."""
    features = list(dict.fromkeys(chain.from_iterable(kept)))
    position = {feature: j for j, feature in enumerate(features)}
    subsets = [np.array([position[feature] for feature in selected]) for selected in kept]
    used = np.array(features, dtype=np.int64)
    return _feature_sets(used, subsets, gram.between(features), gram, regularization)


def sets_with_each(
    selected: Sequence[int], candidates: Sequence[int], gram: TotalRows, regularization: float
) -> FeatureSets:
    """The selected features with each candidate; no Gram row of a candidate is needed."""
    t, features = len(selected), np.array([*selected, *candidates], dtype=np.int64)
    between = np.diag(gram.moments.diagonal[features])
    between[:t, :t] = gram.between(selected)
    between[:t, t:] = gram.rows_of(selected)[:, features[t:]]
    between[t:, :t] = between[:t, t:].T
    subsets = [np.array([*range(t), t + j]) for j in range(len(candidates))]
    return _feature_sets(features, subsets, between, gram, regularization)


def _feature_sets(
    features: Indices,
    subsets: Sequence[Indices],
    between: Array,
    gram: TotalRows,
    regularization: float,
) -> FeatureSets:
    products = gram.moments.products[features]
    totals = [
        KeptTotals(between[np.ix_(subset, subset)], products[subset], regularization)
        for subset in subsets
    ]
    return FeatureSets(features, subsets, totals)


def totals_of(gram: TotalRows, selected: Indices, regularization: float) -> KeptTotals:
    """A[S, S], b[S] and lambda for features S whose Gram rows were fetched."""
    products = gram.moments.products[selected]
    return KeptTotals(gram.between(selected.tolist()), products, regularization)


def measure_sets(tiles: Tiles, sets: FeatureSets, measure: LqoMeasure) -> Array:
    """Sum a measure of the leave-query-out predictions of every feature set over all blocks.

    One pass over the documents; O(t) for each document and set, O(t^3) for each query and set.
    """
    parts = tiles.map_blocks(
        partial(with_one_blas_thread, measure_block_sets),
        Literal(sets),
        Literal(measure),
        columns=sets.features,
        feature_block=0,
        name="leave-query-out",
    )
    total: Array = tiles.sum(parts, np.asarray, "leave-query-out")
    return total


def measure_block_sets(
    block: QueryBlock, shared: NDArray[np.float32] | None, sets: FeatureSets, measure: LqoMeasure
) -> Array:
    """Measure the leave-query-out predictions of a block for every feature set.

    `shared` (n_used, n_documents) are the features of the sets; None if the block holds them.
    """
    columns = _columns(block, sets.features) if shared is None else np.ascontiguousarray(shared.T)
    scores = np.empty((len(sets.subsets), block.n_documents))
    for subset, weights, out in zip(
        sets.subsets, _weights_of_sets(block, columns, sets), scores, strict=True
    ):
        score_held_out(np.ascontiguousarray(columns[:, subset]), block.query_ptr, weights, out)
    return measure(block, scores)


def _weights_of_sets(
    block: QueryBlock, columns: NDArray[np.float32], sets: FeatureSets
) -> list[Array]:
    """For each set, (n_queries, t) weights of the models fitted without each query."""
    weights = [np.empty((block.n_queries, len(subset))) for subset in sets.subsets]
    first = 0
    for grams, products, norms in _own_statistics(block, columns):
        queries = slice(first, first + len(norms))
        for subset, totals, out in zip(sets.subsets, sets.totals, weights, strict=True):
            own = grams[:, subset[:, None], subset], products[:, subset]
            out[queries] = fit_held_out(*own, norms, totals).weights
        first = queries.stop
    return weights


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
        What is computed from the predictions.
    """
    t = features.shape[1]
    weights = np.zeros((block.n_queries, t, t))
    held_out_weights(factors, products, weights)
    scores = np.empty((t, block.n_documents))
    held_out_scores(np.ascontiguousarray(features), block.query_ptr, weights, scores)
    return measure(block, scores)


def errors_without_each(
    moments: Moments, rows: Array, slots: Indices, selected: Indices, totals: KeptTotals
) -> Array:
    """(t + 1,) errors of a block without each selected feature, and with all, from Gram rows."""
    errors = np.zeros(len(selected) + 1)
    for _, fit, grams in fits_from_rows(moments, rows, slots, selected, totals):
        errors[:-1] += removal_errors(fit, grams)
        errors[-1] += fit.errors.sum()
    return errors


def errors_without_each_from_documents(
    block: QueryBlock, selected: Indices, totals: KeptTotals
) -> Array:
    """(t + 1,) errors of a block without each selected feature, and with all, from documents."""
    errors = np.zeros(len(selected) + 1)
    for grams, products, norms in _own_statistics(block, _columns(block, selected)):
        fit = fit_held_out(grams, products, norms, totals)
        errors[:-1] += removal_errors(fit, grams)
        errors[-1] += fit.errors.sum()
    return errors


def fits_from_rows(
    moments: Moments, rows: Array, slots: Indices, selected: Indices, totals: KeptTotals
) -> Iterator[tuple[slice, HeldOutFit, Array]]:
    """Yield groups of queries, with the models fitted without each query and with A_q[S, S]."""
    n_queries, t = len(moments.label_norms), len(selected)
    step = max(1, MAX_NUMBERS // max(1, t * t))
    for first in range(0, n_queries, step):
        queries = slice(first, min(first + step, n_queries))
        there = np.arange(n_queries)[queries]
        grams = rows[np.ix_(slots, there, selected)].transpose(1, 0, 2)
        grams = (grams + grams.transpose(0, 2, 1)) / 2
        products = moments.products[queries][:, selected]
        yield queries, fit_held_out(grams, products, moments.label_norms[queries], totals), grams


def _own_statistics(
    block: QueryBlock, columns: NDArray[np.float32]
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield A_q, b_q and y_q.y_q of these columns for one group of queries after the other."""
    strips = centred_strips(columns, block.relevance, block.query_ptr, block.weights)
    for rows, labels, ptr in strips:
        parts = [slice(*borders) for borders in pairwise(ptr)]
        yield (
            np.array([rows[part].T @ rows[part] for part in parts]),
            np.array([rows[part].T @ labels[part] for part in parts]),
            np.array([labels[part] @ labels[part] for part in parts]),
        )


def dense_columns(block: QueryBlock, columns: Indices) -> NDArray[np.float32]:
    """(n_documents, len(columns)) some features of a block, as a dense array."""
    features: NDArray[np.float32] = block.features[:, columns]
    return features.toarray() if block.is_sparse else features  # type: ignore[attr-defined]


def _columns(block: QueryBlock, features: Indices) -> NDArray[np.float32]:
    return np.ascontiguousarray(dense_columns(block, features))
