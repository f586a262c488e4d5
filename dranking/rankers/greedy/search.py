"""Searches along one path: what every search does, and forward search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.gram.rows import TotalRows, ridge_weights
from dranking.rankers.greedy.path import SelectionPath, SelectionRules
from dranking.rankers.greedy.rescoring import rescored
from dranking.rankers.greedy.upcoming import PickPredictor
from dranking.rankers.leave_query_out.certificate import (
    STATED_ACCURACY,
    estimated_rounding,
    verified_rounds,
)
from dranking.rankers.leave_query_out.criterion import PathState
from dranking.rankers.leave_query_out.held_out import PASSES, FeatureSets
from dranking.rankers.leave_query_out.predictions import LqoMeasure, measure_sets

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Leave-query-out errors without one or the other of two equal features may differ by this share of
the initial error."""


class Search(ABC):
    """A search for one lambda, round by round.

    Parameters
    ----------
    tiles, gram
        The data, and the Gram rows fetched so far.
    state
        The leave-query-out criterion, with no feature selected.
    regularization
        lambda.
    rules
        Rules of the selection.

    Attributes
    ----------
    path
        The features selected after each round so far.
    candidates
        Features that were scored for this round, best first: by the leave-query-out error with
        each, ties by index; if features have costs, by the gain per cost.
    """

    candidates: Sequence[int] = ()

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

    @staticmethod
    def largest_size(rules: SelectionRules, n_features: int) -> int:
        """Largest number of features that are selected at the same time."""
        return rules.n_features

    @property
    @abstractmethod
    def picks(self) -> Sequence[int]:
        """Features that the next round adds; it needs their Gram rows."""

    @property
    @abstractmethod
    def upcoming(self) -> Sequence[int]:
        """Upcoming picks: `picks`, then the features that later rounds will probably add."""

    @property
    @abstractmethod
    def n_picks_left(self) -> int:
        """Largest number of features that the rounds to come add."""

    @property
    @abstractmethod
    def progress(self) -> tuple[int, int]:
        """Number of features added or dropped so far, and in the whole search."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the search has ended."""

    @property
    @abstractmethod
    def result(self) -> SelectionPath:
        """The path up to the round whose features are the result."""

    @abstractmethod
    def rank(self) -> None:
        """Score the features that the next round can add or drop, and note the present error."""

    @abstractmethod
    def rescore(self) -> None:
        """Order the best candidates by a ranking measure, if the rules ask for that."""

    @abstractmethod
    def advance(self) -> None:
        """Add or drop the best of the scored features."""

    @abstractmethod
    def covers(self, kept: Sequence[int]) -> bool:
        """Whether the search reaches sets with as many features as `kept`."""

    @abstractmethod
    def _patience_ends(self, path: SelectionPath) -> bool:
        """Whether patience ends the search after the rounds of a path."""

    def n_shared(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> int:
        """How many rounds of an earlier run, of any size and patience, this search repeats."""
        path = SelectionPath(self.path.regularization, self.path.initial_error)
        for selected, error in zip(kept, errors, strict=True):
            if not self.covers(selected) or self._patience_ends(path):
                break
            path.kept.append(list(selected))
            path.lqo_error.append(error)
        return len(path.kept)

    def follow(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> None:
        """Take over rounds of an earlier run; this search has done no round yet.

        The sums of the Gram rows of all features in `kept` were fetched, and the rows of the
        features kept last are there.
        """
        for selected, error in zip(kept, errors, strict=True):
            self._keep(selected)
            self.path.lqo_error.append(error)

    def certify(self, path: SelectionPath) -> None:
        """Note how far rounding may have moved the errors of a result; correct rounds in doubt.

        Searches by refits have most rounds from orthogonal factors already.
        """
        self._verify(path, range(len(path.kept)))

    def _verify(self, path: SelectionPath, rounds: Sequence[int]) -> None:
        """Compare rounds with orthogonal factors, whose errors and weights replace wrong ones."""
        kept = [path.kept[r] for r in rounds]
        if any(tuple(selected) not in self._state.verified for selected in kept):
            self._gram.n_passes += PASSES
        found = verified_rounds(self._tiles, self._state, kept, path.regularization)
        for r, each in zip(rounds, found, strict=True):
            off = abs(path.lqo_error[r] - each.error) + each.rounding
            share = min(1.0, off / each.error) if each.error > 0.0 else float(off > 0.0)
            if path.least_certain is None or share > path.relative_rounding:
                path.relative_rounding = share
                path.least_certain = path.kept[r][each.least_certain]
            if share > STATED_ACCURACY / 100:
                path.lqo_error[r], path.weights[r] = each.error, each.weights

    def measure_predictions(self, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        sets = FeatureSets.of(self.result.kept, self.path.regularization)
        return measure_sets(self._tiles, sets, measure)

    def _note_error(self, error: float) -> None:
        """Note the error after the last round, unless it is known."""
        if len(self.path.lqo_error) < len(self.path.kept):
            self.path.lqo_error.append(error)

    def _least_missed(self, errors: Array, fixed: Collection[int]) -> int:
        """Position of the selected feature to drop, by the errors without each feature.

        Features in `fixed` stay; at least one selected feature is not fixed. Of features that are
        equally good to drop up to rounding, as copies are, the feature with the highest index is
        dropped.
        """
        selected = self.path.selected
        droppable = [j for j, feature in enumerate(selected) if feature not in fixed]
        limit = errors[droppable].min() + ROUNDING * self.path.initial_error
        return max((j for j in droppable if errors[j] <= limit), key=selected.__getitem__)

    def _keep(self, selected: Sequence[int]) -> None:
        """Note the features selected after a round, and their weights."""
        gram, path = self._gram, self.path
        features = np.array(selected, dtype=np.int64)
        products = gram.moments.products[features]
        path.kept.append(list(selected))
        path.weights.append(ridge_weights(gram.between(selected), products, path.regularization))


class ForwardSearch(Search):
    """Adds, each round, the feature with which the leave-query-out error is smallest."""

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
        self._predictor: PickPredictor | None = None
        if rules.picks_by_error_alone:
            self._predictor = PickPredictor(gram, regularization, rules.n_features)

    def _ask(self) -> None:
        """Draw the candidates of the next round, and have them scored."""
        is_left = np.zeros(self._gram.n_features, dtype=bool)
        is_left[self._allowed] = True
        is_left[np.array([*self.path.selected, *self._rest_of_start], dtype=np.intp)] = False
        left = self._rules.with_free_feature(self.path.selected, np.flatnonzero(is_left))
        if self._rules.costs is not None:
            left = self._rules.costs.affordable(self.path.selected, left)
        self._asked = self._rules.drawn(left, len(self.path.kept))
        if len(self.path.selected) == self._rules.n_features:
            self._asked = self._asked[:0]  # the present error alone is still to be computed
        self._state.ask(self._asked)

    def rank(self) -> None:
        """Order the candidates by their scores, and note the present error."""
        scores, error = self._state.scores()
        if not self.path.kept:
            self.path.initial_error = error
        self._note_error(error)
        self._gains = error - scores
        if self._rules.costs is None:
            best_first = self._asked[np.argsort(scores, kind="stable")]
        else:
            selected = self.path.selected
            best_first = self._rules.costs.best_first(selected, self._asked, scores, error)
        self.candidates = best_first.tolist()

    def rescore(self) -> None:
        """Order the best candidates by a ranking measure, if the rules ask for that."""
        rescoring, path = self._rules.rescoring, self.path
        if rescoring is not None and not self._rest_of_start:
            candidates, selected = self.candidates, path.selected
            self.candidates = rescored(
                candidates, selected, rescoring, self._tiles, path.regularization
            )
            self._gram.n_passes += PASSES + 1

    @property
    def _rest_of_start(self) -> list[int]:
        """The features of `start` that are not selected yet."""
        return [int(feature) for feature in self._rules.start[len(self.path.selected) :]]

    @property
    def picks(self) -> Sequence[int]:
        """The next feature of `start`, or else the best candidate."""
        return (self._rest_of_start or self.candidates)[:1]

    @property
    def upcoming(self) -> Sequence[int]:
        """Features that the next rounds will probably add, in that order; the first is certain.

        Only the first pick is known if the pick depends on more than the errors of all candidates.
        """
        if self._rest_of_start or self._predictor is None:
            return self._rest_of_start or self.picks
        predicted = self._predictor.predict(
            self.path.selected, self._asked, self._gains, self.n_picks_left
        )
        upcoming = list(self.picks)
        for feature in predicted:
            selected = [*self.path.selected, *upcoming]
            room = self._rules.with_free_feature(selected, np.array([feature]))
            if feature not in upcoming and len(room):
                upcoming.append(feature)
        return upcoming

    @property
    def n_picks_left(self) -> int:
        """Largest number of features that the rounds to come add."""
        return self._rules.n_features - len(self.path.selected)

    @property
    def progress(self) -> tuple[int, int]:
        """Number of features selected so far, and in the whole search."""
        return len(self.path.selected), self._rules.n_features

    @property
    def done(self) -> bool:
        """Whether `n_features` are selected, no feature can be added, or patience has ended."""
        return self.n_picks_left == 0 or not self.picks or self._patience_ends(self.path)

    def _patience_ends(self, path: SelectionPath) -> bool:
        size, patience = len(path.selected), self._rules.patience
        if patience is None or size < max(1, len(self._rules.start)):
            return False
        return size - path.best_size >= patience

    @property
    def result(self) -> SelectionPath:
        """The path, without the rounds in which patience waited for a smaller error."""
        if self._rules.patience is None:
            return self.path
        return self.path.first(max(self.path.best_round + 1, len(self._rules.start)))

    def advance(self) -> None:
        """Select the pick of this round, whose Gram row was fetched."""
        [pick] = self.picks
        upcoming = self.upcoming[1:] if self._state.needs_update(pick) else []
        selected = [*self.path.selected, pick]
        fetched = list(takewhile(self._gram.holds, upcoming))
        self._state.add(np.array(selected, dtype=np.int64), fetched)
        self._keep(selected)
        self._ask()

    def covers(self, kept: Sequence[int]) -> bool:
        """Whether the search reaches sets with as many features as `kept`."""
        return len(kept) <= self._rules.n_features

    def follow(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> None:
        """Take over rounds of an earlier run, and bring the state to their end."""
        super().follow(kept, errors)
        self._add_all(self.path.selected)

    def _add_all(self, selected: Sequence[int]) -> None:
        """Bring the state from no feature to these features."""
        features = np.array(selected, dtype=np.int64)
        for size in range(1, len(selected) + 1):
            self._state.add(features[:size], features[size:].tolist())
        self._ask()

    def certify(self, path: SelectionPath) -> None:
        """Note how far rounding may have moved the errors of a result; correct rounds in doubt."""
        if self._rules.refits:
            super().certify(path)
            return
        selected = np.array(path.selected, dtype=np.int64)
        by_feature = estimated_rounding(
            self._state, self._gram.moments, selected, path.regularization
        )
        # The error is a part of y.y, and its own share of the rounding is so much larger.
        parts = path.initial_error / np.maximum(path.lqo_error, np.finfo(float).tiny)
        rounding = np.maximum.accumulate(by_feature) * np.maximum(parts, 1.0)
        in_doubt = np.flatnonzero(rounding > STATED_ACCURACY)
        certain = np.flatnonzero(rounding <= STATED_ACCURACY)
        path.relative_rounding = float(rounding[certain].max(initial=0.0))
        path.least_certain = int(selected[np.argmax(by_feature)])
        if len(in_doubt):
            self._verify(path, in_doubt.tolist())

    def measure_predictions(self, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        return self._state.measure(np.array(self.result.selected, dtype=np.int64), measure)
