"""The leave-query-out criterion of sparse data: nothing is kept for any query.

Each round computes what a dense state would hold from the nonzeros of the blocks
(`dranking.rankrls.kernels.lqo.sparse`). So memory is the data and some vectors of length
n_features, and every round reads the data once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.tile_tasks import Literal
from dranking.engine.tiles import Tiles
from dranking.kernels.machine.compile import frozen
from dranking.rankrls.gram.moments import TotalMoments
from dranking.rankrls.gram.rows import TotalRows
from dranking.rankrls.kernels.gram.dense import Queries
from dranking.rankrls.kernels.gram.sparse import Csr, csr_of
from dranking.rankrls.kernels.gram.sparse_query import Fit
from dranking.rankrls.kernels.gram.sparse_totals import row_totals
from dranking.rankrls.kernels.lqo.pivots import least_pivots, packed_matrices
from dranking.rankrls.kernels.lqo.rounding import squared_losses
from dranking.rankrls.kernels.lqo.sparse import add_gains
from dranking.rankrls.kernels.lqo.sparse_fits import Candidates, explain, held_out_factors, roles
from dranking.rankrls.leave_query_out.criterion import PathState, Scores
from dranking.rankrls.leave_query_out.memory_plan import MemoryPlan
from dranking.rankrls.leave_query_out.predictions import (
    LqoMeasure,
    dense_columns,
    measure_block_predictions,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class SparseCriterion:
    """Opens paths whose scores are computed from the data; like `DenseCriterion`."""

    def __init__(self, tiles: Tiles, plan: MemoryPlan) -> None:
        self._tiles, self._plan = tiles, plan
        self._moments = TotalMoments(tiles)

    def open(self, regularizations: Sequence[float]) -> tuple[SparseRows, list[SparseState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        rows = SparseRows(self._tiles, self._moments, self._plan.n_rows)
        scorer = _Scorer(self._tiles, rows)
        return rows, [SparseState(self._tiles, scorer, value) for value in regularizations]


class SparseRows(TotalRows):
    """The Gram rows A[i, :] fetched so far; the rows of single queries are not kept."""

    def _sum_rows(self, features: Sequence[int]) -> Array:
        indices = np.array(features, dtype=np.int64)
        totals: Array = self._tiles.sum_blocks(block_rows, indices, name="gram-rows")
        return totals


class SparseState(PathState):
    """The features selected along one path."""

    def __init__(self, tiles: Tiles, scorer: _Scorer, regularization: float) -> None:
        super().__init__(tiles, regularization)
        self._scorer = scorer
        self.regularization = regularization
        self.reset()

    def add(self, selected: Indices, upcoming: Sequence[int] = ()) -> None:
        """Select these features, whose Gram rows were fetched."""
        self.selected = selected

    def reset(self) -> None:
        """Return to the state in which no feature is selected."""
        self.selected = np.empty(0, dtype=np.int64)

    def ask(self, candidates: Indices) -> None:
        """Set the candidates that the next call of `scores` evaluates."""
        self._scorer.ask(self, candidates)

    def scores(self) -> Scores:
        """Leave-query-out errors with each candidate."""
        return self._scorer.answer(self)

    def least_pivots(self, selected: Indices) -> Array:
        """(t,) smallest pivot of each selected feature in the held-out systems of all queries."""
        return self._scorer.least_pivots(selected, self.regularization)

    def measure(self, selected: Indices, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        return self._scorer.measure(selected, self.regularization, measure)


class _Scorer:
    """Scores the candidates of all paths in one pass over X."""

    def __init__(self, tiles: Tiles, rows: SparseRows) -> None:
        self._tiles, self._rows, self._moments = tiles, rows, rows.moments
        self._asked: dict[SparseState, Indices] = {}
        self._answers: dict[SparseState, tuple[Array, float, NDArray[np.float32]]] = {}

    def ask(self, state: SparseState, candidates: Indices) -> None:
        """Set the candidates of a path; all paths are scored when the first path calls `answer`."""
        self._asked[state] = candidates

    def answer(self, state: SparseState) -> Scores:
        """The scores of a path, after one pass for all paths that asked since the last pass."""
        if state in self._asked:
            questions = [self._question(*asked) for asked in self._asked.items()]
            answers = self._tiles.sum_blocks(block_gains, *questions, name="scores")
            self._answers.update(zip(self._asked, answers, strict=True))
            self._asked.clear()
        gains, error, losses = self._answers[state]
        return Scores(gains + error, float(error), np.sqrt(losses, dtype=np.float64))

    def measure(self, selected: Indices, regularization: float, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        fit = self._fit(selected, np.empty(0, dtype=np.int64), regularization)
        total: Array = self._tiles.sum_blocks(block_measure, fit, measure, name="leave-query-out")
        return total

    def least_pivots(self, selected: Indices, regularization: float) -> Array:
        """(t,) smallest pivots over all queries; one pass."""
        fit = self._fit(selected, np.empty(0, dtype=np.int64), regularization)
        tiles = self._tiles
        return tiles.least(block_pivots, tiles.data, Literal(fit), name="pivots")

    def _question(self, state: SparseState, candidates: Indices) -> Any:
        fit = self._fit(state.selected, candidates, state.regularization)
        columns = self._rows.rows_of(state.selected.tolist())[:, candidates]
        totals = columns, self._moments.diagonal[candidates], self._moments.products[candidates]
        return self._tiles.executor.submit(block_question, fit, *totals, name="fit")

    def _fit(self, selected: Indices, candidates: Indices, regularization: float) -> Fit:
        between = np.ascontiguousarray(self._rows.rows_of(selected.tolist())[:, selected])
        role = roles(self._rows.n_features, selected, candidates)
        return Fit(role, selected, between, self._moments.products[selected], regularization)


def block_rows(block: QueryBlock, features: Indices) -> Array:
    """(J, n_features) rows of the Gram matrix of the block's queries."""
    return row_totals(block.features, block.query_ptr, block.weights, features)


def block_question(fit: Fit, *totals: Array) -> tuple[Fit, Candidates]:
    """The values with which all tasks score the candidates of a path; see `explain`."""
    return fit, explain(_frozen(fit), *totals)


def block_gains(
    block: QueryBlock, *questions: tuple[Fit, Candidates]
) -> tuple[tuple[Array, float, NDArray[np.float32]], ...]:
    """For every path, the change of the block's error by each candidate, and the block's error.

    The third result of each path is the squared losses of the candidates.
    """
    arrays, answers = _arrays(block), []
    for fit, candidates in questions:
        gains = np.zeros(len(candidates.products))
        least = np.full(len(gains), np.inf)
        error = add_gains(*arrays, _frozen(fit), _frozen(candidates), gains, least)
        squares = candidates.diagonal + fit.regularization
        answers.append((gains, error, squared_losses(squares, least)))
    return tuple(answers)


def block_pivots(block: QueryBlock, fit: Fit) -> Array:
    """(t,) smallest pivots of the selected features over the queries of a block."""
    t = len(fit.selected)
    factors = packed_matrices(block.n_queries, t)
    products = np.empty((block.n_queries, t))
    held_out_factors(*_arrays(block), _frozen(fit), factors, products)
    return least_pivots(factors, t, block.n_queries)


def block_measure(block: QueryBlock, fit: Fit, measure: LqoMeasure) -> Array:
    """Measure the leave-query-out predictions of a block after every round."""
    t = len(fit.selected)
    factors = packed_matrices(block.n_queries, t)
    products = np.empty((block.n_queries, t))
    held_out_factors(*_arrays(block), _frozen(fit), factors, products)
    features = dense_columns(block, fit.selected)
    return measure_block_predictions(block, features, factors, products, measure)


def _arrays(block: QueryBlock) -> tuple[Csr, Array, Queries]:
    queries = Queries(frozen(block.query_ptr), frozen(block.weights))
    return csr_of(block.features), frozen(block.relevance), queries


def _frozen(values: Any) -> Any:
    """Read-only views, like arrays on a worker, so that Numba compiles each kernel only once."""
    return type(values)(*(frozen(v) if isinstance(v, np.ndarray) else v for v in values))
