"""Searches along one path: what every search does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.errors import STATED_ACCURACY
from dranking.rankrls.gram.rows import TotalRows, ridge_rounding
from dranking.rankrls.greedy.certificate import Run, verified_rounds
from dranking.rankrls.greedy.exact_rounds import ExactPath, ExactRounds
from dranking.rankrls.greedy.path import Doubt, SelectionPath, SelectionRules
from dranking.rankrls.kernels.lqo.factor_rounding import share_of_exact
from dranking.rankrls.kernels.lqo.rounding import EQUAL_ERRORS
from dranking.rankrls.leave_query_out.criterion import PathState
from dranking.rankrls.leave_query_out.held_out import FeatureSets
from dranking.rankrls.leave_query_out.predictions import LqoMeasure, measure_sets

Array = NDArray[np.float64]


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
    exact
        The factor of all features, as far as the data has one.

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
        exact: ExactRounds | None,
    ) -> None:
        self._tiles = tiles
        self._gram = gram
        self._state = state
        path = None if exact is None else ExactPath(exact, regularization)
        self._run = Run(tiles, state, regularization, path)
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
        """Number of rounds of an earlier run, of any size and patience, that this one repeats."""
        path = SelectionPath(self.path.regularization, self.path.initial_error)
        for selected, error in zip(kept, errors, strict=True):
            if not self.covers(selected) or self._patience_ends(path):
                break
            path.kept.append(list(selected))
            path.lqo_error.append(error)
        return len(path.kept)

    def follow(
        self,
        kept: Sequence[Sequence[int]],
        errors: Sequence[float],
        doubts: Sequence[tuple[float, int, float, bool]],
    ) -> None:
        """Take over rounds of an earlier run; this search has done no round yet.

        The sums of the Gram rows of all features in `kept` were fetched, and the rows of the
        features kept last are there.
        """
        for selected, error, doubt in zip(kept, errors, doubts, strict=True):
            self.path.keep(selected, Doubt(*doubt))
            self.path.lqo_error.append(error)

    def certify(self, path: SelectionPath) -> None:
        """Find the weights of a result, and how far rounding may have moved its errors.

        Rounds in doubt are corrected. Searches by refits have most rounds from orthogonal factors
        already.
        """
        self._verify(path, range(len(path.kept)))

    def _verify(self, path: SelectionPath, rounds: Sequence[int]) -> None:
        """Compare rounds with orthogonal factors, whose errors and weights replace wrong ones."""
        kept = [path.kept[r] for r in rounds]
        found = verified_rounds(self._run, kept)
        for r, each in zip(rounds, found, strict=True):
            off = np.array([abs(path.lqo_error[r] - each.error) + each.rounding, each.rounding])
            share, stated = share_of_exact(np.array([each.error, each.error]), off).tolist()
            path.weights[r] = self._weights(path.kept[r], each.weights, share)
            if share > EQUAL_ERRORS:
                path.lqo_error[r], share = each.error, stated
            self._note(path, share, [path.kept[r][j] for j in each.uncertain])

    def _weights(self, selected: Sequence[int], verified: Array, share: float) -> Array:
        """Weights from Gram rows; those from factors where Gram rows lose digits."""
        rounding, _ = ridge_rounding(self._gram.between(selected), self._run.regularization)
        if max(share, rounding) > EQUAL_ERRORS:
            return verified
        return self._gram.weights(selected, self._run.regularization)

    def _note(self, path: SelectionPath, share: float, features: Sequence[int]) -> None:
        """Note a relative error by rounding, and the features behind it."""
        path.relative_rounding = max(path.relative_rounding, share)
        if share > STATED_ACCURACY:
            path.uncertain = list(dict.fromkeys([*path.uncertain, *features]))

    def measure_predictions(self, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        sets = FeatureSets.of(self.result.kept, self.path.regularization)
        return measure_sets(self._tiles, sets, measure)

    def _least_missed(self, errors: Array, fixed: Collection[int]) -> int:
        """Position of the selected feature to drop, by the errors without each feature.

        Features in `fixed` stay; at least one selected feature is not fixed. Of features that are
        equally good to drop up to rounding, as copies are, the feature with the highest index is
        dropped.
        """
        selected = self.path.selected
        droppable = [j for j, feature in enumerate(selected) if feature not in fixed]
        limit = errors[droppable].min() * (1.0 + EQUAL_ERRORS)
        return max((j for j in droppable if errors[j] <= limit), key=selected.__getitem__)
