"""The leave-query-out state of a block: what each round of a selection does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.kernels import lqo
from dranking.kernels.dense_gram import Moments
from dranking.kernels.lqo import BlockState, Pick
from dranking.kernels.packed import group_room

Array = NDArray[np.float64]

HeldOutMeasure: TypeAlias = Callable[[QueryBlock, Array], Array]


def initial_state(moments: Moments, start: tuple[Array, Array, float, int]) -> BlockState:
    """State and scores of a block before the first round."""
    total_diagonal, total_products, regularization, size = start
    n_queries, n = moments.diagonal.shape
    state = np.empty((n_queries, 4, n))
    lqo.initial_state(
        moments.diagonal, moments.products, total_diagonal, total_products, regularization, state
    )
    within, factors = group_room(n_queries, size), group_room(n_queries, size)
    block = BlockState(state, moments.label_norms.copy(), within, factors, np.empty(n + 1))
    lqo.score(block)
    return block


def add_feature(
    before: BlockState,
    rows: Array,
    slots: NDArray[np.int64],
    selected: NDArray[np.int64],
    total_rows: Array,
    regularization: float,
    in_place: bool,
) -> BlockState:
    """State and scores of a block after one more round."""
    after = before if in_place else BlockState(*(a.copy() for a in before))
    lqo.update(after, Pick(selected, slots, rows, total_rows), regularization)
    return after


def measure_block(
    block: QueryBlock,
    state: BlockState,
    moments: Moments,
    selected: NDArray[np.int64],
    total_products: Array,
    measure: HeldOutMeasure,
) -> Array:
    """Measure the scores of a block's documents by models that were fitted without their query."""
    left_out = total_products[selected] - moments.products[:, selected]
    return measure_held_out(block, state.factors, left_out, selected, measure)


def measure_held_out(
    block: QueryBlock,
    factors: Array,
    left_out: Array,
    selected: NDArray[np.int64],
    measure: HeldOutMeasure,
) -> Array:
    """The same from what `lqo.held_out_weights` takes."""
    t = len(selected)
    weights = np.zeros((block.n_queries, t, t))
    lqo.held_out_weights(factors, left_out, weights)
    columns = block.features[:, selected]
    columns = columns.toarray() if block.is_sparse else columns
    scores = np.empty((t, block.n_documents))
    lqo.held_out_scores(np.ascontiguousarray(columns), block.query_ptr, weights, scores)
    return measure(block, scores)


def block_scores(state: BlockState) -> Array:
    """(n_features + 1,) scores of a block: every candidate's error, and the present one."""
    return state.scores
