"""Backward elimination: a feature is dropped each round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dranking.rankrls.greedy.path import Doubt, SelectionPath, SelectionRules
from dranking.rankrls.greedy.search import Search


class BackwardSearch(Search):
    """Drops, each round, the feature without which the leave-query-out error is smallest.

    The first round adds all features that are not forbidden. Features of `start` are never
    dropped. Of features that are equally good to drop, the feature with the highest index is
    dropped.
    """

    _drop: int

    @staticmethod
    def largest_size(rules: SelectionRules, n_features: int) -> int:
        """The number of features that are not forbidden."""
        return len(rules.allowed(n_features))

    def rank(self) -> None:
        """Find the feature to drop, and note the present error."""
        selected = self.path.selected
        if not selected:
            self.path.initial_error = float(self._gram.moments.label_norm)
            return
        errors, error = self._state.removals(np.array(selected, dtype=np.int64))
        self.path.note_error(error)
        if not self.done:
            self._drop = selected[self._least_missed(errors, self._rules.start)]

    def rescore(self) -> None:
        """Do nothing: removals are scored by the squared error alone."""

    @property
    def picks(self) -> Sequence[int]:
        """All features that are not forbidden, before the first round; then none."""
        return [] if self.path.kept else self._allowed.tolist()

    @property
    def upcoming(self) -> Sequence[int]:
        """The picks of the first round: no other feature is ever added."""
        return self.picks

    @property
    def n_picks_left(self) -> int:
        """No feature is added after the first round."""
        return len(self.picks)

    @property
    def progress(self) -> tuple[int, int]:
        """Number of features dropped so far, and in the whole search."""
        total = len(self._allowed)
        dropped = total - len(self.path.selected) if self.path.kept else 0
        return dropped, total - self._rules.n_features

    @property
    def done(self) -> bool:
        """Whether no more than `n_features` are left, or patience has ended."""
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
        """The path, without the rounds in which patience waited for a smaller error."""
        if self._rules.patience is None:
            return self.path
        return self.path.first(self.path.best_round + 1)

    def advance(self) -> None:
        """Drop a feature; or, in the first round, add all features, whose rows were fetched."""
        if self.path.kept:
            selected = [feature for feature in self.path.selected if feature != self._drop]
        else:
            selected = self._allowed.tolist()
        self.path.keep(selected, Doubt())

    def covers(self, kept: Sequence[int]) -> bool:
        """Whether the search reaches sets with as many features as `kept`."""
        return len(kept) >= self._rules.n_features
