"""The rounds of a forward search along one path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.criterion import PathState
from dranking.rankers.gram import TotalRows, ridge_weights
from dranking.rankers.lqo_state import HeldOutMeasure
from dranking.rankers.path import SelectionPath, SelectionRules
from dranking.rankers.rescoring import rescored

Array = NDArray[np.float64]


class ForwardSearch:
    """Adds a feature a round: that with which the leave-query-out error is smallest.

    Parameters
    ----------
    tiles, gram
        The data, and the Gram rows fetched so far.
    state
        The criterion, with no feature selected.
    regularization
        lambda.
    rules
        What is selected.

    Attributes
    ----------
    path
        What was selected so far.
    ranked
        Candidates in the order in which they will be needed: features to begin with, then the
        others by their leave-query-out error if added, ties by index; where features have costs,
        by what they gain per cost.
    """

    def __init__(
        self,
        tiles: Tiles,
        gram: TotalRows,
        state: PathState,
        regularization: float,
        rules: SelectionRules,
    ) -> None:
        self._tiles = tiles
        self._gram = gram
        self._state = state
        self._rules = rules
        self._allowed = rules.allowed(gram.n_features)
        self.path = SelectionPath(regularization)
        self.ask()

    def ask(self) -> None:
        """Draw the candidates of the next round, to be scored."""
        left = np.setdiff1d(self._allowed, [*self.path.selected, *self._planned])
        if self._rules.costs is not None:
            left = self._rules.costs.affordable(self.path.selected, left)
        self._candidates = self._rules.drawn(left, len(self.path.kept))
        if len(self.path.selected) == self._rules.n_features:
            self._candidates = self._candidates[:0]  # only the error is still wanted
        self._state.ask(self._candidates)

    def rank(self) -> None:
        """Rank the candidates anew, and note the error."""
        path = self.path
        scores, error = self._state.scores()
        if not path.kept:
            path.initial_error = error
        elif len(path.lqo_error) < len(path.kept):
            path.lqo_error.append(error)
        self.ranked = [*self._planned, *self._best_first(scores, error).tolist()]

    def _best_first(self, scores: Array, error: float) -> NDArray[np.intp]:
        """The candidates by their scores; `error` is the present one."""
        if self._rules.costs is None:
            return self._candidates[np.argsort(scores, kind="stable")]
        return self._rules.costs.best_first(self.path.selected, self._candidates, scores, error)

    def rescore(self) -> None:
        """Put the best candidates in the order of a ranking measure, if rules say so."""
        rescoring, path = self._rules.rescoring, self.path
        if rescoring is not None and not self._planned:
            self.ranked = rescored(
                self.ranked, path.selected, rescoring, self._tiles, self._gram, path.regularization
            )
            self._gram.n_passes += 1

    @property
    def _planned(self) -> list[int]:
        """Features to begin with that are still to come."""
        return [int(feature) for feature in self._rules.start[len(self.path.selected) :]]

    @property
    def done(self) -> bool:
        """Whether all features are selected, no other is to be had, or patience is at its end."""
        size = len(self.path.selected)
        if size == self._rules.n_features or not self.ranked:
            return True
        patience = self._rules.patience
        if patience is None or size < max(1, len(self._rules.start)):
            return False
        return len(self.path.kept) - 1 - self.path.best_round >= patience

    @property
    def progress(self) -> tuple[int, int]:
        """Features selected, of how many."""
        return len(self.path.selected), self._rules.n_features

    @property
    def n_to_come(self) -> int:
        """Picks that there can still be."""
        return self._rules.n_features - len(self.path.selected)

    @property
    def result(self) -> SelectionPath:
        """The path, without the rounds that patience waited for nothing."""
        if self._rules.patience is None:
            return self.path
        return self.path.first(max(self.path.best_round + 1, len(self._rules.start)))

    def advance(self) -> None:
        """Select the best candidate, whose Gram row was fetched."""
        self._add(self.ranked[0])
        self.ask()

    def follow(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> None:
        """Take the rounds of a run before, up to where this one ends; all rows were fetched."""
        for features, error in zip(kept, errors, strict=True):
            if self.done:
                break
            self._add(features[-1])
            self.path.lqo_error.append(error)
        self.ask()

    def _add(self, feature: int) -> None:
        selected = [*self.path.selected, feature]
        self._state.add(np.array(selected, dtype=np.int64))
        self._keep(selected)

    def _keep(self, selected: list[int]) -> None:
        """Note what is kept after a round, and the weights."""
        gram, path = self._gram, self.path
        features = np.array(selected, dtype=np.int64)
        between = np.array([gram.totals[i][features] for i in selected])
        path.kept.append(selected)
        path.weights.append(
            ridge_weights(
                (between + between.T) / 2, gram.moments.products[features], path.regularization
            )
        )

    def measure_held_out(self, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions over all blocks."""
        return self._state.measure(np.array(self.result.selected, dtype=np.int64), measure)
