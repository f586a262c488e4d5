"""Rows that are fetched early: the upcoming picks, and the Gram rows that one pass over X fetches.

*Upcoming picks* are the features that a forward search will probably select next, in that order.
The criterion leaves out every query in turn, but with many queries, leaving one out changes little:
the best candidate is mostly the candidate with the smallest error of the fit to all queries. That
error follows from A and b alone: from the Gram rows A[i, :], which are exact for the features whose
rows were fetched, and guessed from a sample of the documents for other features.

Upcoming picks decide what is computed early, and never what is selected. Gram rows are exact
whenever they are fetched. So the choice of rows changes the number of passes, and no bit of the
result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.rankrls.gram.rows import TotalRows
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.search import Search

Array = NDArray[np.float64]

ROWS = 8
"""Rows of a pass while the costs of passes are not known, or are too small to matter."""

FEWEST_ROWS, MOST_ROWS = 4, 32
"""Bounds of the number of rows that costs suggest. A pass fetches `MOST_ROWS` if a sample of the
documents predicts the picks."""

NOTICEABLE_SECONDS = 0.5
"""Seconds. A pass that takes less time is not worth a change of the number of rows, and its time
may include the loading of compiled code."""

BEST_SHARE = 1.5
"""J rows fetched together serve about J^0.6 picks: 3 at J = 4, 4 to 5 at 8, 7 at 24 (MQ2008, and
made data of 136 and 700 features, k = 15 and 40). A pass takes a + b J seconds, so a pick takes
(a + b J) / J^0.6: least at J = 1.5 a / b."""


class Totals(NamedTuple):
    """A + lambda I and b after eliminating S, the ordered list of features eliminated so far.

    Attributes
    ----------
    basis
        (size, n_features): row j is the row of A + lambda I at the j-th feature of S, after
        eliminating the features before this feature, divided by the square root of its pivot.
    left
        (n_features,) diagonal of A + lambda I, at least lambda.
    products
        (n_features,) b.
    """

    basis: Array
    left: Array
    products: Array


def eliminate_total(totals: Totals, t: int, f: int, row: Array, regularization: float) -> None:
    """Eliminate feature f after t others; `row` (n_features,) is A[f, :]. All of `totals` changes.

    If the rows are estimates, rows of features that nearly copy each other may contradict each
    other, and elimination may then overflow; overflow raises no warning.
    """
    basis, left, products = totals
    with np.errstate(over="ignore", invalid="ignore"):
        new = row - basis[:t, f] @ basis[:t]
        new[f] += regularization
        scale = 1.0 / np.sqrt(max(new[f], regularization))
        new *= scale
        np.maximum(left - new * new, regularization, out=left)
        products -= new * (products[f] * scale)
    basis[t] = new


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
            eliminate_total(self._totals, t, feature, row, self._regularization)
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
        return row


class PassCosts:
    """Estimates the seconds a + b J of a pass over X for J rows, from the passes so far."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._last = 0.0

    def note(self, n_rows: int, seconds: float) -> None:
        """Note a pass; of the passes for the same number of rows, the fastest counts."""
        self._seconds[n_rows] = min(seconds, self._seconds.get(n_rows, seconds))
        self._last = seconds

    @property
    def best_rows(self) -> int:
        """Rows of a pass with which a pick takes the least time."""
        if self._last < NOTICEABLE_SECONDS:
            return ROWS
        if len(self._seconds) == 1:
            return 2 * ROWS  # for a second point of the line
        per_row, reading = np.polyfit(list(self._seconds), list(self._seconds.values()), 1)
        if per_row <= 0.0:
            return MOST_ROWS
        return int(np.clip(round(BEST_SHARE * reading / per_row), FEWEST_ROWS, MOST_ROWS))


class Prefetch:
    """Fetches the Gram rows that a round needs, and in the same pass rows of upcoming picks.

    Parameters
    ----------
    rules
        Rules of the selection: `prefetch` is the number of rows of a pass, if this number is fixed.
    """

    def __init__(self, rules: SelectionRules) -> None:
        self._rules = rules
        self._costs = PassCosts()

    def fetch(self, gram: TotalRows, searches: Sequence[Search]) -> None:
        """Make one pass over X if a pick of this round lacks its row; else do nothing."""
        features = rows_to_fetch(gram, searches, self._n_rows(gram))
        if not features:
            return
        n_excess = len(features) - gram.n_free
        if n_excess > 0:
            gram.drop(_idle_rows(gram, searches)[-n_excess:])
        start = time.perf_counter()
        gram.fetch(features)
        self._costs.note(len(features), time.perf_counter() - start)

    def _n_rows(self, gram: TotalRows) -> int:
        rules = self._rules
        if rules.prefetch is not None:
            return rules.prefetch
        if rules.candidates is not None:
            return 1  # candidates are drawn anew each round, so most others do not come back
        if rules.picks_by_error_alone and gram.moments.sample is not None:
            return MOST_ROWS  # most of the upcoming picks that a sample predicts are picked
        return self._costs.best_rows


def rows_to_fetch(gram: TotalRows, searches: Sequence[Search], n_rows: int) -> list[int]:
    """Features whose rows the next pass fetches; none if all picks of the round have their rows.

    First come the picks of the round, then the upcoming picks and the other candidates of all
    searches in turn. There are never more rows than features that can still be added, nor more
    than the capacity beside the rows of the picks and of the selected features.

    Parameters
    ----------
    gram
        The rows fetched so far.
    searches
        The searches of all paths.
    n_rows
        Rows to fetch, within these bounds.
    """
    running = [search for search in searches if not search.done]
    picks = dict.fromkeys(chain.from_iterable(search.picks for search in running))
    needed = [feature for feature in picks if not gram.holds(feature)]
    if not needed:
        return []
    n_taken = len({*picks, *_selected(searches)}) - len(needed)
    n_picks_left = sum(search.n_picks_left for search in running)
    size = max(len(needed), min(n_rows, gram.capacity - n_taken, n_picks_left))
    missing = [
        islice((f for f in _by_need(search) if not gram.holds(f)), size) for search in running
    ]
    return list(dict.fromkeys([*needed, *_in_turn(missing)]))[:size]


def _idle_rows(gram: TotalRows, searches: Sequence[Search]) -> list[int]:
    """Features with rows that no path has selected, the feature needed soonest first."""
    selected = _selected(searches)
    running = [search for search in searches if not search.done]
    picks = chain.from_iterable(search.picks for search in running)
    by_need = dict.fromkeys([*picks, *_in_turn(map(_by_need, running)), *gram.totals])
    return [f for f in by_need if gram.holds(f) and f not in selected]


def _by_need(search: Search) -> list[int]:
    """Features in the order in which a search will probably need their rows."""
    return list(dict.fromkeys([*search.upcoming, *search.candidates]))


def _selected(searches: Sequence[Search]) -> set[int]:
    return set(chain.from_iterable(search.path.selected for search in searches))


def _in_turn(orders: Iterable[Iterable[int]]) -> list[int]:
    """The first feature of every order, then the second feature of every order, and so on."""
    return [f for f in chain.from_iterable(zip_longest(*orders)) if f is not None]
