"""Backward elimination: a feature is dropped each round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dranking.rankers.greedy.path import SelectionPath, SelectionRules
from dranking.rankers.greedy.search import Search
from dranking.rankers.leave_query_out.criterion import ReversibleState


class BackwardSearch(Search):
    """Drops the feature without which the leave-query-out error is smallest.

    The first round takes all features that are not forbidden. Those to begin with are never
    dropped. Among those that are equally good to drop, the one with the highest index goes.
    """

    _state: ReversibleState
    _drop: int

    @staticmethod
    def largest_size(rules: SelectionRules, n_features: int) -> int:
        """All features that are not forbidden."""
        return len(rules.allowed(n_features))

    def rank(self) -> None:
        """Find the feature to drop, and note the error."""
        selected = self.path.selected
        if not selected:
            self.path.initial_error = float(self._gram.moments.label_norm)
            return
        errors, error = self._state.removals(np.array(selected, dtype=np.int64))
        self._note_error(error)
        if not self.done:
            self._drop = selected[self._least_missed(errors, self._rules.start)]

    def rescore(self) -> None:
        """Removals are scored by the squared error alone."""

    @property
    def needed(self) -> Sequence[int]:
        """All features, before the first round."""
        return [] if self.path.kept else self._allowed.tolist()

    @property
    def wanted(self) -> Sequence[int]:
        """No other is ever taken."""
        return []

    @property
    def n_to_come(self) -> int:
        """None is added after the first round."""
        return len(self.needed)

    @property
    def progress(self) -> tuple[int, int]:
        """Features dropped, of how many."""
        total = len(self._allowed)
        dropped = total - len(self.path.selected) if self.path.kept else 0
        return dropped, total - self._rules.n_features

    @property
    def done(self) -> bool:
        """Whether as few features are left as are wanted, or patience is at its end."""
        if not self.path.kept:
            return False
        return len(self.path.selected) == self._rules.n_features or self._patience_ends(self.path)

    def _patience_ends(self, path: SelectionPath) -> bool:
        patience = self._rules.patience
        if patience is None or not path.kept:
            return False
        return path.best_size - len(path.selected) >= patience

    @property
    def result(self) -> SelectionPath:
        """The path, without the rounds that patience waited for nothing."""
        if self._rules.patience is None:
            return self.path
        return self.path.first(self.path.best_round + 1)

    def advance(self) -> None:
        """Drop a feature; or take all, whose rows were fetched."""
        if self.path.kept:
            selected = [feature for feature in self.path.selected if feature != self._drop]
        else:
            selected = self._allowed.tolist()
        self._keep(selected)

    def covers(self, kept: Sequence[int]) -> bool:
        """Whether as many features as these are left at some time."""
        return len(kept) >= self._rules.n_features
