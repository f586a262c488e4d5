"""The leave-query-out criterion from a state kept per query and feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dranking.engine.executor import Task
from dranking.engine.tiles import Argument, ByFeature, Literal, Tiles
from dranking.rankers.gram.rows import GramRows, QueryMoments
from dranking.rankers.leave_query_out.dense_block import (
    MOST_PICKS,
    HeldOutMeasure,
    add_features,
    announce,
    block_scores,
    initial_block,
    measure_block,
    on_copy,
)
from dranking.rankers.leave_query_out.kept_rows import removals_of
from dranking.rankers.leave_query_out.memory_plan import MemoryPlan

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
        # Between feature blocks every pick is announced. And where several paths share the rows,
        # one may write over a row that another has gone through before it is selected: a worker
        # that is lost could not be made up for.
        runs_ahead = self._tiles.n_feature_blocks == 1 and (
            self._tiles.executor.in_process or len(regularizations) == 1
        )
        states = [
            DenseState(self._tiles, gram, value, self._size, plan.n_states, runs_ahead=runs_ahead)
            for value in regularizations
        ]
        return gram, states


class DenseState:
    """The state of every tile, updated each round, or several rounds at once.

    A tile holds the state of its own features; the factors of A[S, S], a matter of t numbers per
    query and round, are kept by all tiles of a query.

    An update reads the Gram rows of all features selected and writes the state: much more than it
    computes. So where the next picks can be foretold, it goes through them as well while all that
    is near, and scores after each. What was foretold wrong is forgotten: the next update begins
    where this one did. No bit depends on it, for every pick is selected as it would be alone.

    Parameters
    ----------
    tiles, gram
        The data.
    regularization
        lambda.
    size
        Features to select at most.
    n_states
        Of each path at a time. With 1, updates go through all picks again: a state of no feature
        takes no memory.
    runs_ahead
        Whether updates go through picks that are foretold.
    """

    def __init__(
        self,
        tiles: Tiles,
        gram: GramRows,
        regularization: float,
        size: int,
        n_states: int,
        *,
        runs_ahead: bool,
    ) -> None:
        self._tiles, self._gram = tiles, gram
        self._regularization, self._size = regularization, size
        self._n_states, self._runs_ahead = n_states, runs_ahead
        self._reach = MOST_PICKS
        self.reset()

    def reset(self) -> None:
        """Select nothing."""
        self._before: list[Task] = []  # gone before there are others
        self._blocks: list[Task] = []
        moments = self._gram.moments
        self._blocks = self._tiles.map_values(
            initial_block,
            moments.blocks,
            ByFeature(moments.diagonal),
            ByFeature(moments.products),
            Literal(self._regularization),
            Literal(self._size),
            name="initial-scores",
        )
        self._picks: list[int] = []  # by which `_blocks` is past `_before`
        self._n_again = 0  # of these, how many an update before had gone through
        self._n_right = 0  # and how many were selected
        self._scores: tuple[Array, Array] | None = None

    def add(self, selected: Indices, next_picks: Callable[[], Sequence[int]]) -> None:
        """Select the last of these features, whose Gram row was fetched."""
        feature, picks, n_right = int(selected[-1]), self._picks, self._n_right
        if picks[n_right : n_right + 1] == [feature]:
            self._n_right += 1
            return
        again = picks[:n_right]
        if n_right == len(picks):
            if self._n_states > 1 or not picks:
                self._before, again = self._blocks, []
            self._reach = min(2 * self._reach, MOST_PICKS)
        else:
            self._reach = n_right - self._n_again
        n_ahead = min(self._reach, MOST_PICKS - len(again)) - 1 if self._runs_ahead else 0
        ahead = list(next_picks())[: max(0, n_ahead)]
        self._picks, self._n_right = [*again, feature, *ahead], len(again) + 1
        self._n_again = len(again)
        self._update(np.array([*selected.tolist(), *ahead], dtype=np.int64))

    def _update(self, features: Indices) -> None:
        """Go from the state before to that past the last of these features, those of `_picks`."""
        self._blocks, self._scores = [], None
        picks = self._picks
        total_rows = self._gram.rows_of(picks)
        # Where a worker was lost, another may still be at an update that began from the same state
        # and came to nothing: it writes to what is shared.
        shared = self._n_again == 0 or self._tiles.executor.in_process
        self._blocks = self._gram.map_with_rows(
            add_features if shared else partial(on_copy, add_features),
            self._before,
            features,
            Literal(features),
            self._announced(features),
            ByFeature(total_rows),
            Literal(total_rows[:, features]),
            Literal(self._regularization),
            name="update",
        )

    def _announced(self, features: Indices) -> Argument:
        """What all tiles of a query must know of the last feature, from the one that holds it.

        Where that is the only one, it finds out as it needs it.
        """
        tiles = self._tiles
        if tiles.n_feature_blocks == 1:
            return Literal(None)
        owner = int(tiles.feature_block_of(features[-1]))
        tasks = self._gram.map_with_rows(
            announce,
            self._before,
            features,
            Literal(tiles.positions(features, owner)),
            name="announce",
            feature_block=owner,
        )
        return tiles.share(tasks, len(features) + 2, "announce")

    def ask(self, candidates: Indices) -> None:
        """Say which candidates are scored next."""
        self._candidates = candidates

    def scores(self) -> tuple[Array, float]:
        """(n_candidates,) LQO error with each candidate asked for, and the present one."""
        if self._scores is None:
            self._scores = self._tiles.sum(self._blocks, block_scores, "scores")
        scores, errors = self._scores
        last = max(self._n_right - 1, 0)
        return scores[last, self._candidates], float(errors[last])

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
