"""What the searches along one path have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankers.gram.rows import TotalRows, ridge_weights
from dranking.rankers.greedy.path import SelectionPath, SelectionRules
from dranking.rankers.leave_query_out.criterion import PathState
from dranking.rankers.leave_query_out.dense_block import HeldOutMeasure
from dranking.rankers.leave_query_out.from_documents import measure_subsets, models_of

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Share of the initial error by which errors without one of two copies may differ."""


class Search(ABC):
    """A search for one lambda, round by round.

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
        What was kept so far.
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

    @staticmethod
    def largest_size(rules: SelectionRules, n_features: int) -> int:
        """Features that are kept at the same time at most."""
        return rules.n_features

    @property
    @abstractmethod
    def needed(self) -> Sequence[int]:
        """Features whose Gram rows the next round takes."""

    @property
    @abstractmethod
    def wanted(self) -> Sequence[int]:
        """Features whose rows the rounds after it may take, the best first."""

    @property
    @abstractmethod
    def n_to_come(self) -> int:
        """Features that there can still be added."""

    @property
    @abstractmethod
    def progress(self) -> tuple[int, int]:
        """How far the search is, and how far it goes."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the search is at its end."""

    @property
    @abstractmethod
    def result(self) -> SelectionPath:
        """The path up to the features that are the search's result."""

    @abstractmethod
    def rank(self) -> None:
        """Score what the next round can do, and note the present error."""

    @abstractmethod
    def rescore(self) -> None:
        """Score the best of it again, if rules say so."""

    @abstractmethod
    def advance(self) -> None:
        """Do the best of it."""

    @abstractmethod
    def covers(self, kept: Sequence[int]) -> bool:
        """Whether the search comes to as many features as these."""

    @abstractmethod
    def _patience_ends(self, path: SelectionPath) -> bool:
        """Whether patience is at its end after the rounds of a path."""

    def n_shared(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> int:
        """How many rounds of a run before, of any size and patience, this search comes to too."""
        path = SelectionPath(self.path.regularization, self.path.initial_error)
        for selected, error in zip(kept, errors, strict=True):
            if not self.covers(selected) or self._patience_ends(path):
                break
            path.kept.append(list(selected))
            path.lqo_error.append(error)
        return len(path.kept)

    def follow(self, kept: Sequence[Sequence[int]], errors: Sequence[float]) -> None:
        """Take shared rounds of a run before; there was none until now.

        The rows of all that was ever kept were fetched, and those of what is kept now are there.
        """
        for selected, error in zip(kept, errors, strict=True):
            self._keep(selected)
            self.path.lqo_error.append(error)

    def measure_held_out(self, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""
        models = models_of(self.result.kept, self._gram, self.path.regularization)
        return measure_subsets(self._tiles, models, measure)

    def _note_error(self, error: float) -> None:
        """The error after the last round, unless it is known."""
        if len(self.path.lqo_error) < len(self.path.kept):
            self.path.lqo_error.append(error)

    def _least_missed(self, errors: Array, fixed: Collection[int]) -> int:
        """Position of the feature to drop by the errors without each; some are not fixed.

        Among those that are equal up to rounding, as copies are, the one of the highest index.
        """
        selected = self.path.selected
        droppable = [j for j, feature in enumerate(selected) if feature not in fixed]
        limit = errors[droppable].min() + ROUNDING * self.path.initial_error
        return max((j for j in droppable if errors[j] <= limit), key=selected.__getitem__)

    def _keep(self, selected: Sequence[int]) -> None:
        """Note what is kept after a round, and the weights."""
        gram, path = self._gram, self.path
        features = np.array(selected, dtype=np.int64)
        products = gram.moments.products[features]
        path.kept.append(list(selected))
        path.weights.append(ridge_weights(gram.between(selected), products, path.regularization))
