"""Floating search: features may be dropped again once others are selected.

Pudil, Novovicova, Kittler: Floating search methods in feature selection, Pattern Recognition
Letters 15 (1994): sequential floating forward selection (SFFS). Pahikkala et al., section 5, name
floating search as a remedy for the nesting of greedy selections.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from dranking.errors import STATED_ACCURACY
from dranking.rankrls.greedy.certificate import estimated_rounding
from dranking.rankrls.greedy.forward import ForwardSearch
from dranking.rankrls.greedy.path import SelectionPath
from dranking.rankrls.greedy.search import Search
from dranking.rankrls.kernels.lqo.rounding import EQUAL_ERRORS
from dranking.rankrls.leave_query_out.predictions import LqoMeasure

Array = NDArray[np.float64]


class FloatingSearch(ForwardSearch):
    """Adds features as a forward search does, and drops some features in between.

    After each round, features are dropped one by one as long as the error without the dropped
    feature is the smallest leave-query-out error seen with that number of features. Features of
    `start` stay, and so does the feature added last. Of features that are equally good to drop, the
    feature with the highest index is dropped.
    """

    _drop: int | None = None

    def rank(self) -> None:
        """Order the candidates, note the present error, and find whether a feature is dropped."""
        super().rank()
        self._correct_present_error()
        patience_ends = self._patience_ends(self.path)
        self._drop = None if patience_ends else self._feature_to_drop()

    def _correct_present_error(self) -> None:
        """Take the error of the last round from orthogonal factors if rounding leaves it in doubt.

        Whether a feature is dropped depends on the errors of earlier rounds.
        """
        path, n = self.path, len(self.path.selected)
        if n and not self._rules.refits:
            least = max(path.lqo_error[-1], np.finfo(float).eps ** 2 * path.initial_error)
            selected = np.array(path.selected, dtype=np.int64)
            by_feature = estimated_rounding(
                self._state, self._gram.moments, selected, path.regularization
            )
            share = by_feature.max() * max(path.initial_error, least)
            if not share <= STATED_ACCURACY * least:  # also where an error overflowed
                self._verify(path, [len(path.kept) - 1])

    def _feature_to_drop(self) -> int | None:
        selected = self.path.selected
        fixed = {*self._rules.start, *self._added_last}
        if self._rest_of_start or fixed.issuperset(selected):
            return None
        errors, _ = self._state.removals(np.array(selected, dtype=np.int64))
        j = self._least_missed(errors, fixed)
        left = {*selected} - {selected[j]}
        limit = self._smallest_error(len(left)) * (1.0 - EQUAL_ERRORS)
        # A set that was kept before seems better by rounding alone. Without the second condition
        # the search might not end.
        if errors[j] < limit and left not in map(set, self.path.kept):
            return selected[j]
        return None

    @property
    def _added_last(self) -> list[int]:
        """The feature added last, or nothing if no feature was added yet."""
        kept = self.path.kept
        sizes = [0, *map(len, kept)]
        additions = [r for r in range(len(kept)) if sizes[r + 1] > sizes[r]]
        return [kept[additions[-1]][-1]] if additions else []

    def _smallest_error(self, size: int) -> float:
        """The smallest error seen with `size` features."""
        rounds = zip(self.path.kept, self.path.lqo_error, strict=True)
        return min((error for kept, error in rounds if len(kept) == size), default=inf)

    @property
    def picks(self) -> Sequence[int]:
        """The best candidate; none if the next round drops a feature."""
        return super().picks if self._drop is None else []

    @property
    def done(self) -> bool:
        """Whether a forward search would end here, and no feature is to be dropped."""
        return super().done and self._drop is None

    @property
    def result(self) -> SelectionPath:
        """The path up to the best set of the largest size; with patience, of any size."""
        path = self.path
        if self._rules.patience is not None:
            sizes = {len(kept) for kept in path.kept if len(kept) >= len(self._rules.start)}
        else:
            sizes = {max(map(len, path.kept))}
        return path.first(path.best_round_of(sizes) + 1)

    def advance(self) -> None:
        """Drop a feature, or else select the best candidate, whose Gram row was fetched."""
        if self._drop is None:
            super().advance()
            return
        selected = [feature for feature in self.path.selected if feature != self._drop]
        self.path.keep(selected, self._doubt)
        self._state.reset()
        self._add_all(selected)

    def certify(self, path: SelectionPath) -> None:
        """Note how far rounding may have moved the errors of a result; correct rounds in doubt."""
        Search.certify(self, path)

    def measure_predictions(self, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        # The state knows the predictions of the first 1, 2, ... features, but these are not the
        # rounds.
        return Search.measure_predictions(self, measure)
