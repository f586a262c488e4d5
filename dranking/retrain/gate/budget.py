"""What the ledger leaves to the test of a challenger, and what the test can find, in words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.false_discoveries import detectable_by_bets, lond_level
from dranking.retrain.registry.ledger import POWER, Entry, Kind, Ledger, detectable
from dranking.retrain.registry.registry import PER_QUERY_NAME, Registry


@dataclass(frozen=True)
class Allowance:
    """What the ledger leaves to a test.

    Attributes
    ----------
    level
        Level of the test.
    budget
        Largest expected number of false promotions in any 365 days; of e-LOND the largest expected
        share of false promotions.
    spent, n_tests
        Sum of the levels of the last 365 days, and number of tests, without this test. Of e-LOND
        the number of all tests; nothing is spent.
    kind
        The test: Student's ("t"), or bets with e-LOND ("e-lond").
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

    def text(self, error: float, n_queries: int, metric: str) -> str:
        """Budget and power in words; `error` is the standard error of the mean difference."""
        if self.kind == "e-lond":
            found = detectable_by_bets(error, self.level, float(special.ndtri(POWER)))
            used = f"{self.n_promotions} promoted, at most {self.budget:g} of them by chance"
        else:
            found = detectable(error, n_queries, self.level)
            share = self.spent / self.budget
            used = f"{share:.2g} of this year's budget of {self.budget:g} false promotions spent"
        can = (
            f"at this rate a difference of {found:.2g} {metric} is found with power {POWER:g} on "
            f"{n_queries} queries"
            if np.isfinite(found)
            else "no difference is found until tests of the last year have expired"
        )
        return f"{self.n_tests} nights tested, {used}; {can}"


def allowance_of(rules: GateConfig, ledger: Ledger, run_id: str, against: str) -> Allowance | None:
    """What the ledger leaves to the test of a run; None for a gate without a budget."""
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


def chance_of_equal(rules: GateConfig, error: float, n_queries: int) -> float | None:
    """Probability that an equal challenger passes `lower_bound`; None where nothing varies.

    Student's interval and a normal mean difference are assumed.
    """
    if rules.lower_bound is None or error == 0:
        return None
    margin = special.stdtrit(n_queries - 1, 0.5 + rules.confidence / 2)
    needed = max(rules.lower_bound / error + margin, rules.minimum_effect / error)
    return float(special.ndtr(-needed))


def statement(accepted: bool, error: float, n_queries: int, metric: str, left: Allowance) -> str:
    """What was decided at which level, what is spent, and what such tests find, in one sentence.

    Parameters
    ----------
    accepted
        Whether the challenger has passed all rules of the gate.
    error, n_queries, metric
        Standard error of the mean difference, number of queries that count, and measure.
    left
        What the ledger had left to the test.
    """
    decided = "accepted" if accepted else "rejected"
    return f"{decided} at level {left.level:.2g}; {left.after.text(error, n_queries, metric)}"


def statement_of(entry: Entry, ledger: Ledger) -> str:
    """The sentence of `statement` about an entry of a ledger."""
    if entry.kind == "e-lond":
        left = Allowance(
            entry.level, entry.budget, 0.0, entry.number - 1, "e-lond", entry.n_promotions
        )
    else:
        year = [e for e in ledger.of_year(entry.time) if e.time <= entry.time and e is not entry]
        left = Allowance(entry.level, entry.budget, sum(e.level for e in year), len(year))
    return statement(entry.accepted, entry.error, entry.n_queries, entry.metric, left)


def forecast(rules: GateConfig, registry: Registry, metric: str) -> str:
    """What the gate would find in the next night, in words: level, budget and power.

    The standard error is that of the last test. Before the first test it is computed from the
    champion's measures, for a challenger whose measures correlate with them by .9.

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
        error, n_queries = same[-1].error, same[-1].n_queries
    else:
        values = np.empty(0)
        if PER_QUERY_NAME in registry.manifest(champion).checksums:
            values = registry.per_query(champion).values.get(metric, values)
        values = values[np.isfinite(values)]
        n_queries = len(values) // (rules.rotate or 1)
        if n_queries < 2:
            return f"version {champion} has too few measures by {metric}"
        error = float(values.std(ddof=1)) * np.sqrt(2 * (1 - 0.9) / n_queries)
    allowance = allowance_of(rules, ledger, "", champion)
    if allowance is not None:
        return f"level {allowance.level:.2g}; {allowance.text(error, n_queries, metric)}"
    by_chance = chance_of_equal(rules, error, n_queries)
    return (
        f"lower_bound {rules.lower_bound:+g}: an equal challenger passes with probability "
        f"{0.0 if by_chance is None else by_chance:.2g} on {n_queries} queries, every night"
    )
