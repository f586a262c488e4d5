"""Upcoming picks: the features that a forward search will probably select next, in that order.

The criterion leaves out every query in turn, but all queries together mostly settle which candidate
is best: through b and the Gram rows A[i, :], which are exact for the features whose rows were
fetched, and guessed from a sample of the documents for other features
(`dranking.kernels.lqo.upcoming`). Upcoming picks decide what is computed early, and never what is
selected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.lqo.upcoming import Totals, eliminate_total
from dranking.kernels.machine.compile import frozen
from dranking.rankers.gram.rows import TotalRows

Array = NDArray[np.float64]


class PickPredictor:
    """Predicts the upcoming picks of one path by a forward selection on all queries together.

    Parameters
    ----------
    gram
        The Gram rows fetched so far.
    regularization
        lambda.
    size
        Largest number of features that the path selects.
    """

    def __init__(self, gram: TotalRows, regularization: float, size: int) -> None:
        self._gram, self._regularization = gram, regularization
        self._sample = gram.moments.sample  # computed by tasks until the first row is needed
        self._basis = np.empty((size, gram.n_features))
        self._start()

    def _start(self) -> None:
        moments = self._gram.moments
        left, products = moments.diagonal + self._regularization, moments.products.copy()
        self._totals = Totals(self._basis, left, products)
        self._eliminated: list[int] = []

    def predict(
        self, selected: Sequence[int], candidates: NDArray[np.intp], gains: Array, number: int
    ) -> list[int]:
        """Up to `number` upcoming picks, as far as Gram rows are known or can be guessed.

        Parameters
        ----------
        selected
            Features selected so far.
        candidates
            (n_candidates,) features that may be picked.
        gains
            (n_candidates,) by how much each candidate lowers the leave-query-out error if the next
            round adds it. The first upcoming pick is the candidate with the largest gain.
        number
            Largest number of picks to predict.
        """
        self._eliminate(selected)
        totals = Totals(self._basis, self._totals.left.copy(), self._totals.products.copy())
        # The difference between the criterion and the fit to all queries changes slowly.
        corrections = gains - self._gains(totals)[candidates]
        expected = gains.copy()
        picks: list[int] = []
        while len(picks) < min(number, len(candidates)):
            best = int(np.argmax(expected))
            corrections[best] = -np.inf
            picks.append(int(candidates[best]))
            row = self._row(picks[-1])
            t = len(selected) + len(picks) - 1
            if row is None or t == len(self._basis):
                break
            eliminate_total(totals, t, picks[-1], row, self._regularization)
            expected = self._gains(totals)[candidates] + corrections
        return picks

    def _eliminate(self, selected: Sequence[int]) -> None:
        """Eliminate the selected features in order; their rows were all fetched."""
        if self._eliminated != list(selected[: len(self._eliminated)]):
            self._start()
        for feature in selected[len(self._eliminated) :]:
            t, row = len(self._eliminated), self._gram.totals[feature]
            eliminate_total(self._totals, t, feature, frozen(row), self._regularization)
            self._eliminated.append(feature)

    @staticmethod
    def _gains(totals: Totals) -> Array:
        """(n_features,) by how much each feature lowers the error of the fit to all queries.

        Guessed rows of features that nearly copy each other may contradict each other, so that
        gains have no bound.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            gains: Array = totals.products**2 / totals.left
        gains[~np.isfinite(gains)] = 0.0
        return gains

    def _row(self, feature: int) -> Array | None:
        row = self._gram.totals.get(feature)
        if row is None and self._sample is not None:
            row = self._sample.row(feature, self._gram.moments.diagonal)
        return None if row is None else frozen(row)
