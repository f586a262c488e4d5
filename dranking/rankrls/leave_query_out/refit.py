"""The leave-query-out criterion by refits: every round fits the held-out models again.

No state is carried from round to round, so any feature may be added or dropped. Backward
elimination and back-fitting use this form of the criterion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tile_tasks import Literal
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.moments import QueryMoments
from dranking.rankrls.gram.rows import GramRows
from dranking.rankrls.kernels.gram.dense import Moments
from dranking.rankrls.kernels.lqo.held_out import add_back_fitting_scores
from dranking.rankrls.kernels.lqo.rounding import squared_losses
from dranking.rankrls.leave_query_out.criterion import PathState, Scores
from dranking.rankrls.leave_query_out.held_out import (
    FeatureSets,
    Fits,
    fit_without_each_query,
    verified_of,
)
from dranking.rankrls.leave_query_out.memory_plan import MemoryPlan
from dranking.rankrls.leave_query_out.predictions import LqoMeasure, measure_sets

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class RefitCriterion:
    """Opens paths that are scored by refits; like `DenseCriterion`."""

    def __init__(self, tiles: Tiles, plan: MemoryPlan) -> None:
        self._tiles, self._plan = tiles, plan
        self._moments = QueryMoments(tiles)

    def open(self, regularizations: Sequence[float]) -> tuple[GramRows, list[RefitState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        plan = self._plan
        gram = GramRows(self._tiles, self._moments, plan.n_rows, keep=plan.keep_rows)
        return gram, [RefitState(self._tiles, gram, value) for value in regularizations]


class RefitState(PathState):
    """The features S selected along one path, whose Gram rows were all fetched.

    The parameters are as in `DenseState`.
    """

    def __init__(self, tiles: Tiles, gram: GramRows, regularization: float) -> None:
        super().__init__(tiles, regularization)
        self._gram = gram
        self.reset()

    def reset(self) -> None:
        """Return to the state in which no feature is selected."""
        self._selected = np.empty(0, dtype=np.int64)

    def add(self, selected: Indices, upcoming: Sequence[int] = ()) -> None:
        """Select these features."""
        self._selected = selected

    def least_pivots(self, selected: Indices) -> Array:
        """(t,) zeros: there are no pivots, and every set is in doubt until it is verified."""
        return np.zeros(len(selected))

    def ask(self, candidates: Indices) -> None:
        """Set the candidates that the next call of `scores` evaluates."""
        self._candidates = candidates

    def scores(self) -> Scores:
        """Leave-query-out errors with each candidate.

        Back-fitting: the weight of the candidate alone is fitted, and the weights of S stay. Takes
        O(t^3 + t n) for each query.
        """
        gram, moments, regularization = self._gram, self._gram.moments, self._regularization
        total_rows = gram.rows_of(self._selected.tolist())
        totals = (moments.diagonal, moments.products, total_rows, regularization)
        sets = FeatureSets.of([self._selected.tolist()], regularization)
        fits, models = fit_without_each_query(self._tiles, sets)
        [found] = verified_of(self._tiles, sets, fits, models)
        self.verified[tuple(self._selected.tolist())] = found
        parts = self._gram.map_with_rows(
            back_fitting_scores,
            moments.blocks,
            self._selected,
            fits,
            Literal(totals),
            name="back-fitting",
        )
        scores, losses = self._tiles.sum(parts, _unchanged, "scores")
        errors, losses = scores[self._candidates], losses[self._candidates]
        return Scores(errors, float(scores[-1]), np.sqrt(losses, dtype=np.float64))

    def measure(self, selected: Indices, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        sizes = [selected[:size].tolist() for size in range(1, len(selected) + 1)]
        return measure_sets(self._tiles, FeatureSets.of(sizes, self._regularization), measure)


def back_fitting_scores(
    moments: Moments,
    rows: Array,
    slots: Indices,
    fits: Sequence[Fits],
    totals: tuple[Array, Array, Array, float],
) -> tuple[Array, NDArray[np.float32]]:
    """(n_features + 1,) scores of a block: the error with each candidate, and the present error.

    The second result is the (n_features,) squared losses.
    """
    [fit] = fits
    n = moments.diagonal.shape[1]
    scores, least = np.zeros(n + 1), np.full(n, np.inf)
    own, fitted = (moments.diagonal, moments.products), (fit.weights, fit.errors)
    add_back_fitting_scores(rows, slots, own, totals, fitted, scores[:-1], least)
    for error in fit.errors.tolist():  # in the order of the queries, as the kernel adds
        scores[-1] += error
    return scores, squared_losses(totals[0] + totals[-1], least)


def _unchanged(values: tuple[Array, NDArray[np.float32]]) -> tuple[Array, NDArray[np.float32]]:
    return values
