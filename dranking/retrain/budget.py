"""The test of a challenger at the level that the ledger leaves, and what the test can find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dranking.metrics.compare import compare_rows
from dranking.metrics.per_query import PerQuery
from dranking.metrics.significance import mean_and_error
from dranking.retrain.config_tables import GateConfig
from dranking.retrain.ledger import POWER, Ledger, detectable
from dranking.retrain.registry.registry import PER_QUERY_NAME, Registry


@dataclass(frozen=True)
class Allowance:
    """What the ledger leaves to a test.

    Attributes
    ----------
    level
        Level of the test.
    budget
        Largest expected number of false promotions in any 365 days.
    spent, n_tests
        Sum of the levels of the last 365 days, and number of tests, without this test.
    """

    level: float
    budget: float
    spent: float
    n_tests: int

    def text(self, error: float, n_queries: int) -> str:
        """Budget and power in words; `error` is the standard error of the mean difference."""
        found = detectable(error, n_queries, self.level)
        can = (
            f"a difference of {found:.3g} is found with power {POWER:g} on {n_queries} queries"
            if np.isfinite(found)
            else "no difference is found until tests of the last year have expired"
        )
        return (
            f"{self.spent:.2g} of {self.budget:g} false promotions a year spent by {self.n_tests} "
            f"tests; {can}"
        )


@dataclass(frozen=True)
class NightTest:
    """The test of a challenger against the champion.

    Attributes
    ----------
    n_queries
        Number of queries that count.
    difference, error
        Mean difference, positive where the challenger is better, and its standard error.
    p_value
        One-sided p-value of Student's t-test.
    level
        Level of the test.
    better
        Whether the lower end of the interval at this level is above 0.
    """

    n_queries: int
    difference: float
    error: float
    p_value: float
    level: float
    better: bool


def allowance_of(rules: GateConfig, ledger: Ledger, run_id: str, against: str) -> Allowance | None:
    """What the ledger leaves to the test of a run; None for a gate without a budget."""
    if rules.budget is None:
        return None
    year = [e for e in ledger.of_year() if (e.run_id, e.against) != (run_id, against)]
    level = ledger.level(rules.budget, run_id, against)
    return Allowance(level, rules.budget, sum(e.level for e in year), len(year))


def difference_error(a: PerQuery, b: PerQuery, metric: str) -> float:
    """Standard error of the mean difference of a measure over the queries that count for both."""
    differences = a.values[metric] - b.values[metric]
    weights = np.ones(len(differences)) if a.weights is None else a.weights
    counts = np.isfinite(differences) & (weights > 0)
    return mean_and_error(differences[counts], weights[counts])[1]


def lower_end(
    rules: GateConfig, challenger: PerQuery, champion: PerQuery, level: float, sign: float
) -> float:
    """Lower end of the one-sided interval of the difference at a level.

    Level 0 has no interval; the end is then the smallest float, which JSON can hold.
    """
    if level <= 0:
        return float(np.finfo(np.float64).min)
    resampling = resampling_of(rules) | {"confidence": max(1 - 2 * level, 1e-9)}
    found = compare_rows(challenger, champion, **resampling)[rules.metric]
    return found.low if sign > 0 else -found.high


def night_test(
    difference: float, error: float, n_queries: int, low: float, level: float
) -> NightTest:
    """The test whose one-sided interval at a level begins at `low`."""
    t = difference / error if error else np.copysign(np.inf, difference)
    p_value = 1.0 if difference == 0 else float(special.stdtr(n_queries - 1, -t))
    return NightTest(n_queries, difference, error, p_value, level, bool(low > 0))


def chance_of_equal(rules: GateConfig, error: float, n_queries: int) -> float | None:
    """Probability that an equal challenger passes `lower_bound`; None where nothing varies.

    Student's interval and a normal mean difference are assumed.
    """
    if rules.lower_bound is None or error == 0:
        return None
    margin = special.stdtrit(n_queries - 1, 0.5 + rules.confidence / 2)
    needed = max(rules.lower_bound / error + margin, rules.minimum_effect / error)
    return float(special.ndtr(-needed))


def forecast(rules: GateConfig, registry: Registry) -> str:
    """What the gate would find in the next night, in words: level, budget and power.

    The standard error is that of the last test. Before the first test it is computed from the
    champion's measures, for a challenger whose measures correlate with them by .9.
    """
    champion = registry.aliases.champion
    if champion is None:
        return "there is no champion yet: the first challenger is promoted"
    ledger = registry.ledger
    same = [e for e in ledger.entries if e.metric == rules.metric]
    if same:
        error, n_queries = same[-1].error, same[-1].n_queries
    else:
        values = np.empty(0)
        if PER_QUERY_NAME in registry.manifest(champion).checksums:
            values = registry.per_query(champion).values.get(rules.metric, values)
        values = values[np.isfinite(values)]
        n_queries = len(values)
        if n_queries < 2:
            return f"version {champion} has no measures by {rules.metric}"
        error = float(values.std(ddof=1)) * np.sqrt(2 * (1 - 0.9) / n_queries)
    if rules.budget is not None:
        year = ledger.of_year()
        level = ledger.next_level(rules.budget)
        allowance = Allowance(level, rules.budget, sum(e.level for e in year), len(year))
        return f"level {level:.2g}; {allowance.text(error, n_queries)}"
    by_chance = chance_of_equal(rules, error, n_queries)
    return (
        f"lower_bound {rules.lower_bound:+g}: an equal challenger passes with probability "
        f"{0.0 if by_chance is None else by_chance:.2g} on {n_queries} queries, every night"
    )


def resampling_of(rules: GateConfig) -> dict[str, Any]:
    """The keywords of `compare_rows` for the comparison with the champion."""
    return {"seed": rules.seed, "n_resamples": rules.resamples, "confidence": rules.confidence}
