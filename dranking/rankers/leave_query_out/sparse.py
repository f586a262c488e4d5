"""The leave-query-out criterion over sparse data: nothing is kept of any query.

What a dense state holds per query and feature is computed anew from the block's nonzeros wherever
it is asked for (`dranking.kernels.lqo.sparse`), so memory is the data and some vectors of length
n_features, and a round reads the data once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import with_one_blas_thread
from dranking.engine.tiles import Tiles
from dranking.kernels.gram import per_query as gram
from dranking.kernels.gram.dense import Queries
from dranking.kernels.gram.sparse import Csr, csr_of
from dranking.kernels.lqo.packed_triangles import group_room
from dranking.kernels.lqo.sparse import Candidates, add_gains, explain, held_out_factors, roles
from dranking.kernels.lqo.sparse_query import Fit
from dranking.kernels.machine.compile import frozen
from dranking.rankers.gram.rows import TotalMoments, TotalRows
from dranking.rankers.leave_query_out.dense_block import (
    HeldOutMeasure,
    dense_columns,
    measure_held_out,
)
from dranking.rankers.leave_query_out.from_documents import errors_without_each
from dranking.rankers.leave_query_out.kept_rows import kept_totals
from dranking.rankers.leave_query_out.memory_plan import MemoryPlan

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
        return rows, [SparseState(scorer, value) for value in regularizations]


class SparseRows(TotalRows):
    """The Gram rows A[i, :] fetched so far; those of single queries are not kept."""

    def _sum_rows(self, features: Sequence[int]) -> Array:
        wanted = np.array(features, dtype=np.int64)
        totals: Array = self._tiles.sum_blocks(block_rows, wanted, name="gram-rows")
        return totals


class SparseState:
    """The features selected along one path; like `DenseState`."""

    def __init__(self, scorer: _Scorer, regularization: float) -> None:
        self._scorer = scorer
        self.regularization = regularization
        self.selected = np.empty(0, dtype=np.int64)

    def add(self, selected: Indices, next_picks: Callable[[], Sequence[int]]) -> None:
        """Select the last of these features, whose Gram row was fetched."""
        self.selected = selected

    def reset(self) -> None:
        """Select nothing."""
        self.selected = self.selected[:0]

    def ask(self, candidates: Indices) -> None:
        """Say which candidates are scored next."""
        self._scorer.ask(self, candidates)

    def scores(self) -> tuple[Array, float]:
        """(n_candidates,) LQO error with each candidate asked for, and the present one."""
        return self._scorer.answer(self)

    def removals(self, selected: Indices) -> tuple[Array, float]:
        """(t,) LQO error without each of some features in turn, and with all of them."""
        return self._scorer.removals(selected, self.regularization)

    def measure(self, selected: Indices, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions over all blocks."""
        return self._scorer.measure(selected, self.regularization, measure)


class _Scorer:
    """Scores the candidates of many paths in one pass over X."""

    def __init__(self, tiles: Tiles, rows: SparseRows) -> None:
        self._tiles, self._rows, self._moments = tiles, rows, rows.moments
        self._asked: dict[SparseState, Indices] = {}
        self._answers: dict[SparseState, tuple[Array, float]] = {}

    def ask(self, state: SparseState, candidates: Indices) -> None:
        """Have candidates of a path scored when the first path wants its scores."""
        self._asked[state] = candidates

    def answer(self, state: SparseState) -> tuple[Array, float]:
        """What a path asked for; all paths that asked are answered in one pass."""
        if state in self._asked:
            questions = [self._question(*asked) for asked in self._asked.items()]
            answers = self._tiles.sum_blocks(block_gains, *questions, name="scores")
            self._rows.n_passes += 1
            self._answers.update(zip(self._asked, answers, strict=True))
            self._asked.clear()
        gains, error = self._answers[state]
        return gains + error, float(error)

    def measure(self, selected: Indices, regularization: float, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions over all blocks."""
        fit = self._fit(selected, np.empty(0, dtype=np.int64), regularization)
        total: Array = self._tiles.sum_blocks(block_measure, fit, measure, name="leave-query-out")
        return total

    def removals(self, selected: Indices, regularization: float) -> tuple[Array, float]:
        """(t,) LQO error without each of some features in turn, and with all; one pass."""
        totals = kept_totals(self._rows, selected, regularization)
        errors = self._tiles.sum_blocks(
            partial(with_one_blas_thread, errors_without_each), selected, totals, name="removals"
        )
        self._rows.n_passes += 1
        return errors[:-1], float(errors[-1])

    def _question(self, state: SparseState, candidates: Indices) -> Any:
        fit = self._fit(state.selected, candidates, state.regularization)
        columns = self._rows.rows_of(state.selected.tolist())[:, candidates]
        totals = columns, self._moments.diagonal[candidates], self._moments.products[candidates]
        return self._tiles.executor.submit(block_question, fit, *totals, name="fit")

    def _fit(self, selected: Indices, candidates: Indices, regularization: float) -> Fit:
        between = np.ascontiguousarray(self._rows.rows_of(selected.tolist())[:, selected])
        role = roles(self._rows.n_features, selected, candidates)
        return Fit(role, selected, between, self._moments.products[selected], regularization)


def block_rows(block: QueryBlock, wanted: Indices) -> Array:
    """(J, n_features) rows of the Gram matrix of the block's queries."""
    return gram.row_totals(block.features, block.query_ptr, block.weights, wanted)


def block_question(fit: Fit, *totals: Array) -> tuple[Fit, Candidates]:
    """What every block is asked: see `explain`."""
    return fit, explain(_frozen(fit), *totals)


def block_gains(
    block: QueryBlock, *questions: tuple[Fit, Candidates]
) -> tuple[tuple[Array, float], ...]:
    """What each candidate changes of the block's error, and that error, for every path."""
    arrays, answers = _arrays(block), []
    for fit, candidates in questions:
        gains = np.zeros(len(candidates.products))
        error = add_gains(*arrays, _frozen(fit), _frozen(candidates), gains)
        answers.append((gains, error))
    return tuple(answers)


def block_measure(block: QueryBlock, fit: Fit, measure: HeldOutMeasure) -> Array:
    """Measure the scores of a block's documents by models that were fitted without their query."""
    t = len(fit.selected)
    factors = group_room(block.n_queries, t)
    left_out = np.empty((block.n_queries, t))
    held_out_factors(*_arrays(block), _frozen(fit), factors, left_out)
    features = dense_columns(block, fit.selected)
    return measure_held_out(block, features, factors, left_out, measure)


def _arrays(block: QueryBlock) -> tuple[Csr, Array, Queries]:
    queries = Queries(frozen(block.query_ptr), frozen(block.weights))
    return csr_of(block.features), frozen(block.relevance), queries


def _frozen(values: Any) -> Any:
    """Read-only views: what crosses to a worker comes out so, and kernels are compiled once."""
    return type(values)(*(frozen(v) if isinstance(v, np.ndarray) else v for v in values))
