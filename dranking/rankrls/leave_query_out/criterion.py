"""Interface between the rounds of a selection and the leave-query-out criterion.

Three classes implement the interface: `dense.DenseState` keeps the state of every query and
feature, `sparse.SparseState` computes every score from the nonzeros, `refit.RefitState` refits the
held-out models from the selected features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.rows import TotalRows
from dranking.rankrls.leave_query_out.held_out import FeatureSets, Verified, verify_sets
from dranking.rankrls.leave_query_out.predictions import LqoMeasure

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Scores(NamedTuple):
    """The leave-query-out errors of the candidates of a round.

    Attributes
    ----------
    errors
        (n_candidates,) error with each candidate.
    error
        The present error.
    losses
        (n_candidates,) factor by which the rounding of sums grows in each error: the square of the
        feature, divided by the least of what the feature adds to S in any held-out system. At most
        the root of the number of blocks too large.
    """

    errors: Array
    error: float
    losses: Array


class PathState(ABC):
    """The criterion along one path: one lambda, and the features selected so far.

    Parameters
    ----------
    tiles
        The data.
    regularization
        lambda.

    Attributes
    ----------
    verified
        Facts from orthogonal factors about sets of features, in the order of the sets.
    """

    def __init__(self, tiles: Tiles, regularization: float) -> None:
        self._tiles, self._regularization = tiles, regularization
        self.verified: dict[tuple[int, ...], Verified] = {}

    def needs_update(self, feature: int) -> bool:
        """Whether `add` needs the upcoming picks when `feature` is selected next."""
        return False

    @abstractmethod
    def add(self, selected: Indices, upcoming: Sequence[int] = ()) -> None:
        """Select the last of the features `selected`, whose Gram row was fetched.

        `upcoming` are the picks expected after that feature, in order. Their rows were fetched
        too, so a state may update itself for all of them at once.
        """

    @abstractmethod
    def reset(self) -> None:
        """Return to the state in which no feature is selected."""

    @abstractmethod
    def ask(self, candidates: Indices) -> None:
        """Set the candidates that the next call of `scores` evaluates.

        Every path sets its candidates before any path calls `scores`.
        """

    @abstractmethod
    def scores(self) -> Scores:
        """Leave-query-out errors with each candidate."""

    @abstractmethod
    def least_pivots(self, selected: Indices) -> Array:
        """(t,) smallest pivot of each selected feature in the held-out systems of all queries."""

    def removals(self, selected: Indices) -> tuple[Array, float]:
        """(t,) leave-query-out errors without each selected feature, and the present error."""
        sets = FeatureSets.of([selected.tolist()], self._regularization)
        [found] = verify_sets(self._tiles, sets, removals=True)
        self.verified[tuple(selected.tolist())] = found
        return found.without, found.error

    @abstractmethod
    def measure(self, selected: Indices, measure: LqoMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions after every round over all blocks."""


class Criterion(Protocol):
    """Opens paths that share their passes over the data."""

    def open(self, regularizations: Sequence[float]) -> tuple[TotalRows, Sequence[PathState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        ...
