"""The level that the ledger leaves to a test, and sentences about its budget and its power."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.metrics.comparison.significance import effective_queries, mean_and_error
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.false_discoveries import detectable_by_bets, lond_level
from dranking.retrain.registry.ledger import POWER, Entry, Evidence, Kind, Ledger, detectable
from dranking.retrain.registry.registry import PER_QUERY_NAME, Registry

Array = NDArray[np.float64]

ASSUMED_CORRELATION = 0.9
"""Correlation of the measures of champion and challenger before a test has shown it."""


@dataclass(frozen=True)
class Allowance:
    """The level that the ledger leaves to a test, and the budget that it comes from.

    Attributes
    ----------
    level
        Level of the test.
    budget
        Largest expected number of false promotions in any 365 days; for e-LOND, the largest
        expected share of false promotions.
    spent, n_tests
        Sum of the levels of the last 365 days, and number of tests in them, without this test. For
        e-LOND, nothing is spent, and all earlier tests are counted.
    kind
        The test: Student's t-test ("t"), or bets with e-LOND ("e-lond").
    n_promotions
        Number of earlier tests of e-LOND that have found a better challenger.
    """

    level: float
    budget: float
    spent: float
    n_tests: int
    kind: Kind = "t"
    n_promotions: int = 0

    @property
    def after(self) -> Allowance:
        """The allowance when this test has been made and has spent its level."""
        return replace(self, spent=self.spent + self.level, n_tests=self.n_tests + 1)

    def text(self, evidence: Evidence, metric: str) -> str:
        """Budget and power in words; `evidence` is that of the mean difference.

        Tests that are made count themselves: they say this of `after`. Where the standard error is
        0, as for a challenger whose measures are those of the champion, power is not stated.
        """
        if self.kind == "e-lond":
            found = detectable_by_bets(evidence.error, self.level, float(special.ndtri(POWER)))
            used = f"{self.n_promotions} promoted, at most {self.budget:g} of them by chance"
        else:
            found = detectable(evidence, self.level)
            share = self.spent / self.budget
            used = f"{share:.2g} of this year's budget of {self.budget:g} false promotions spent"
        if not np.isfinite(found):
            can = "no difference is found until tests of the last year have expired"
        elif evidence.error == 0.0:
            can = (
                f"the measures by {metric} are equal on all queries, or differ by the same on all, "
                "so that nothing can be said of power"
            )
        else:
            can = (
                f"at this rate a difference of {found:.2g} {metric} is found with power {POWER:g} "
                f"on {evidence.queries}"
            )
        return f"{self.n_tests} nights tested, {used}; {can}"


def allowance_of(rules: GateConfig, ledger: Ledger, run_id: str, against: str) -> Allowance | None:
    """The allowance of the test of a run; None for a gate without a budget."""
    made = ledger.find(run_id, against)
    if rules.false_discovery_rate is not None:
        number, promoted = ledger.lond_count(run_id, against)
        again = made is not None and made.kind == "e-lond"
        level = (
            made.level
            if made and again
            else lond_level(rules.false_discovery_rate, number, promoted)
        )
        rate = rules.false_discovery_rate
        return Allowance(level, rate, 0.0, number - 1, "e-lond", promoted)
    if rules.budget is None:
        return None
    year = [e for e in ledger.of_year() if (e.run_id, e.against) != (run_id, against)]
    level = ledger.level(rules.budget, run_id, against)
    return Allowance(level, rules.budget, sum(e.level for e in year), len(year))


def chance_of_equal(rules: GateConfig, evidence: Evidence) -> float | None:
    """Probability that an equal challenger passes `lower_bound`; None where nothing varies.

    Student's interval and a normal mean difference are assumed.
    """
    error = evidence.error
    if rules.lower_bound is None or error == 0:
        return None
    margin = special.stdtrit(evidence.degrees, 0.5 + rules.confidence / 2)
    needed = max(rules.lower_bound / error + margin, rules.minimum_effect / error)
    return float(special.ndtr(-needed))


def statement(accepted: bool, evidence: Evidence, metric: str, left: Allowance) -> str:
    """A sentence: the decision and its level, the spent budget, and the power of such tests.

    Parameters
    ----------
    accepted
        Whether the challenger has passed all rules of the gate.
    evidence, metric
        Standard error of the mean difference, with its queries, and the measure.
    left
        The allowance that the ledger had left to the test.
    """
    decided = "accepted" if accepted else "rejected"
    return f"{decided} at level {left.level:.2g}; {left.after.text(evidence, metric)}"


def statement_of(entry: Entry, ledger: Ledger) -> str:
    """The sentence of `statement` about an entry of a ledger."""
    if entry.kind == "e-lond":
        left = Allowance(
            entry.level, entry.budget, 0.0, entry.number - 1, "e-lond", entry.n_promotions
        )
    else:
        year = [e for e in ledger.of_year(entry.time) if e.time <= entry.time and e is not entry]
        left = Allowance(entry.level, entry.budget, sum(e.level for e in year), len(year))
    return statement(entry.accepted, entry.evidence, entry.metric, left)


def forecast(rules: GateConfig, registry: Registry, metric: str) -> str:
    """A sentence on the next night: level, budget and power of the gate.

    The standard error is that of the last test. Before the first test it is computed from the
    champion's measures, for a challenger whose measures correlate with them by
    `ASSUMED_CORRELATION`.

    Parameters
    ----------
    rules
        The rules of the gate.
    registry
        The registry.
    metric
        The measure that the gate compares.
    """
    champion = registry.aliases.champion
    if champion is None:
        return "there is no champion yet: the first challenger is promoted"
    ledger = registry.ledger
    same = [e for e in ledger.entries if e.metric == metric]
    if same:
        evidence = same[-1].evidence
    else:
        values, weights = _measures(registry, champion, metric)
        n_parts = rules.rotate or 1
        if len(values) < 2 * n_parts:
            return f"version {champion} has too few measures by {metric}"
        _, error = mean_and_error(values, weights)
        n_queries = len(values) // n_parts
        n_effective = max(n_queries * effective_queries(weights) / len(values), 1.0)
        evidence = Evidence(
            error * math.sqrt(2 * (1 - ASSUMED_CORRELATION) * n_parts), n_queries, n_effective
        )
    allowance = allowance_of(rules, ledger, "", champion)
    if allowance is not None:
        return f"level {allowance.level:.2g}; {allowance.text(evidence, metric)}"
    by_chance = chance_of_equal(rules, evidence)
    return (
        f"lower_bound {rules.lower_bound:+g}: an equal challenger passes with probability "
        f"{0.0 if by_chance is None else by_chance:.2g} on {evidence.queries}, every night"
    )


def _measures(registry: Registry, version: str, metric: str) -> tuple[Array, Array]:
    """A version's values of a measure and their weights, as `PerQuery.counting`; or empty."""
    if PER_QUERY_NAME in registry.manifest(version).checksums:
        stored = registry.per_query(version)
        if metric in stored.values:
            return stored.counting(metric)
    return np.empty(0), np.empty(0)
