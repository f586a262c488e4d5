"""The ledger of the gate: every test of a challenger, and the level that the test has spent.

A gate that tests at one level every night promotes challengers that are no better by chance, the
more often the more nights there are. Here the expected number of such promotions is bounded over
any 365 days. Each test may reject "the challenger is no better" with a probability of at most its
level, and the levels of any 365 days sum to at most the budget. The expected number of false
promotions is the sum of their probabilities, so it is at most the budget, whatever the dependence
between the nights.

The level of a test is the budget times the share of a year that has passed since the last test: the
linear spending function of calendar time. Nightly tests get 1/365 of the budget each, as
Bonferroni's do; weekly tests get 7/365, and nights without a test are not lost, up to
`LONGEST_WAIT`. The power of a test is a concave function of its level, so that a decaying series
finds fewer better challengers than equal levels, unless they come early in the year.

Conditions: each test holds its level for the queries as a sample of all queries (Student's t and
the bootstrap-t do approximately, from `FEWEST_QUERIES` queries on); the challenger was not trained
or tuned on the judged queries. The judged queries may be reused. A champion that has won on them
was lucky on them, which makes later challengers look worse: there are fewer promotions, false and
true. Two things are not covered: a champion that was promoted by hand because it did well on the
same queries, and the champion's own measured quality, which its luck raises. ``gate.rotate`` judges
on queries that no champion was chosen on, and then nothing of this needs to be argued.

A changed set of judged queries does not begin a new ledger. The budget counts false promotions a
year, whichever queries they happen on; a ledger for each set would spend the budget anew with each
change, and without end where judged queries are added every night. The sum of the probabilities of
false promotions is bounded whatever the sets are. Every entry has the fingerprint of its set.

References
----------
Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 1983. Dmitrienko,
Tamhane and Bretz, Multiple testing problems in pharmaceutical statistics, 2010, section 2.2 (the
per-family error rate and Bonferroni under any dependence).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from scipy import special

from dranking.metrics.comparison.significance import degrees_of_freedom, queries_text

YEAR: Final = timedelta(days=365)
FIRST: Final = timedelta(days=1)
"""Time since a last test that is assumed for the first test, to give its share of the budget."""

LONGEST_WAIT: Final = timedelta(days=31)
"""Time without a test whose share of the budget the next test gets at most: monthly tests lose
nothing, and the test after a long break leaves most of the year's budget to those that follow."""

KEPT: Final = 2 * YEAR
"""Age from which entries are left out of the ledger."""

POWER: Final = 0.8
"""Power at which the difference that a test finds is stated."""

Kind: TypeAlias = Literal["t", "e-lond"]

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Evidence(NamedTuple):
    """The standard error of a mean difference, and the queries that it comes from.

    Attributes
    ----------
    error
        Standard error of the mean difference.
    n_queries
        Number of queries that count.
    n_effective
        Number of queries of equal weight that say as much
        (`dranking.metrics.comparison.significance.effective_queries`).
    """

    error: float
    n_queries: int
    n_effective: float

    @property
    def degrees(self) -> float:
        """Degrees of freedom of Student's t."""
        return degrees_of_freedom(self.n_effective)

    @property
    def queries(self) -> str:
        """The queries in words."""
        return queries_text(self.n_queries, self.n_effective)


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
        Student's t-test ("t"), or a test of e-LOND by bets.
    budget
        Budget of false promotions a year, or false discovery rate of e-LOND.
    number, n_promotions
        Number of this test among the tests of e-LOND, from 1, and number of earlier tests of e-LOND
        that have found a better challenger; both are 0 for Student's test.
    part
        Number, from 0, of the part of the judged queries that was judged on; None if all queries
        were.
    reported
        Best mean on the ladder after the test; None without a ladder.
    metric, n_queries, n_effective
        Measure, number of queries that count for it, and number of queries of equal weight that say
        as much.
    difference, error
        Mean difference (positive where the challenger is better), and its standard error.
    p_value
        One-sided p-value of Student's t-test; for e-LOND, 1 / e-value, at most 1.
    level
        Level that the test has spent.
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
    kind: Kind = "t"
    budget: Annotated[float, Field(gt=0)]
    number: Annotated[int, Field(ge=0)] = 0
    n_promotions: Annotated[int, Field(ge=0)] = 0
    part: int | None = None
    reported: float | None = None
    metric: str
    n_queries: int
    n_effective: Annotated[float, Field(ge=1)]
    difference: float
    error: Annotated[float, Field(ge=0)]
    p_value: Annotated[float, Field(ge=0, le=1)]
    level: Annotated[float, Field(ge=0, le=1)]
    better: bool
    accepted: bool

    @property
    def evidence(self) -> Evidence:
        """The standard error, and the queries that it comes from."""
        return Evidence(self.error, self.n_queries, self.n_effective)


class Ledger(BaseModel):
    """Content of the registry's ``ledger.json``.

    Attributes
    ----------
    entries
        The tests of the last two years, oldest first, and the last test of e-LOND, whose number
        counts all earlier tests of e-LOND.
    chosen_on
        Digests of the ids of all queries that champions were chosen on, for ``gate.rotate``.
    """

    model_config = _STRICT
    format: Literal["dranking-ledger"] = "dranking-ledger"
    schema_version: Literal[3] = 3
    entries: tuple[Entry, ...] = ()
    chosen_on: tuple[str, ...] = ()

    def find(self, run_id: str, against: str) -> Entry | None:
        """The test of a run against a champion; a test that is run again spends nothing more."""
        same = (e for e in self.entries if (e.run_id, e.against) == (run_id, against))
        return next(same, None)

    def with_entry(self, entry: Entry) -> Ledger:
        """The ledger with one more test.

        The test of a run that was made against this champion before takes the place and the time of
        the earlier one: its level was spent then.
        """
        made, counts = self.find(entry.run_id, entry.against), self._last_of_lond()
        kept = [e for e in self.entries if entry.time - e.time < KEPT or e is counts or e is made]
        if made is None:
            kept.append(entry)
        else:
            kept[kept.index(made)] = entry.model_copy(update={"time": made.time})
        return self.model_copy(update={"entries": tuple(kept)})

    def with_chosen_on(self, digests: Iterable[str]) -> Ledger:
        """The ledger with more queries that a champion was chosen on."""
        return self.model_copy(update={"chosen_on": tuple(sorted({*self.chosen_on, *digests}))})

    def of_year(self, now: datetime | None = None) -> list[Entry]:
        """The tests of the last 365 days; also those that a wrong clock has put into the future."""
        now = now or datetime.now(UTC)
        return [entry for entry in self.entries if now - entry.time < YEAR]

    def lond_count(self, run_id: str, against: str) -> tuple[int, int]:
        """Number of a test of e-LOND, from 1, and number of earlier promotions by e-LOND.

        A test that is made again keeps its number.
        """
        made = self.find(run_id, against)
        if made is not None and made.kind == "e-lond":
            return made.number, made.n_promotions
        last = self._last_of_lond()
        return (1, 0) if last is None else (last.number + 1, last.n_promotions + last.better)

    def _last_of_lond(self) -> Entry | None:
        tests = (entry for entry in self.entries if entry.kind == "e-lond")
        return max(tests, key=lambda entry: entry.number, default=None)

    def level(self, budget: float, run_id: str, against: str) -> float:
        """Level of the test of a run against a champion; a test that was made keeps its level."""
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
    >>> round(next_level(0.5, [(new_year, 0.1)], new_year + timedelta(days=200)) * 365, 6)
    15.5
    >>> round(next_level(0.5, [(new_year, 0.499)], new_year + timedelta(days=7)), 6)
    0.001
    """
    tests = list(spent)
    earlier = [time for time, _ in tests if time <= now]
    waited = min(now - max(earlier), LONGEST_WAIT) if earlier else FIRST
    left = budget - sum(level for time, level in tests if now - time < YEAR)
    return max(0.0, min(budget * (waited / YEAR), left, 1.0))


def detectable(evidence: Evidence, level: float) -> float:
    """Difference that a one-sided t-test finds with the power `POWER`; infinite at level 0.

    Parameters
    ----------
    evidence
        Standard error of the mean difference, and its queries, at least 2.
    level
        Level of the test.
    """
    quantile = float(special.stdtrit(evidence.degrees, 1.0 - level))
    return evidence.error * (quantile + float(special.ndtri(POWER)))
