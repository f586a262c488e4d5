"""The leave-query-out criterion from a state kept per query and feature."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dranking.engine.executor import Task
from dranking.engine.tiles import Argument, ByFeature, Literal, Tiles
from dranking.rankers.gram import GramRows, QueryMoments
from dranking.rankers.kept_state import removals_of
from dranking.rankers.lqo_state import (
    HeldOutMeasure,
    add_feature,
    announce,
    block_scores,
    initial_state,
    measure_block,
    on_copy,
)
from dranking.rankers.memory import MemoryPlan

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class DenseCriterion:
    """Opens paths whose state is kept.

    Parameters
    ----------
    tiles
        The data.
    plan
        What is kept of the Gram rows.
    size
        Features to select at most.
    """

    def __init__(self, tiles: Tiles, plan: MemoryPlan, size: int) -> None:
        self._tiles, self._plan, self._size = tiles, plan, size
        self._moments = QueryMoments(tiles)

    def open(self, regularizations: Sequence[float]) -> tuple[GramRows, list[DenseState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        plan = self._plan
        gram = GramRows(self._tiles, self._moments, plan.n_rows, keep=plan.keep_rows)
        return gram, [DenseState(self._tiles, gram, value, self._size) for value in regularizations]


class DenseState:
    """The state of every tile, updated each round.

    A tile holds the state of its own features; the factors of A[S, S], a matter of t numbers per
    query and round, are kept by all tiles of a query.

    Parameters
    ----------
    tiles, gram
        The data.
    regularization
        lambda.
    size
        Features to select at most.
    """

    def __init__(self, tiles: Tiles, gram: GramRows, regularization: float, size: int) -> None:
        self._tiles, self._gram = tiles, gram
        self._regularization, self._size = regularization, size
        self.reset()

    def reset(self) -> None:
        """Select nothing."""
        self._blocks: list[Task] = []  # gone before there are others
        moments = self._gram.moments
        self._blocks = self._tiles.map_values(
            initial_state,
            moments.blocks,
            ByFeature(moments.diagonal),
            ByFeature(moments.products),
            Literal(self._regularization),
            Literal(self._size),
            name="initial-state",
        )

    def add(self, selected: Indices) -> None:
        """Select the last of these features, whose Gram row was fetched."""
        total_row = self._gram.totals[int(selected[-1])]
        # Only in this process can nobody else hold the state before.
        in_place = self._tiles.executor.in_process
        self._blocks = self._gram.map_with_rows(
            add_feature if in_place else partial(on_copy, add_feature),
            self._blocks,
            selected,
            Literal(selected),
            self._announced(selected),
            ByFeature(total_row),
            Literal(total_row[selected]),
            Literal(self._regularization),
            name="update",
        )

    def _announced(self, selected: Indices) -> Argument:
        """What all tiles of a query must know of the feature, from the one that holds it.

        Where that is the only one, it finds out as it needs it.
        """
        tiles = self._tiles
        if tiles.n_feature_blocks == 1:
            return Literal(None)
        owner = int(tiles.feature_block_of(selected[-1]))
        tasks = self._gram.map_with_rows(
            announce,
            self._blocks,
            selected,
            Literal(tiles.positions(selected, owner)),
            name="announce",
            feature_block=owner,
        )
        return tiles.share(tasks, len(selected) + 2, "announce")

    def ask(self, candidates: Indices) -> None:
        """Say which candidates are scored next."""
        self._candidates = candidates

    def scores(self) -> tuple[Array, float]:
        """(n_candidates,) LQO error with each candidate asked for, and the present one."""
        scores, error = self._tiles.sum(self._blocks, block_scores, "scores")
        return scores[self._candidates], float(error)

    def removals(self, selected: Indices) -> tuple[Array, float]:
        """(t,) LQO error without each of some features in turn, and with all of them."""
        return removals_of(self._tiles, self._gram, selected, self._regularization)

    def measure(self, selected: Indices, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions over all blocks."""
        parts = self._tiles.map_blocks(
            measure_block,
            self._blocks,
            Literal(selected),
            Literal(self._gram.moments.products[selected]),
            Literal(measure),
            columns=selected,
            feature_block=0,
            name="leave-query-out",
        )
        total: Array = self._tiles.sum(parts, np.asarray, "leave-query-out")
        return total
