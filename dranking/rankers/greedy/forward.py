"""Forward search: a feature is added each round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.gram.rows import TotalRows
from dranking.rankers.greedy.path import SelectionPath, SelectionRules
from dranking.rankers.greedy.rescoring import rescored
from dranking.rankers.greedy.search import Search
from dranking.rankers.greedy.upcoming import Foresight
from dranking.rankers.leave_query_out.criterion import PathState
from dranking.rankers.leave_query_out.dense_block import HeldOutMeasure

Array = NDArray[np.float64]


class ForwardSearch(Search):
    """Adds the feature with which the leave-query-out error is smallest.

    Attributes
    ----------
    path
        What was selected so far.
    ranked
        Candidates in the order in which they will be needed: features to begin with, then the
        others by their leave-query-out error if added, ties by index; where features have costs,
        by what they gain per cost.
    """

    ranked: list[int]

    def __init__(
        self,
        tiles: Tiles,
        gram: TotalRows,
        state: PathState,
        regularization: float,
        rules: SelectionRules,
    ) -> None:
        super().__init__(tiles, gram, state, regularization, rules)
        self._ask()
        self._foresight: Foresight | None = None
        if not rules.picks_otherwise:
            self._foresight = Foresight(gram, regularization, rules.n_features)

    def _ask(self) -> None:
        """Draw the candidates of the next round, to be scored."""
        is_left = np.zeros(self._gram.n_features, dtype=bool)
        is_left[self._allowed] = True
        is_left[np.array([*self.path.selected, *self._planned], dtype=np.intp)] = False
        left = np.flatnonzero(is_left)
        if self._rules.costs is not None:
            left = self._rules.costs.affordable(self.path.selected, left)
        self._candidates = self._rules.drawn(left, len(self.path.kept))
        if len(self.path.selected) == self._rules.n_features:
            self._candidates = self._candidates[:0]  # only the error is still wanted
        self._state.ask(self._candidates)

    def rank(self) -> None:
        """Rank the candidates anew, and note the error."""
        scores, error = self._state.scores()
        if not self.path.kept:
            self.path.initial_error = error
        self._note_error(error)
        self.ranked = [*self._planned, *self._best_first(scores, error).tolist()]
        self._gains = error - scores

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
    def needed(self) -> Sequence[int]:
        """The best candidate."""
        return self.ranked[:1]

    @property
    def wanted(self) -> Sequence[int]:
        """The picks that are foretold, then the other candidates, best first."""
        return list(dict.fromkeys([*self._foretold(), *self.ranked]))

    def _foretold(self) -> Sequence[int]:
        """The best candidate, and the picks that will likely follow it, in order.

        Where picks are not by the error alone, or candidates are drawn each time, there are none.
        """
        if self._planned or self._foresight is None:
            return self._planned or self.ranked[:1]
        return self._foresight.picks(
            self.path.selected, self._candidates, self._gains, self.n_to_come
        )

    def _next_picks(self) -> list[int]:
        """What is foretold behind the best candidate, up to a row that was not fetched."""
        return list(takewhile(self._gram.holds, self._foretold()[1:]))

    @property
    def n_to_come(self) -> int:
        """Features that there can still be added."""
        return self._rules.n_features - len(self.path.selected)

    @property
    def progress(self) -> tuple[int, int]:
        """Features selected, of how many."""
        return len(self.path.selected), self._rules.n_features

    @property
    def done(self) -> bool:
        """Whether all features are selected, no other is to be had, or patience is at its end."""
        return self.n_to_come == 0 or not self.ranked or self._patience_ends(self.path)

    def _patience_ends(self, path: SelectionPath) -> bool:
        size, patience = len(path.selected), self._rules.patience
        if patience is None or size < max(1, len(self._rules.start)):
            return False
        return size - path.best_size >= patience

    @property
    def result(self) -> SelectionPath:
        """The path, without the rounds that patience waited for nothing."""
        if self._rules.patience is None:
            return self.path
        return self.path.first(max(self.path.best_round + 1, len(self._rules.start)))

    def advance(self) -> None:
        """Select the best candidate, whose Gram row was fetched."""
        selected = [*self.path.selected, self.ranked[0]]
        self._state.add(np.array(selected, dtype=np.int64), self._next_picks)
        self._keep(selected)
        self._ask()

    def covers(self, kept: Sequence[int]) -> bool:
        """Whether there may be as many features as these."""
        return len(kept) <= self._rules.n_features

    def follow(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> None:
        """Take shared rounds of a run before, and bring the state to where they end."""
        super().follow(kept, errors)
        self._add_all(self.path.selected)

    def _add_all(self, selected: Sequence[int]) -> None:
        """Bring the empty state to where these features are selected."""
        features = np.array(selected, dtype=np.int64)
        for size in range(1, len(selected) + 1):
            self._state.add(features[:size], features[size:].tolist)
        self._ask()

    def measure_held_out(self, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        return self._state.measure(np.array(self.result.selected, dtype=np.int64), measure)
