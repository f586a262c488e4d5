"""The ledger of the gate: every test of a challenger, and the level that the test has spent.

A gate that tests at one level every night promotes challengers that are no better by chance, the
more often the more nights there are. Here the expected number of such promotions is bounded over
any 365 days. Each test may reject "the challenger is no better" with a probability of at most its
level, and the levels of any 365 days sum to at most the budget. The expected number of false
promotions is the sum of their probabilities, so it is at most the budget, whatever the dependence
between the nights.

The level of a test is the budget times the share of a year that has passed since the last test: the
linear spending function of calendar time. Nightly tests get 1/365 of the budget each, as
Bonferroni's do; weekly tests get 7/365, and nights without a test are not lost. The power of a test
is a concave function of its level, so that a decaying series finds fewer better challengers than
equal levels, unless they come early in the year.

Conditions: each test holds its level for the queries as a sample of all queries (Student's t and
the bootstrap-t do approximately, from `FEWEST_QUERIES` queries on); the challenger was not trained
or tuned on the judged queries. The judged queries may be reused. A champion that has won on them
was lucky on them, which makes later challengers look worse: fewer promotions, false and true. What
is not covered: a champion that was promoted by hand because it did well on the same queries, and
the size of the champion's own measured quality, which its luck raises.

References
----------
Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 1983. Dmitrienko,
Tamhane and Bretz, Multiple testing problems in pharmaceutical statistics, 2010, section 2.2 (the
per-family error rate and Bonferroni under any dependence).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from scipy import special

YEAR: Final = timedelta(days=365)
FIRST: Final = timedelta(days=1)
"""Time whose share of the budget the first test gets."""

KEPT: Final = 2 * YEAR
"""Age from which entries are left out."""

POWER: Final = 0.8
"""Power at which the difference that a test finds is stated."""

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Entry(BaseModel):
    """A test of a challenger.

    Attributes
    ----------
    time
        Time of the decision, UTC.
    run_id, version, against
        The run, the challenger, and the champion that it was measured against.
    judged
        Fingerprint of the judged queries.
    metric, n_queries
        Measure, and number of queries that count for it.
    difference, error
        Mean difference (positive where the challenger is better), and its standard error.
    p_value
        One-sided p-value of Student's t-test.
    level
        Level that the test has spent.
    better
        Whether the test has found the challenger to be better.
    """

    model_config = _STRICT
    time: AwareDatetime
    run_id: str
    version: str
    against: str
    judged: str
    metric: str
    n_queries: int
    difference: float
    error: Annotated[float, Field(ge=0)]
    p_value: Annotated[float, Field(ge=0, le=1)]
    level: Annotated[float, Field(ge=0, le=1)]
    better: bool


class Ledger(BaseModel):
    """Content of the registry's ``ledger.json``: the tests of the last two years, oldest first."""

    model_config = _STRICT
    format: Literal["dranking-ledger"] = "dranking-ledger"
    schema_version: Literal[1] = 1
    entries: tuple[Entry, ...] = ()

    def find(self, run_id: str, against: str) -> Entry | None:
        """The test of a run against a champion: run again, it spends nothing more."""
        same = (e for e in self.entries if (e.run_id, e.against) == (run_id, against))
        return next(same, None)

    def with_entry(self, entry: Entry) -> Ledger:
        """The ledger with one more test, which replaces an earlier one of run and champion."""
        others = (e for e in self.entries if (e.run_id, e.against) != (entry.run_id, entry.against))
        kept = [e for e in others if entry.time - e.time < KEPT]
        return self.model_copy(update={"entries": (*kept, entry)})

    def of_year(self, now: datetime | None = None) -> list[Entry]:
        """The tests of the last 365 days; also those that a wrong clock has put into the future."""
        now = now or datetime.now(UTC)
        return [entry for entry in self.entries if now - entry.time < YEAR]

    def level(self, budget: float, run_id: str, against: str) -> float:
        """Level of the test of a run against a champion: the one it had, if it was made already."""
        made = self.find(run_id, against)
        return self.next_level(budget) if made is None else made.level

    def next_level(self, budget: float) -> float:
        """Level of the next test for a budget: false promotions in any 365 days."""
        return next_level(budget, [(e.time, e.level) for e in self.entries], datetime.now(UTC))


def next_level(budget: float, spent: Iterable[tuple[datetime, float]], now: datetime) -> float:
    """Level of a test from the times and levels of all earlier tests, in any order.

    Examples
    --------
    >>> new_year = datetime(2026, 1, 1, tzinfo=UTC)
    >>> round(next_level(0.5, [], new_year) * 365, 6)
    0.5
    >>> round(next_level(0.5, [(new_year, 0.1)], new_year + timedelta(days=7)) * 365, 6)
    3.5
    >>> round(next_level(0.5, [(new_year, 0.499)], new_year + timedelta(days=7)), 6)
    0.001
    """
    tests = list(spent)
    earlier = [time for time, _ in tests if time <= now]
    waited = now - max(earlier) if earlier else FIRST
    left = budget - sum(level for time, level in tests if now - time < YEAR)
    return max(0.0, min(budget * (waited / YEAR), left, 1.0))


def detectable(error: float, n_queries: int, level: float) -> float:
    """Difference that a one-sided t-test finds with the power `POWER`; infinite at level 0.

    Parameters
    ----------
    error
        Standard error of the mean difference.
    n_queries
        Number of queries that count, at least 2.
    level
        Level of the test.
    """
    quantile = float(special.stdtrit(n_queries - 1, 1.0 - level))
    return error * (quantile + float(special.ndtri(POWER)))
