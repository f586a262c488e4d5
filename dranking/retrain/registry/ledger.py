"""The ledger of the gate: every test of a challenger, and the level that the test has spent.

A gate that tests at one level every night promotes challengers that are no better by chance, the
more often the more nights there are. Here the expected number of such promotions is bounded over
any 365 days, counted by UTC dates. Each test rejects "the challenger is no better" with a
probability of at most its level, and the levels of any 365 days sum to at most the budget. The
expected number of false promotions is the sum of their probabilities, so it is at most the budget,
whatever the dependence between the nights.

One test is taken a period (`Period`): the first one of the period. Its level is the budget times
the share of a year since the day of the last test, the linear spending function of calendar time:
daily tests get 1/365 of the budget each, monthly tests about 1/12. Days without a test are not
lost, up to `LONGEST_WAIT`.

Condition: each test holds its level given the champion, which is so on queries that no champion was
chosen on. A champion that has won on the judged queries was lucky on them; what the reuse of
queries adds is measured by ``python -m pipelines.reproduce.nightly_gate``.

A changed set of judged queries does not begin a new ledger. The budget counts false promotions a
year, whichever queries they happen on; a ledger for each set would spend the budget anew with each
change. Every entry has the fingerprint of its set.

References
----------
Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 1983. Dmitrienko,
Tamhane and Bretz, Multiple testing problems in pharmaceutical statistics, 2010, section 2.2 (the
per-family error rate and Bonferroni under any dependence).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, timedelta
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Period: TypeAlias = Literal["day", "week", "month", "quarter"]
"""Calendar periods in UTC; weeks begin on Monday."""

DAYS: Final[dict[Period, int]] = {"day": 1, "week": 7, "month": 30, "quarter": 91}
"""Days whose share of the budget the first test of a registry gets."""

YEAR: Final = 365
LONGEST_WAIT: Final = 92
"""Days without a test whose share of the budget the next test gets at most: quarterly tests lose
nothing, and the test after a long break leaves most of the year's budget to the tests that
follow."""

LARGEST: Final = 0.5
"""Largest level of a test."""

KEPT: Final = 2 * YEAR
"""Number of entries that the ledger keeps: with one test a day, those of two years at least. Their
age says nothing, since a clock may have been wrong."""

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Entry(BaseModel):
    """A test of a challenger.

    Attributes
    ----------
    time
        Time of the decision, UTC; of a test that was made again, the first time.
    run_id, version, against
        The run, the challenger, and the champion that it was measured against.
    judged
        Fingerprint of the judged queries.
    kind
        Bets on judged queries ("bets"), or the lower end of a value on clicks ("interval").
    budget, every
        Budget of false promotions a year, and period of the tests.
    metric, n_queries, n_effective
        Measure, number of queries that count for it, and number of queries of equal weight that say
        as much.
    difference, error
        Mean difference (positive where the challenger is better), and its standard error.
    e_value
        Final capital of the bets on queries; None for clicks.
    p_value
        One-sided p-value of Student's t-test, which decides nothing where there are bets.
    level
        Level that the test has spent.
    detectable
        Improvement that such a test finds with power .8; None if it finds no improvement.
    better
        Whether the test has found the challenger to be better.
    accepted
        Whether the challenger has passed all rules of the gate.
    """

    model_config = _STRICT
    time: AwareDatetime
    run_id: str
    version: str
    against: str
    judged: str
    kind: Literal["bets", "interval"]
    budget: Annotated[float, Field(gt=0)]
    every: Period
    metric: str
    n_queries: int
    n_effective: Annotated[float, Field(ge=1)]
    difference: float
    error: Annotated[float, Field(ge=0)]
    e_value: Annotated[float, Field(ge=0)] | None = None
    p_value: Annotated[float, Field(ge=0, le=1)]
    level: Annotated[float, Field(gt=0, le=1)]
    detectable: float | None
    better: bool
    accepted: bool


class Ledger(BaseModel):
    """Content of the registry's ``ledger.json``.

    Attributes
    ----------
    entries
        The newest tests, as many as days of two years, oldest first.
    """

    model_config = _STRICT
    format: Literal["dranking-ledger"] = "dranking-ledger"
    schema_version: Literal[4] = 4
    entries: tuple[Entry, ...] = ()

    def find(self, run_id: str, against: str) -> Entry | None:
        """The test of a run against a champion; a test that is run again spends nothing more."""
        same = (e for e in self.entries if (e.run_id, e.against) == (run_id, against))
        return next(same, None)

    def with_entry(self, entry: Entry) -> Ledger:
        """The ledger with one more test.

        The test of a run that was made against this champion before takes the place and the time of
        the earlier one: its level was spent then.
        """
        made = self.find(entry.run_id, entry.against)
        kept = list(self.entries)
        if made is None:
            kept = [*kept, entry][-KEPT:]
        else:
            kept[kept.index(made)] = entry.model_copy(update={"time": made.time})
        return self.model_copy(update={"entries": tuple(kept)})

    @property
    def spent(self) -> list[tuple[date, float]]:
        """Date and level of every test."""
        return [(entry.time.astimezone(UTC).date(), entry.level) for entry in self.entries]


def is_tested(budget: float, every: Period) -> bool:
    """Whether challengers are tested: whether the budget is below one promotion a period.

    Examples
    --------
    >>> is_tested(5, "month"), is_tested(5, "quarter")
    (True, False)
    """
    return budget * DAYS[every] < YEAR


def next_level(
    budget: float, spent: Iterable[tuple[date, float]], today: date, every: Period = "day"
) -> float:
    """Level of a test from the dates and levels of all earlier tests, in any order.

    Less than half of the share of a day counts as nothing: such a test would promote nobody.

    Examples
    --------
    >>> new_year = date(2026, 1, 1)
    >>> round(next_level(0.5, [], new_year) * 365, 6)
    0.5
    >>> round(next_level(0.5, [(new_year, 0.1)], date(2026, 1, 8)) * 365, 6)
    3.5
    >>> round(next_level(0.5, [(new_year, 0.1)], date(2026, 7, 20)) * 365, 6)
    46.0
    >>> round(next_level(0.5, [(new_year, 0.48)], date(2026, 7, 20)), 6)
    0.02
    """
    tests = list(spent)
    earlier = [day for day, _ in tests if day <= today]
    waited = min((today - max(earlier)).days, LONGEST_WAIT) if earlier else DAYS[every]
    level = min(budget * waited / YEAR, budget - spent_in_year(tests, today), LARGEST)
    return level if level > 0.5 * budget / YEAR else 0.0


def spent_in_year(spent: Iterable[tuple[date, float]], today: date) -> float:
    """Sum of the levels of the last 365 days, and of tests that a wrong clock put into the future.

    Examples
    --------
    >>> tests = [(date(2026, 1, 1), 0.1), (date(2026, 1, 2), 0.2), (date(2030, 1, 1), 0.01)]
    >>> round(spent_in_year(tests, date(2027, 1, 1)), 6)
    0.21
    """
    return sum(level for day, level in spent if (today - day).days < YEAR)


def first_day(day: date, every: Period) -> date:
    """First day of the period of a day.

    Examples
    --------
    >>> day = date(2026, 11, 27)
    >>> [f"{first_day(day, every):%m-%d}" for every in ("day", "week", "month", "quarter")]
    ['11-27', '11-23', '11-01', '10-01']
    """
    if every == "day":
        return day
    if every == "week":
        return day - timedelta(days=day.weekday())
    first = day.replace(day=1)
    return first if every == "month" else first.replace(month=3 * ((day.month - 1) // 3) + 1)


def next_test(
    budget: float, spent: Iterable[tuple[date, float]], today: date, every: Period
) -> date:
    """First day, from today on, of a period without a test and with a level above 0.

    Examples
    --------
    >>> f"{next_test(0.5, [(date(2026, 11, 2), 0.001)], date(2026, 11, 27), 'quarter'):%Y-%m-%d}"
    '2027-01-01'
    """
    tests = list(spent)
    taken = {first_day(day, every) for day, _ in tests}
    day = today
    while first_day(day, every) in taken or not next_level(budget, tests, day, every):
        day += timedelta(days=1)
    return day
