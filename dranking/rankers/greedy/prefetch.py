"""Which Gram rows a pass over X fetches: the pick that lacks its row, and what is likely next.

Rows are exact whenever they are fetched, so what is decided here changes the number of passes and
nothing of the result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest

import numpy as np

from dranking.rankers.gram.rows import TotalRows
from dranking.rankers.greedy.path import SelectionRules
from dranking.rankers.greedy.search import Search

ROWS = 8
"""Rows of a pass as long as its costs are not known, or too small to matter."""

FEWEST_ROWS, MOST_ROWS = 4, 32
"""Bounds of what is fetched together; also what is, where a sample foretells the picks."""

NOTICEABLE_SECONDS = 0.5
"""A pass that takes less is not worth a change, and may have loaded compiled code."""

PICKS_EXPONENT = 0.6

BEST_SHARE = 1.5
"""J rows fetched together serve about J^0.6 picks (3 at 4, 4 to 5 at 8, 7 at 24; MQ2008 and made
data of 136 and 700 features, k = 15 and 40). A pass takes a + b J seconds, so a pick takes
(a + b J) / J^0.6 of them, least at J = 1.5 a / b."""


class PassCosts:
    """What a pass over X costs: a + b J seconds for J rows, by the passes there were."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._last = 0.0

    def note(self, n_rows: int, seconds: float) -> None:
        """Take a pass into account; of those with as many rows the fastest counts."""
        self._seconds[n_rows] = min(seconds, self._seconds.get(n_rows, seconds))
        self._last = seconds

    @property
    def best_rows(self) -> int:
        """Rows to fetch in a pass so that a pick costs least."""
        if self._last < NOTICEABLE_SECONDS:
            return ROWS
        if len(self._seconds) == 1:
            return 2 * ROWS  # a second point of the line
        per_row, reading = np.polyfit(list(self._seconds), list(self._seconds.values()), 1)
        if per_row <= 0.0:
            return MOST_ROWS
        return int(np.clip(round(BEST_SHARE * reading / per_row), FEWEST_ROWS, MOST_ROWS))


class Prefetch:
    """Fetches the Gram rows that selections need, and with them those they will need next.

    Parameters
    ----------
    rules
        How many rows a pass fetches, if that is fixed.
    """

    def __init__(self, rules: SelectionRules) -> None:
        self._rules = rules
        self._costs = PassCosts()

    def fetch(self, gram: TotalRows, searches: Sequence[Search]) -> None:
        """Fetch the rows that the next round needs, and of runners-up; one pass, or none."""
        wanted = rows_to_fetch(gram, searches, self._n_rows(gram))
        if not wanted:
            return
        n_excess = len(wanted) - gram.n_free
        if n_excess > 0:
            gram.drop(_idle_rows(gram, searches)[-n_excess:])
        start = time.perf_counter()
        gram.fetch(wanted)
        self._costs.note(len(wanted), time.perf_counter() - start)

    def _n_rows(self, gram: TotalRows) -> int:
        rules = self._rules
        if rules.prefetch is not None:
            return rules.prefetch
        if rules.candidates is not None:
            return 1  # runners-up that are drawn anew each round are seldom there in the next one
        if not rules.picks_otherwise and gram.moments.sample is not None:
            return MOST_ROWS  # most of those that a sample foretells are picked, and serve
        return self._costs.best_rows


def rows_to_fetch(gram: TotalRows, searches: Sequence[Search], n_rows: int) -> list[int]:
    """Features whose rows the next pass fetches: those needed now, then runners-up.

    Nothing is fetched while there is every row that the round takes. There is room for all rows
    but those that it takes and those of the features selected; and never more rows than features
    that can still be added.

    Parameters
    ----------
    gram
        The rows there are.
    searches
        The paths.
    n_rows
        Rows to fetch, within these bounds.
    """
    running = [search for search in searches if not search.done]
    taken = dict.fromkeys(chain.from_iterable(search.needed for search in running))
    needed = [feature for feature in taken if not gram.holds(feature)]
    if not needed:
        return []
    n_taken = len({*taken, *_selected(searches)}) - len(needed)
    n_to_come = sum(search.n_to_come for search in running)
    size = max(len(needed), min(n_rows, gram.capacity - n_taken, n_to_come))
    missing = [islice((f for f in search.wanted if not gram.holds(f)), size) for search in running]
    return list(dict.fromkeys([*needed, *_by_rank(missing)]))[:size]


def _idle_rows(gram: TotalRows, searches: Sequence[Search]) -> list[int]:
    """Features with rows that no path has selected, in the order they will be needed."""
    selected = _selected(searches)
    running = [search for search in searches if not search.done]
    needed = chain.from_iterable(search.needed for search in running)
    by_rank = dict.fromkeys([*needed, *_by_rank([s.wanted for s in running]), *gram.totals])
    return [f for f in by_rank if gram.holds(f) and f not in selected]


def _selected(searches: Sequence[Search]) -> set[int]:
    return set(chain.from_iterable(search.path.selected for search in searches))


def _by_rank(rankings: Sequence[Iterable[int]]) -> list[int]:
    """All that stands first, then all that stands second, and so on."""
    return [f for f in chain.from_iterable(zip_longest(*rankings)) if f is not None]
