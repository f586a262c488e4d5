"""Forward search: each round adds the feature with the smallest leave-query-out error."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.errors import STATED_ACCURACY
from dranking.rankrls.gram.rows import TotalRows
from dranking.rankrls.greedy.certificate import (
    FIRST_CHECKS,
    ROUNDS_PER_CHECK,
    Contenders,
    estimated_rounding,
    settled,
)
from dranking.rankrls.greedy.exact_rounds import ExactRounds
from dranking.rankrls.greedy.path import Doubt, SelectionPath, SelectionRules
from dranking.rankrls.greedy.prefetch import PickPredictor
from dranking.rankrls.greedy.rescoring import rescored
from dranking.rankrls.greedy.search import Search
from dranking.rankrls.kernels.lqo.rounding import EQUAL_ERRORS, tied_errors
from dranking.rankrls.leave_query_out.criterion import PathState, Scores
from dranking.rankrls.leave_query_out.predictions import LqoMeasure

Array = NDArray[np.float64]


class ForwardSearch(Search):
    """Adds, each round, the feature with which the leave-query-out error is smallest."""

    def __init__(
        self,
        tiles: Tiles,
        gram: TotalRows,
        state: PathState,
        regularization: float,
        rules: SelectionRules,
        exact: ExactRounds | None,
    ) -> None:
        super().__init__(tiles, gram, state, regularization, rules, exact)
        self._losses: dict[int, float] = {}
        self._checked_errors: dict[int, float] = {}
        self._doubt = Doubt()
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
        scores = self._state.scores()
        if not self.path.kept:
            self.path.initial_error = scores.error
        else:
            self.path.note_error(self._present_error(scores.error))
            scores = scores._replace(error=self.path.lqo_error[-1])
        found = self._settled(scores)
        asked, errors = self._asked[found.checked], found.errors[found.checked]
        self._checked_errors = dict(zip(asked.tolist(), errors.tolist(), strict=True))
        with np.errstate(invalid="ignore"):  # errors that overflowed; gains are predictions only
            self._gains = np.nan_to_num(scores.error - found.errors)
        errors = tied_errors(found.errors)
        costs, selected = self._rules.costs, self.path.selected
        if costs is not None:
            best_first = costs.best_first(selected, self._asked, errors, scores.error)
        else:
            order = np.argsort(errors, kind="stable")
            is_checked = np.isin(order, found.checked)
            best_first = self._asked[[*order[is_checked], *order[~is_checked]]]
        self.candidates = best_first.tolist()
        self._doubt = Doubt()
        if self.candidates and not self._rest_of_start:
            self._doubt = found.doubt(self._asked, self.candidates[0])

    def _present_error(self, error: float) -> float:
        """The error of the state, unless the check of the last pick says otherwise."""
        checked = self._checked_errors.get(self.path.selected[-1], error)
        return error if abs(error - checked) <= EQUAL_ERRORS * checked else checked

    def _settled(self, scores: Scores) -> Contenders:
        """The errors of the candidates, without doubts about the best of them where possible."""
        scores = scores._replace(errors=tied_errors(scores.errors))
        rules, path = self._rules, self.path
        if self._rest_of_start or rules.fitting == "back":
            # A feature of `start` has no rivals; and back-fitting asks for other errors.
            return Contenders.unchecked(scores)
        n_best: int | None = 1 if rules.rescoring is None else rules.rescoring.candidates
        n_checks = sum(doubt.was_checked for doubt in path.doubts)
        may_read = n_checks < FIRST_CHECKS + len(path.selected) // ROUNDS_PER_CHECK
        n_best = n_best if rules.costs is None else None
        limits = path.initial_error, self._shared_loss(), n_best, may_read
        return settled(self._run, scores, self._asked, path.selected, limits)

    def _shared_loss(self) -> float:
        """The largest of the losses of the selected features."""
        path, sizes = self.path, [0, *map(len, self.path.kept)]
        for kept, doubt, before in zip(path.kept, path.doubts, sizes, strict=False):
            if len(kept) > before and doubt.loss > 0.0:
                self._losses[kept[-1]] = doubt.loss
        unknown = [feature for feature in path.selected if feature not in self._losses]
        if unknown:  # features of `start`
            selected = np.array(path.selected, dtype=np.int64)
            squares = self._gram.moments.diagonal[selected] + path.regularization
            losses = squares / self._state.least_pivots(selected)
            self._losses.update(zip(path.selected, losses.tolist(), strict=True))
        return max((self._losses[feature] for feature in path.selected), default=0.0)

    def rescore(self) -> None:
        """Order the best candidates by a ranking measure, if the rules ask for that."""
        rescoring, path = self._rules.rescoring, self.path
        if rescoring is not None and not self._rest_of_start:
            candidates, selected = self.candidates, path.selected
            self.candidates = rescored(
                candidates, selected, rescoring, self._tiles, path.regularization
            )

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
            if feature not in upcoming and self._rules.is_free(feature, selected):
                upcoming.append(feature)
        # A pick whose error was checked may not be among the predicted picks: one is then too many.
        return upcoming[: self.n_picks_left]

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
        self.path.keep(selected, self._doubt)
        self._ask()

    def covers(self, kept: Sequence[int]) -> bool:
        """Whether the search reaches sets with as many features as `kept`."""
        return len(kept) <= self._rules.n_features

    def follow(
        self,
        kept: Sequence[Sequence[int]],
        errors: Sequence[float],
        doubts: Sequence[tuple[float, int, float, bool]],
    ) -> None:
        """Take over rounds of an earlier run, and bring the state to their end."""
        super().follow(kept, errors, doubts)
        self._add_all(self.path.selected)

    def _add_all(self, selected: Sequence[int]) -> None:
        """Bring the state from no feature to these features."""
        features = np.array(selected, dtype=np.int64)
        for size in range(1, len(selected) + 1):
            self._state.add(features[:size], features[size:].tolist())
        self._ask()

    def certify(self, path: SelectionPath) -> None:
        """Find the weights of a result, and how far rounding may have moved its errors."""
        if self._rules.refits:
            super().certify(path)
            return
        selected = np.array(path.selected, dtype=np.int64)
        by_feature = estimated_rounding(
            self._state, self._gram.moments, selected, path.regularization
        )
        # The error is a part of y.y, and its own share of the rounding is so much larger.
        least = max(np.finfo(float).eps ** 2 * path.initial_error, np.finfo(float).tiny)
        parts = path.initial_error / np.maximum(path.lqo_error, least)
        rounding = np.maximum.accumulate(by_feature) * np.maximum(parts, 1.0)
        is_certain = rounding <= STATED_ACCURACY  # not where it is NaN
        in_doubt, certain = np.flatnonzero(~is_certain), np.flatnonzero(is_certain)
        path.relative_rounding = float(rounding[certain].max(initial=0.0))
        if len(in_doubt):
            self._verify(path, in_doubt.tolist())
        for r in certain.tolist():
            path.weights[r] = self._gram.weights(path.kept[r], path.regularization)

    def measure_predictions(self, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        return self._state.measure(np.array(self.result.selected, dtype=np.int64), measure)
