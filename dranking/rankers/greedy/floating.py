"""Floating search: features may go again once others are there.

Pudil, Novovicova, Kittler: Floating search methods in feature selection, Pattern Recognition
Letters 15 (1994): sequential floating forward selection (SFFS), which Pahikkala et al., section 5,
name against the nesting of greedy selections.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from dranking.rankers.greedy.forward import ForwardSearch
from dranking.rankers.greedy.path import SelectionPath
from dranking.rankers.greedy.search import Search
from dranking.rankers.leave_query_out.criterion import ReversibleState
from dranking.rankers.leave_query_out.dense_block import HeldOutMeasure

Array = NDArray[np.float64]

IMPROVEMENT = 1e-10
"""Share of the initial error by which a removal must improve on the sets seen of its size: less
than that is rounding."""


class FloatingSearch(ForwardSearch):
    """Adds features as a forward search does, and drops some in between.

    After each round a feature is dropped while that gives the smallest leave-query-out error seen
    with so few features. Those to begin with stay, and so does the one added last. Among those
    that are equally good to drop, the one with the highest index goes.
    """

    _state: ReversibleState
    _drop: int | None = None

    def rank(self) -> None:
        """Rank the candidates anew, note the error, and see whether a feature is to be dropped."""
        super().rank()
        patience_ends = self._patience_ends(self.path)
        self._drop = None if patience_ends else self._feature_to_drop()

    def _feature_to_drop(self) -> int | None:
        selected = self.path.selected
        fixed = {*self._rules.start, *self._added_last}
        if self._planned or fixed.issuperset(selected):
            return None
        errors, _ = self._state.removals(np.array(selected, dtype=np.int64))
        j = self._least_missed(errors, fixed)
        left = {*selected} - {selected[j]}
        limit = self._smallest_error(len(left)) - IMPROVEMENT * self.path.initial_error
        # What was kept before is better by rounding alone; without this a search might not end.
        if errors[j] < limit and left not in map(set, self.path.kept):
            return selected[j]
        return None

    @property
    def _added_last(self) -> list[int]:
        """The feature added last, if there is one."""
        kept = self.path.kept
        sizes = [0, *map(len, kept)]
        additions = [r for r in range(len(kept)) if sizes[r + 1] > sizes[r]]
        return [kept[additions[-1]][-1]] if additions else []

    def _smallest_error(self, size: int) -> float:
        """The smallest seen with so many features."""
        rounds = zip(self.path.kept, self.path.lqo_error, strict=True)
        return min((error for kept, error in rounds if len(kept) == size), default=inf)

    @property
    def needed(self) -> Sequence[int]:
        """The best candidate; none where a feature is dropped next."""
        return super().needed if self._drop is None else []

    @property
    def done(self) -> bool:
        """Whether there are all features, or no others, and none is dropped; or patience ends."""
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
        """Drop a feature, or select the best candidate, whose Gram row was fetched."""
        if self._drop is None:
            super().advance()
            return
        selected = [feature for feature in self.path.selected if feature != self._drop]
        self._keep(selected)
        self._state.reset()
        self._add_all(selected)

    def measure_held_out(self, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        # The state knows those of the features selected first, which are no rounds here.
        return Search.measure_held_out(self, measure)
