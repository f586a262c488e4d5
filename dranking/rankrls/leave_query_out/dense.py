"""The leave-query-out criterion of dense data: a state for every query and feature.

`DenseState` runs on the driver and decides when the state is updated, and for which picks. The
functions at the end of this file run in the tasks, on one block of queries each. THEORY.md of
`dranking.rankrls.greedy` defines the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import Task
from dranking.engine.tile_tasks import Argument, ByFeature, Literal
from dranking.engine.tiles import Tiles
from dranking.kernels.machine.compile import frozen
from dranking.rankrls.gram.moments import QueryMoments
from dranking.rankrls.gram.rows import GramRows
from dranking.rankrls.kernels.gram import per_query as gram_kernels
from dranking.rankrls.kernels.gram.dense import Moments
from dranking.rankrls.kernels.lqo import state as lqo
from dranking.rankrls.kernels.lqo.pivots import Picks, least_pivots, packed_matrices
from dranking.rankrls.kernels.lqo.rounding import squared_losses
from dranking.rankrls.kernels.lqo.state import BlockState, Start
from dranking.rankrls.leave_query_out.criterion import PathState, Scores
from dranking.rankrls.leave_query_out.memory_plan import MOST_PICKS, MemoryPlan
from dranking.rankrls.leave_query_out.predictions import (
    LqoMeasure,
    dense_columns,
    measure_block_predictions,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class DenseCriterion:
    """Opens paths whose state is kept.

    Parameters
    ----------
    tiles
        The data.
    plan
        Whether Gram rows are kept, and how many states a path may have.
    size
        Largest number of features that a path selects.
    """

    def __init__(self, tiles: Tiles, plan: MemoryPlan, size: int) -> None:
        self._tiles, self._plan, self._size = tiles, plan, size
        self._moments = QueryMoments(tiles)

    def open(self, regularizations: Sequence[float]) -> tuple[GramRows, list[DenseState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        tiles, plan = self._tiles, self._plan
        gram = GramRows(tiles, self._moments, plan.n_rows, keep=plan.keep_rows)
        # With several feature blocks every pick is announced before its update. With several paths
        # on workers, one path may overwrite the row of an upcoming pick of another path, and what
        # a lost worker had computed from that row could not be computed again.
        takes_upcoming = tiles.n_feature_blocks == 1 and (
            tiles.executor.in_process or len(regularizations) == 1
        )
        most_picks = MOST_PICKS if takes_upcoming else 1
        states = [
            DenseState(tiles, gram, value, self._size, plan.n_states, most_picks)
            for value in regularizations
        ]
        return gram, states


class DenseState(PathState):
    """The state of every block, updated by one pick or by several picks at once.

    An update reads the Gram rows of all selected features and writes the whole state, which takes
    much longer than its arithmetic. So one update also goes through the upcoming picks, while rows
    and state are in cache, and notes the scores after each pick. If a pick turns out differently,
    the next update starts again from the state before this update. Every pick is added as it would
    be alone, so the number of picks in an update changes no bit of the result.

    Each block holds the state of its own feature block. All feature blocks of a query hold the
    Cholesky factors of M_q[S, S] and A_q[S, S], which are t numbers per query and round.

    Parameters
    ----------
    tiles, gram
        The data, and the Gram rows fetched so far.
    regularization
        lambda.
    size
        Largest number of features that the path selects.
    n_states
        States that the path may have at the same time. With 1, every update starts from the state
        of no feature, which takes no memory.
    most_picks
        Largest number of picks in one update.
    """

    def __init__(
        self,
        tiles: Tiles,
        gram: GramRows,
        regularization: float,
        size: int,
        n_states: int,
        most_picks: int,
    ) -> None:
        super().__init__(tiles, regularization)
        self._gram = gram
        self._size, self._n_states = size, n_states
        self._most_picks = self._reach = most_picks
        self.reset()

    def reset(self) -> None:
        """Return to the state in which no feature is selected."""
        self._before: list[Task] = []  # the old states are freed before there are new ones
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
        self._picks: list[int] = []  # the picks by which `_blocks` differs from `_before`
        self._n_again = 0  # how many of `_picks` an earlier update went through already
        self._n_right = 0  # how many of `_picks` were selected
        self._scores: tuple[Array, Array, NDArray[np.float32]] | None = None

    def needs_update(self, feature: int) -> bool:
        """Whether the last update has not gone through `feature` as the next pick."""
        return self._picks[self._n_right : self._n_right + 1] != [feature]

    def add(self, selected: Indices, upcoming: Sequence[int] = ()) -> None:
        """Select the last of the features `selected`, whose Gram row was fetched."""
        feature, picks, n_right = int(selected[-1]), self._picks, self._n_right
        if not self.needs_update(feature):
            self._n_right += 1
            return
        again = picks[:n_right]
        if n_right == len(picks):
            if self._n_states > 1 or not picks:
                self._before, again = self._blocks, []
            self._reach = min(2 * self._reach, self._most_picks)
        else:  # the last update went through wrong picks: the next update takes fewer picks
            self._reach = n_right - self._n_again
        n_more = max(0, min(self._reach, self._most_picks - len(again)) - 1)
        more = list(upcoming[:n_more])
        self._picks, self._n_right = [*again, feature, *more], len(again) + 1
        self._n_again = len(again)
        self._update(np.array([*selected.tolist(), *more], dtype=np.int64))

    def _update(self, features: Indices) -> None:
        """Compute the state after `_before` and the last of these features, which are `_picks`."""
        self._blocks, self._scores = [], None
        total_rows = self._gram.rows_of(self._picks)
        # After the loss of a worker, an abandoned update that began with the same state may still
        # run on another worker, and writes to the arrays that both updates would share.
        shared = self._n_again == 0 or self._tiles.executor.in_process
        self._blocks = self._gram.map_with_rows(
            add_features if shared else partial(on_copy, add_features),
            self._before,
            features,
            Literal(features),
            self._announced(features),
            ByFeature(total_rows),
            Literal(total_rows.take(features, axis=1)),  # C order, as kernels are compiled for
            Literal(self._regularization),
            name="update",
        )

    def _announced(self, features: Indices) -> Argument:
        """The message of the feature block that holds the last feature to the other blocks.

        None if there is only one feature block.
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

    def least_pivots(self, selected: Indices) -> Array:
        """(t,) smallest pivot of each selected feature in the held-out systems of all queries."""
        size = Literal(len(selected))
        return self._tiles.least(block_pivots, self._blocks, size, name="pivots")

    def ask(self, candidates: Indices) -> None:
        """Set the candidates that the next call of `scores` evaluates."""
        self._candidates = candidates

    def scores(self) -> Scores:
        """Leave-query-out errors with each candidate."""
        if self._scores is None:
            of_block = partial(block_scores, regularization=self._regularization)
            self._scores = self._tiles.sum(self._blocks, of_block, "scores")
        scores, errors, losses = self._scores
        last, asked = max(self._n_right - 1, 0), self._candidates
        return Scores(
            scores[last, asked],
            float(errors[last]),
            np.sqrt(losses[last, asked], dtype=np.float64),
        )

    def measure(self, selected: Indices, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        total: Array = self._tiles.sum_map(
            measure_block,
            self._blocks,
            Literal(selected),
            Literal(self._gram.moments.products[selected]),
            Literal(measure),
            columns=selected,
            feature_block=0,
            name="leave-query-out",
        )
        return total


def block_pivots(block: BlockState, t: int) -> Array:
    """(t,) smallest pivots of the first t features over the queries of a block."""
    return least_pivots(block.factors, t, len(block.errors))


def initial_block(
    moments: Moments, total_diagonal: Array, total_products: Array, regularization: float, size: int
) -> BlockState:
    """The state of a block in which no feature is selected."""
    n_queries, n = moments.diagonal.shape
    totals = (np.ascontiguousarray(total) for total in (total_diagonal, total_products))
    start = Start(*map(frozen, (moments.diagonal, moments.products, *totals)))
    block = BlockState(
        start=start,
        state=np.empty((0, 4, n)),
        errors=moments.label_norms.copy(),
        within=packed_matrices(n_queries, size),
        factors=packed_matrices(n_queries, size),
        total_rows=np.empty((size, n)),
        scores=np.empty((1, n + 1)),
        least=np.empty((1, n)),
    )
    lqo.initial_scores(start, frozen(block.errors), regularization, block.scores[0], block.least[0])
    return block


def announce(block: BlockState, rows: Array, slots: Indices, position: Indices) -> Array:
    """The facts about a feature of this block that other blocks need; see `lqo.announcement`."""
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
    """The state of a block after as many more picks as there are `total_rows`; see `Picks`.

    The new state shares with the old state the arrays to which picks only append. `announced` is
    None if the block holds all features; `selected` are then their columns.
    """
    (n_picks, n), n_queries = total_rows.shape, len(block.errors)
    goes_on = len(selected) < len(block.total_rows)
    after = block._replace(
        start=_frozen_start(block),
        state=np.empty((n_queries if goes_on else 1, 4, n)),
        errors=np.empty(n_queries),
        scores=np.empty((n_picks, n + 1)),
        least=np.empty((n_picks, n)),
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
    """Read-only views of the arrays; an array that was sent to a worker may be writable."""
    return Start(*map(frozen, block.start))


def on_copy(function: Callable[..., BlockState], block: BlockState, *values: Any) -> BlockState:
    """Run `function(block, *values)` on copies of the arrays to which picks append."""
    grown = {name: getattr(block, name).copy() for name in ("within", "factors", "total_rows")}
    return function(block._replace(**grown), *values)


def measure_block(
    block: QueryBlock,
    columns: NDArray[np.float32] | None,
    state: BlockState,
    selected: Indices,
    total_products: Array,
    measure: LqoMeasure,
) -> Array:
    """Measure the leave-query-out predictions of a block after every round.

    `columns` (t, n_documents) are the selected features; None if the block holds all features.
    """
    features = dense_columns(block, selected) if columns is None else columns.T
    own = gram_kernels.moments(features, block.relevance, block.query_ptr, block.weights).products
    products = total_products - own
    return measure_block_predictions(block, features, state.factors, products, measure)


def block_scores(
    state: BlockState, *, regularization: float
) -> tuple[Array, Array, NDArray[np.float32]]:
    """Scores, errors and squared losses of a block after each pick.

    Their shapes are (n_picks, n_features), (n_picks,) and (n_picks, n_features).
    """
    losses = squared_losses(state.start.total_diagonal + regularization, state.least)
    return state.scores[:, :-1], state.scores[:, -1], losses
