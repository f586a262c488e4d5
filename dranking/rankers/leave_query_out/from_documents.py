"""Leave-query-out predictions of any sets of features, from the documents themselves.

What is measured on these is a ranking measure: the squared error needs no documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import with_one_blas_thread
from dranking.engine.tiles import Literal, Tiles
from dranking.kernels.gram.per_query import centred_strips
from dranking.kernels.lqo.held_out import KeptTotals, fit_held_out, removal_errors, score_held_out
from dranking.rankers.gram.rows import TotalRows
from dranking.rankers.leave_query_out.dense_block import HeldOutMeasure, dense_columns

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class SubsetModels(NamedTuple):
    """RankRLS on some sets of features.

    Attributes
    ----------
    features
        (n_used,) indices of all features that occur.
    subsets
        The sets, each as positions in `features`, in an order of its own.
    totals
        What all queries together say of each set.
    """

    features: Indices
    subsets: Sequence[Indices]
    totals: Sequence[KeptTotals]


def models_of(
    kept: Sequence[Sequence[int]], gram: TotalRows, regularization: float
) -> SubsetModels:
    """Models on some sets of features, the rows of all of which were fetched."""
    features = list(dict.fromkeys(chain.from_iterable(kept)))
    position = {feature: j for j, feature in enumerate(features)}
    subsets = [np.array([position[feature] for feature in selected]) for selected in kept]
    used = np.array(features, dtype=np.int64)
    return _models(used, subsets, gram.between(features), gram, regularization)


def models_with_each(
    selected: Sequence[int], candidates: Sequence[int], gram: TotalRows, regularization: float
) -> SubsetModels:
    """Models on some features and each candidate; the rows of the candidates are not needed."""
    t, features = len(selected), np.array([*selected, *candidates], dtype=np.int64)
    between = np.diag(gram.moments.diagonal[features])
    between[:t, :t] = gram.between(selected)
    between[:t, t:] = gram.rows_of(selected)[:, features[t:]]
    between[t:, :t] = between[:t, t:].T
    subsets = [np.array([*range(t), t + j]) for j in range(len(candidates))]
    return _models(features, subsets, between, gram, regularization)


def _models(
    features: Indices,
    subsets: Sequence[Indices],
    between: Array,
    gram: TotalRows,
    regularization: float,
) -> SubsetModels:
    products = gram.moments.products[features]
    totals = [
        KeptTotals(between[np.ix_(subset, subset)], products[subset], regularization)
        for subset in subsets
    ]
    return SubsetModels(features, subsets, totals)


def measure_subsets(tiles: Tiles, models: SubsetModels, measure: HeldOutMeasure) -> Array:
    """Sum a measure of the leave-query-out predictions of some models over all blocks.

    Takes one pass over the documents; O(t) for each document and set, O(t^3) for each query and
    set.
    """
    parts = tiles.map_blocks(
        partial(with_one_blas_thread, measure_block_subsets),
        Literal(models),
        Literal(measure),
        columns=models.features,
        feature_block=0,
        name="leave-query-out",
    )
    total: Array = tiles.sum(parts, np.asarray, "leave-query-out")
    return total


def measure_block_subsets(
    block: QueryBlock,
    shared: NDArray[np.float32] | None,
    models: SubsetModels,
    measure: HeldOutMeasure,
) -> Array:
    """Measure the scores of a block's documents by models that were fitted without their query.

    `shared` are the features of the models (n_used, n_documents), or None where the block holds
    them.
    """
    columns = _columns(block, models.features) if shared is None else np.ascontiguousarray(shared.T)
    scores = np.empty((len(models.subsets), block.n_documents))
    for subset, weights, out in zip(
        models.subsets, _held_out_weights(block, columns, models), scores, strict=True
    ):
        score_held_out(np.ascontiguousarray(columns[:, subset]), block.query_ptr, weights, out)
    return measure(block, scores)


def _held_out_weights(
    block: QueryBlock, columns: NDArray[np.float32], models: SubsetModels
) -> list[Array]:
    """(n_queries, t) weights of every set, fitted to all queries but one."""
    weights = [np.empty((block.n_queries, len(subset))) for subset in models.subsets]
    first = 0
    for grams, products, norms in _own_statistics(block, columns):
        queries = slice(first, first + len(norms))
        for subset, totals, out in zip(models.subsets, models.totals, weights, strict=True):
            own = grams[:, subset[:, None], subset], products[:, subset]
            out[queries] = fit_held_out(*own, norms, totals).weights
        first = queries.stop
    return weights


def errors_without_each(block: QueryBlock, selected: Indices, totals: KeptTotals) -> Array:
    """(t + 1,) leave-query-out errors of a block without each feature in turn, and with all."""
    errors = np.zeros(len(selected) + 1)
    for grams, products, norms in _own_statistics(block, _columns(block, selected)):
        fit = fit_held_out(grams, products, norms, totals)
        errors[:-1] += removal_errors(fit, grams)
        errors[-1] += fit.errors.sum()
    return errors


def _columns(block: QueryBlock, features: Indices) -> NDArray[np.float32]:
    """(n_documents, t) some features of a block, however it holds them."""
    return np.ascontiguousarray(dense_columns(block, features))


def _own_statistics(
    block: QueryBlock, columns: NDArray[np.float32]
) -> Iterator[tuple[Array, Array, Array]]:
    """A_q, b_q and y_q.y_q of some queries, of these columns; until all were there."""
    strips = centred_strips(columns, block.relevance, block.query_ptr, block.weights)
    for rows, labels, ptr in strips:
        parts = [slice(*borders) for borders in pairwise(ptr)]
        yield (
            np.array([rows[part].T @ rows[part] for part in parts]),
            np.array([rows[part].T @ labels[part] for part in parts]),
            np.array([labels[part] @ labels[part] for part in parts]),
        )
