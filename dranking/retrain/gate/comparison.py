"""Rules about the difference of a challenger to the champion: the test, and every segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from dranking.errors import DataError
from dranking.metrics.comparison.significance import (
    degrees_of_freedom,
    effective_queries,
    mean_and_error,
)
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.bets import detectable, difference_e_value
from dranking.retrain.gate.budget import Allowance, GateTest, differences_of, price

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reason:
    """The result of one rule of the gate.

    Attributes
    ----------
    rule
        Name of the rule in the configuration.
    passed
        Whether the challenger passes the rule.
    value, limit
        The measured value, and the limit.
    text
        Value and limit in words.
    """

    rule: str
    passed: bool
    value: float
    limit: float
    text: str


def compared(
    rules: GateConfig,
    challenger: PerQuery,
    champion: PerQuery,
    sign: float,
    allowance: Allowance | None,
) -> tuple[list[Reason], GateTest | None]:
    """Rules about the difference to the champion over all queries, and its test if there is one.

    Parameters
    ----------
    rules
        The rules.
    challenger, champion
        Values of the gate's measure for the same queries.
    sign
        1 if larger values are better, else -1.
    allowance
        Level of the test; None if the budget asks for no test.

    Raises
    ------
    DataError
        If the queries differ, or a query weighs more than ``gate.max_query_weight``.
    """
    if not challenger.query_ids.equals(champion.query_ids):
        raise DataError("challenger and champion were not measured on the same queries.")
    check_weights(rules, challenger.query_ids, challenger.weights)
    differences, weights = differences_of(challenger, champion, rules.metric)
    mean = float(np.average(sign * differences, weights=weights))
    ours, theirs = (each.summary().metrics[rules.metric] for each in (challenger, champion))
    means = f"{rules.metric} {ours:.4f} against {theirs:.4f} of the champion"
    reasons, test = [], None
    if rules.minimum_effect > 0:
        reasons.append(at_least("minimum_effect", mean, rules.minimum_effect, means))
    if allowance is None:
        text = f"{means}; every {rules.every} one promotion may be false, so nothing is tested"
        reasons.append(Reason("false_promotions_per_year", True, mean, 0.0, text))
    elif not allowance.level:
        reasons.append(postponed(allowance, means))
    else:
        shares = weights / rules.max_query_weight
        test = _tested(rules, sign * differences, weights, allowance)
        costs = price(sign * differences, shares, test.level, rules.every, allowance.budget)
        reasons.append(_reason(test, allowance, means, costs))
    return reasons, test


def _tested(
    rules: GateConfig, differences: Array, weights: Array, allowance: Allowance
) -> GateTest:
    """The test of "the challenger is no better" by bets."""
    level = allowance.level
    mean, error = mean_and_error(differences, weights)
    n_effective, shares = effective_queries(weights), weights / rules.max_query_weight
    e_value = difference_e_value(differences, shares)
    return GateTest(
        day=allowance.next_day.isoformat(),
        kind="bets",
        every=rules.every,
        n_queries=len(differences),
        n_effective=n_effective,
        difference=mean,
        error=error,
        e_value=e_value,
        p_value=student_p_value(mean, error, n_effective),
        level=level,
        detectable=detectable(differences, shares, level),
        better=e_value >= 1.0 / level,
    )


def _reason(test: GateTest, allowance: Allowance, means: str, costs: str) -> Reason:
    """The rule that the e-value reaches 1 / level; means of both models and `price` are texts."""
    needed, e_value = 1.0 / test.level, test.e_value or 0.0
    text = (
        f"{means}: e-value {e_value:.3g}, at least {needed:.3g} ({allowance.text}); Student's "
        f"p-value is {test.p_value:.2g}, which decides nothing; {costs}"
    )
    return Reason("false_promotions_per_year", test.better, e_value, needed, text)


def postponed(allowance: Allowance, means: str) -> Reason:
    """The rule that no test can be taken today; `means` are those of both models, in words."""
    return Reason("every", False, 0.0, 0.0, f"{allowance.text}; {means}")


def student_p_value(mean: float, error: float, n_effective: float) -> float:
    """One-sided p-value of a mean difference, by Student's t: 1/2 for a mean of 0.

    If all differences are equal, the p-value is 0 for a mean above 0, and 1 otherwise: differences
    of 0, as between two equal models, say nothing against "no better".
    """
    if error == 0:
        return 0.0 if mean > 0 else 1.0
    return float(special.stdtr(degrees_of_freedom(n_effective), -mean / error))


def check_weights(rules: GateConfig, query_ids: pa.Array, weights: Array | None) -> None:
    """Raise DataError for a query that weighs more than the configuration allows.

    Parameters
    ----------
    rules
        The rules of the gate.
    query_ids, weights
        (n_queries,) ids and weights of judged queries; weights of None are ones.
    """
    weights = np.ones(len(query_ids)) if weights is None else weights
    heaviest = int(np.argmax(weights))
    if weights[heaviest] > rules.max_query_weight:
        raise DataError(
            f"query {query_ids[heaviest]} weighs {weights[heaviest]:g}, and "
            f"gate.max_query_weight is {rules.max_query_weight:g}; set the largest weight that any "
            "judged query can have, which must not depend on this sample."
        )


def by_segment(
    rules: GateConfig,
    challenger: PerQuery,
    champion: PerQuery,
    segments: pa.Array,
    sign: float,
) -> list[Reason]:
    """Rules about the mean difference in every segment with enough queries.

    Parameters
    ----------
    rules, challenger, champion, sign
        As in `compared`.
    segments
        (n_queries,) segment of every query, null for queries without segment.
    """
    ours, theirs = challenger.values[rules.metric], champion.values[rules.metric]
    differences = sign * (ours - theirs)
    limit = rules.max_segment_loss or 0.0
    labels = np.array(segments.to_pylist(), dtype=object)
    weights = np.ones(len(ours)) if challenger.weights is None else challenger.weights
    counts = np.isfinite(differences) & (weights > 0)
    reasons = []
    for segment in sorted({str(label) for label in labels if label is not None}):
        rows: NDArray[np.bool_] = (labels == segment) & counts
        if rows.sum() < rules.min_segment_queries:
            continue
        change = float(np.average(differences[rows], weights=weights[rows]))
        text = f"segment {segment}: change of {rules.metric} over {rows.sum()} queries"
        reasons.append(at_least("max_segment_loss", change, -limit, text))
    return reasons


def at_least(rule: str, value: float, limit: float, text: str) -> Reason:
    """The result of a rule about a smallest value."""
    words = f"{text}: {value:+.4f}, at least {limit:+.4f}"
    return Reason(rule, bool(value >= limit), float(value), float(limit), words)


def at_most(rule: str, value: float, limit: float, text: str) -> Reason:
    """The result of a rule about a largest value."""
    words = f"{text}, at most {limit:g}"
    return Reason(rule, bool(value <= limit), float(value), float(limit), words)
