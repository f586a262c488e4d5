"""The level that the ledger leaves to a test, and sentences about its budget and its power."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.comparison.significance import queries_text
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.bets import POWER, detectable, fewest_queries, queries_needed
from dranking.retrain.registry.ledger import (
    DAYS,
    LARGEST,
    YEAR,
    Entry,
    Ledger,
    Period,
    first_day,
    is_tested,
    next_level,
    next_test,
    spent_in_year,
)
from dranking.retrain.registry.registry import PER_QUERY_NAME, Registry

Array = NDArray[np.float64]

ASSUMED_CORRELATION: Final = 0.9
"""Correlation of the measures of champion and challenger before there was a challenger."""

SMALL: Final = 0.01
"""Improvement for which the number of queries is stated."""


@dataclass(frozen=True)
class GateTest:
    """The test of a challenger against the champion; attributes are those of the ledger's `Entry`.

    Attributes
    ----------
    day
        UTC date of the test, in ISO form.
    kind, every, n_queries, n_effective, difference, error, e_value, p_value, level, detectable,
    better
        As in `dranking.retrain.registry.ledger.Entry`.
    """

    day: str
    kind: Literal["bets", "interval"]
    every: Period
    n_queries: int
    n_effective: float
    difference: float
    error: float
    e_value: float | None
    p_value: float
    level: float
    detectable: float | None
    better: bool


@dataclass(frozen=True)
class Allowance:
    """The level that the ledger leaves to a test, and the budget that it comes from.

    Attributes
    ----------
    level
        Level of the test; 0 if no test can be taken today.
    every, budget
        Period of the tests, and largest expected number of false promotions in any 365 days.
    spent
        Sum of the levels of the last 365 days, without this test.
    next_day
        First day on which a test can be taken. If there is a level: the day of the test, today, or
        that on which the same test was taken first.
    taken
        Whether the test of this period was taken.
    ahead
        Last day of a test that the ledger dates after today; None without one.
    """

    level: float
    every: Period
    budget: float
    spent: float
    next_day: date
    taken: bool = False
    ahead: date | None = None

    @property
    def text(self) -> str:
        """Level and budget in words, or the day of the next test and the reason."""
        clock = ""
        if self.ahead is not None:
            clock = f"; the ledger has a test of {self.ahead:%Y-%m-%d}, by a clock that was ahead"
        if self.level:
            share = self.spent / self.budget
            spent = f"{share:.2g} of this year's budget spent{clock}"
            return f"level {self.level:.2g} ({self.every}), {spent}"
        taken = f"the test of this {self.every} was taken"
        why = taken if self.taken else "the budget of the last 365 days is spent"
        next_test = f"the next test can be taken on {self.next_day:%Y-%m-%d}"
        return f"no test today: {why}{clock}; {next_test}"


def allowance_of(rules: GateConfig, ledger: Ledger, run_id: str, against: str) -> Allowance | None:
    """The allowance of the test of a run today; None if the budget asks for no test."""
    budget, every = rules.false_promotions_per_year, rules.every
    if not rules.is_tested:
        return None
    today, tests = datetime.now(UTC).date(), ledger.spent
    made = ledger.find(run_id, against)
    if made is not None:
        others = spent_in_year(tests, today) - made.level
        day = made.time.astimezone(UTC).date()
        return Allowance(made.level, every, budget, max(others, 0.0), day)
    day = next_test(budget, tests, today, every)
    level = next_level(budget, tests, today, every) if day == today else 0.0
    taken = any(first_day(test, every) == first_day(today, every) for test, _ in tests)
    ahead = max((test for test, _ in tests if test > today), default=None)
    return Allowance(level, every, budget, spent_in_year(tests, today), day, taken, ahead)


def statement_of(test: GateTest | Entry, metric: str, accepted: bool, share: float) -> str:
    """A sentence: the decision and its level, the spent budget, and the power of such tests.

    Parameters
    ----------
    test, metric
        The test, and its measure.
    accepted
        Whether the challenger has passed all rules of the gate.
    share
        Share of the budget of 365 days that is spent, this test included.
    """
    decided = "accepted" if accepted else "rejected"
    approximate = ", approximate" if test.kind == "interval" else ""
    return (
        f"{decided} at level {test.level:.2g} ({test.every}{approximate}); {share:.2g} of this "
        f"year's budget spent; {_found(test, metric)}"
    )


def statement_of_entry(entry: Entry, ledger: Ledger) -> str:
    """The sentence of `statement_of` about an entry of a ledger."""
    until = Ledger(entries=tuple(e for e in ledger.entries if e.time <= entry.time))
    share = spent_in_year(until.spent, entry.time.astimezone(UTC).date()) / entry.budget
    return statement_of(entry, entry.metric, entry.accepted, share)


def _found(test: GateTest | Entry, metric: str) -> str:
    """The improvement that the queries of a test find, in words."""
    queries = queries_text(test.n_queries, test.n_effective)
    if test.error == 0.0 and test.kind == "bets":
        return f"{metric} differs by the same on all queries, so that nothing can be said of power"
    if test.detectable is None:
        return f"{queries} find no improvement at this level"
    return f"{queries} find {test.detectable:.2g} with power {POWER:g}"


def price(differences: Array, shares: Array, level: float, every: Period, budget: float) -> str:
    """The queries that bets need, the number that no valid test needs, and rarer tests, in words.

    Parameters
    ----------
    differences, shares, level
        As in `dranking.retrain.gate.bets.detectable`.
    every, budget
        Period of the tests, and budget of false promotions a year.
    """
    least = fewest_queries(SMALL, level)
    if np.ptp(differences) == 0.0:
        return f"no valid test finds an improvement of {SMALL:g} on fewer than {least:,} queries"
    needed = queries_needed(differences, shares, level, SMALL)
    bets = "more than 10^9" if needed is None else f"about {needed:,}"
    parts = [
        f"an improvement of {SMALL:g} needs {bets} queries, and no valid test needs fewer than "
        f"{least:,}"
    ]
    for rarer in list(DAYS)[list(DAYS).index(every) + 1 :]:
        larger = min(budget * DAYS[rarer] / YEAR, LARGEST)
        found = detectable(differences, shares, larger)
        if found is not None and is_tested(budget, rarer):
            parts.append(f'gate.every = "{rarer}" finds {found:.2g} (level {larger:.2g})')
    return "; ".join(parts)


def forecast(rules: GateConfig, registry: Registry, metric: str, run_id: str = "") -> str:
    """A sentence on the next night: what the gate would do, its level, budget and power.

    Differences are those of the newest challenger to the champion on the queries that both were
    measured on. Without them they are spread like the champion's measures, for a challenger whose
    measures correlate with the champion's by `ASSUMED_CORRELATION`. Versions have no measures of
    clicks: their power is that of the last test.

    Parameters
    ----------
    rules
        The rules of the gate.
    registry
        The registry.
    metric
        The measure that the gate compares.
    run_id
        The run, whose test may have been taken before.
    """
    champion = registry.rival(run_id)
    if champion is None:
        return "there is no champion yet: the first challenger is promoted"
    left = allowance_of(rules, registry.ledger, run_id, champion)
    if left is None:
        return "no test: the budget allows to promote every challenger that passes the other rules"
    if not left.level:
        return left.text
    if rules.queries == "new":
        return f"{left.text}; queries that were judged after version {champion} was chosen decide"
    differences, shares = _expected_differences(rules, registry, champion, metric)
    n = len(differences)
    if not n:
        return f"{left.text}; {_last_test(registry, champion, metric)}"
    if shares.max() > 1.0:
        return (
            f"{left.text}; a query weighs {rules.max_query_weight * shares.max():g}, and "
            f"gate.max_query_weight is {rules.max_query_weight:g}, so that the gate will refuse it"
        )
    found = detectable(differences, shares, left.level)
    finds = "no improvement" if found is None else f"{found:.2g} {metric} with power {POWER:g}"
    costs = price(differences, shares, left.level, rules.every, left.budget)
    return f"{left.text}; {n} queries find {finds}; {costs}"


def _last_test(registry: Registry, champion: str, metric: str) -> str:
    """The power of the last test by a measure that versions do not keep, such as clicks."""
    for entry in reversed(registry.ledger.entries):
        if entry.metric == metric:
            at_level = f"at level {entry.level:.2g} ({entry.every})"
            return f"in the last test, {at_level}, {_found(entry, metric)}"
    return f"version {champion} has no measures by {metric}, and no test by it tells its power"


def _expected_differences(
    rules: GateConfig, registry: Registry, champion: str, metric: str
) -> tuple[Array, Array]:
    """Differences as `forecast` expects them, and shares of the weights; empty if unknown."""
    aliases = registry.aliases
    tables = [
        _measures(registry, version, metric)
        for version in (champion, aliases.challenger, aliases.previous)
        if version is not None
    ]
    first, others = tables[0], [table for table in tables[1:] if table is not None]
    if first is None:
        return np.empty(0), np.empty(0)
    bound = rules.max_query_weight
    if others and others[0].query_ids.equals(first.query_ids):
        differences, weights = differences_of(others[0], first, metric)
        if np.ptp(differences) > 0:
            return differences, weights / bound
    values, weights = first.counting(metric)
    spread = np.sqrt(2 * (1 - ASSUMED_CORRELATION)) * (values - values.mean())
    return spread, weights / bound


def _measures(registry: Registry, version: str, metric: str) -> PerQuery | None:
    """A version's measures of the judged queries; None if it has none by this metric."""
    if PER_QUERY_NAME in registry.manifest(version).checksums:
        stored = registry.per_query(version)
        if metric in stored.values and len(stored.counting(metric)[0]):
            return stored
    return None


def differences_of(a: PerQuery, b: PerQuery, metric: str) -> tuple[Array, Array]:
    """Differences of a measure and weights of the queries that count for both."""
    differences = a.values[metric] - b.values[metric]
    weights = np.ones(len(differences)) if a.weights is None else a.weights
    counts = np.isfinite(differences) & (weights > 0)
    return differences[counts], weights[counts]
