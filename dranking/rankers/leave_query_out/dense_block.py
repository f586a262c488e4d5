"""The leave-query-out state of a block: what each round of a selection does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.kernels.gram import per_query as gram
from dranking.kernels.gram.dense import Moments
from dranking.kernels.lqo import state as lqo
from dranking.kernels.lqo.packed_triangles import group_room
from dranking.kernels.lqo.pivots import Picks
from dranking.kernels.lqo.predictions import held_out_scores, held_out_weights
from dranking.kernels.lqo.state import BlockState, Start
from dranking.kernels.machine.compile import frozen

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_PICKS = 16
"""Picks of an update at most: what they share is no longer most of its time then."""

HeldOutMeasure: TypeAlias = Callable[[QueryBlock, Array], Array]


def initial_block(
    moments: Moments, total_diagonal: Array, total_products: Array, regularization: float, size: int
) -> BlockState:
    """A block before the first round."""
    n_queries, n = moments.diagonal.shape
    totals = (np.ascontiguousarray(total) for total in (total_diagonal, total_products))
    start = Start(*map(frozen, (moments.diagonal, moments.products, *totals)))
    block = BlockState(
        start=start,
        state=np.empty((0, 4, n)),
        errors=moments.label_norms.copy(),
        within=group_room(n_queries, size),
        factors=group_room(n_queries, size),
        total_rows=np.empty((size, n)),
        scores=np.empty((1, n + 1)),
    )
    lqo.initial_scores(start, frozen(block.errors), regularization, block.scores[0])
    return block


def announce(block: BlockState, rows: Array, slots: Indices, position: Indices) -> Array:
    """What tiles must know of a feature that this one holds; see `lqo.announcement`."""
    numbers = (frozen(rows), frozen(slots), frozen(position))
    return lqo.announcement(_frozen_start(block), frozen(block.state), *numbers)


def add_features(
    block: BlockState,
    rows: Array,
    slots: Indices,
    selected: Indices,
    announced: Array | None,
    total_rows: Array,
    total_within: Array,
    regularization: float,
) -> BlockState:
    """The block past as many rounds as there are `total_rows`; see `Picks`.

    It shares with the block before what rounds only add to, which of that block still holds.
    `announced` is None where the block holds all features, those `selected` among them.
    """
    (n_picks, n), n_queries = total_rows.shape, len(block.errors)
    goes_on = len(selected) < len(block.total_rows)
    after = block._replace(
        start=_frozen_start(block),
        state=np.empty((n_queries if goes_on else 1, 4, n)),
        errors=np.empty(n_queries),
        scores=np.empty((n_picks, n + 1)),
    )
    picks = Picks(
        frozen(slots),
        frozen(rows),
        frozen(np.ascontiguousarray(total_rows)),
        frozen(total_within),
        frozen(selected),
        frozen(np.empty((0, n_queries)) if announced is None else announced),
    )
    lqo.update(frozen(block.state), frozen(block.errors), picks, regularization, after)
    return after


def _frozen_start(block: BlockState) -> Start:
    """As it was made: what travelled may be writable."""
    return Start(*map(frozen, block.start))


def on_copy(function: Callable[..., BlockState], block: BlockState, *values: Any) -> BlockState:
    """Run `function(block, *values)`, with a copy of what rounds add to."""
    grown = {name: getattr(block, name).copy() for name in ("within", "factors", "total_rows")}
    return function(block._replace(**grown), *values)


def measure_block(
    block: QueryBlock,
    columns: NDArray[np.float32] | None,
    state: BlockState,
    selected: Indices,
    total_products: Array,
    measure: HeldOutMeasure,
) -> Array:
    """Measure the scores of a block's documents by models that were fitted without their query.

    `columns` are the selected features (t, n_documents), or None where the block holds them.
    """
    features = dense_columns(block, selected) if columns is None else columns.T
    own = gram.moments(features, block.relevance, block.query_ptr, block.weights).products
    return measure_held_out(block, features, state.factors, total_products - own, measure)


def dense_columns(block: QueryBlock, columns: Indices) -> NDArray[np.float32]:
    """(n_documents, len(columns)) some features of a block."""
    features: NDArray[np.float32] = block.features[:, columns]
    return features.toarray() if block.is_sparse else features  # type: ignore[attr-defined]


def measure_held_out(
    block: QueryBlock,
    features: NDArray[np.float32],
    factors: Array,
    left_out: Array,
    measure: HeldOutMeasure,
) -> Array:
    """The same from the selected features and what `held_out_weights` takes."""
    t = features.shape[1]
    weights = np.zeros((block.n_queries, t, t))
    held_out_weights(factors, left_out, weights)
    scores = np.empty((t, block.n_documents))
    held_out_scores(np.ascontiguousarray(features), block.query_ptr, weights, scores)
    return measure(block, scores)


def block_scores(state: BlockState) -> tuple[Array, Array]:
    """(n_rounds, n_features) scores of a block after each round, and (n_rounds,) its error then."""
    return state.scores[:, :-1], state.scores[:, -1]
