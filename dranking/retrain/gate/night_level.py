"""The test of a challenger against the champion at the level that the ledger leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.metrics.comparison.compare import compare_rows
from dranking.metrics.comparison.significance import effective_queries, mean_and_error
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import Allowance
from dranking.retrain.gate.false_discoveries import difference_e_value
from dranking.retrain.registry.ledger import Evidence, Kind

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NightTest:
    """The test of a challenger against the champion.

    Attributes
    ----------
    kind
        The test, as in `Allowance`.
    n_queries, n_effective
        Number of queries that count, and number of queries of equal weight that say as much.
    difference, error
        Mean difference, positive where the challenger is better, and its standard error.
    p_value
        One-sided p-value of Student's t-test; for e-LOND, 1 / e-value, at most 1.
    level
        Level of the test.
    better
        Whether the lower end of the interval at this level is above 0, or the e-value is at least
        1 / level.
    """

    kind: Kind
    n_queries: int
    n_effective: float
    difference: float
    error: float
    p_value: float
    level: float
    better: bool

    @property
    def evidence(self) -> Evidence:
        """The standard error, and the queries that it comes from."""
        return Evidence(self.error, self.n_queries, self.n_effective)


@dataclass(frozen=True)
class Found:
    """A test, and the rule of the gate that it stands for.

    Attributes
    ----------
    test
        The test.
    rule, value, limit, text
        The attributes of `dranking.retrain.gate.gate.Reason` with these names.
    """

    test: NightTest
    rule: str
    value: float
    limit: float
    text: str


def compare_at_level(
    rules: GateConfig, challenger: PerQuery, champion: PerQuery, sign: float, allowance: Allowance
) -> Found:
    """Test "the challenger is no better" at the level of an allowance.

    Parameters
    ----------
    rules
        The rules of the gate.
    challenger, champion
        Values of the gate's measure for the same queries.
    sign
        1 if larger values are better, else -1.
    allowance
        Level and kind of the test.
    """
    differences, weights = differences_of(challenger, champion, rules.metric)
    mean, error = mean_and_error(sign * differences, weights)
    n, n_effective, level = len(differences), effective_queries(weights), allowance.level
    if allowance.kind == "e-lond":
        e_value = difference_e_value(sign * differences, weights)
        needed = 1.0 / level
        test = NightTest(
            kind="e-lond",
            n_queries=n,
            n_effective=n_effective,
            difference=mean,
            error=error,
            p_value=min(1.0, 1.0 / e_value),
            level=level,
            better=e_value >= needed,
        )
        text = (
            f"e-value of the difference at level {level:.2g}: {e_value:.3g}, at least {needed:.3g}"
        )
        rule, value, limit = "false_discovery_rate", e_value, needed
    else:
        low = _lower_end(rules, challenger, champion, level, sign)
        p_value = student_p_value(mean, Evidence(error, n, n_effective))
        test = NightTest("t", n, n_effective, mean, error, p_value, level, bool(low > 0))
        end = f"{low:+.4f}" if level > 0 else "none"
        text = f"lower end of the difference at level {level:.2g}: {end}, above 0"
        rule, value, limit = "false_promotions_per_year", low, 0.0
    text = f"{text}; {allowance.after.text(test.evidence, rules.metric)}"
    return Found(test, rule, value, limit, text)


def student_p_value(mean: float, evidence: Evidence) -> float:
    """One-sided p-value of a mean difference, by Student's t: 1/2 for a mean of 0.

    If all differences are equal, the p-value is 0 for a mean above 0, and 1 otherwise: differences
    of 0, as between two equal models, say nothing against "no better".
    """
    if evidence.error == 0:
        return 0.0 if mean > 0 else 1.0
    return float(special.stdtr(evidence.degrees, -mean / evidence.error))


def differences_of(a: PerQuery, b: PerQuery, metric: str) -> tuple[Array, Array]:
    """Differences of a measure and weights of the queries that count for both."""
    differences = a.values[metric] - b.values[metric]
    weights = np.ones(len(differences)) if a.weights is None else a.weights
    counts = np.isfinite(differences) & (weights > 0)
    return differences[counts], weights[counts]


def resampling_of(rules: GateConfig) -> dict[str, Any]:
    """The keywords of `compare_rows` for the comparison with the champion."""
    return {"seed": rules.seed, "n_resamples": rules.resamples, "confidence": rules.confidence}


def _lower_end(
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
