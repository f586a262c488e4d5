"""The gate: the rules that a challenger must pass to become the champion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.errors import DataError
from dranking.metrics.comparison.compare import compare_rows
from dranking.metrics.comparison.significance import FEWEST_QUERIES, mean_and_error, queries_text
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import Allowance, chance_of_equal
from dranking.retrain.gate.night_level import (
    NightTest,
    compare_at_level,
    differences_of,
    resampling_of,
)
from dranking.retrain.registry.ledger import Evidence


@dataclass(frozen=True)
class Reason:
    """The result of one rule of the gate.

    Attributes
    ----------
    rule
        Name of the rule in the configuration; ``fewest_queries`` where there are too few queries
        for an interval, which ``false_promotions_per_year`` and ``lower_bound`` need.
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


@dataclass(frozen=True)
class Verdict:
    """The verdict of the gate.

    Attributes
    ----------
    accepted
        Whether the challenger passes all rules.
    reasons
        The result of every rule that applies.
    test
        The test to enter in the ledger. None if there was no test, or if a rule that chance cannot
        pass (``max_features``, ``max_drift``) has rejected the challenger.
    part
        Number, from 0, of the part of the judged queries that was judged on; None if all queries
        were.
    reported
        Best mean so far on the ladder; None without a ladder.
    statement
        A sentence: the decision and its level, the spent budget, and the difference that such tests
        find; empty without a test.
    """

    accepted: bool
    reasons: tuple[Reason, ...]
    test: NightTest | None = None
    part: int | None = None
    reported: float | None = None
    statement: str = ""


@dataclass(frozen=True)
class FeatureDrift:
    """Shift of a feature.

    Attributes
    ----------
    index
        Population stability index.
    limit
        Limit of the index. Chance alone takes some feature beyond its limit with the probability
        ``gate.drift_level``.
    """

    index: float
    limit: float


@dataclass(frozen=True)
class PartDrift:
    """Shifts of the features of a part since the champion's training data.

    Attributes
    ----------
    part
        Name of the part.
    n_before, n_after
        Numbers of queries of the champion's training data and of the part that were compared.
    features
        Shift of every feature, by name.
    """

    part: str
    n_before: int
    n_after: int
    features: dict[str, FeatureDrift]


def judge(
    rules: GateConfig,
    challenger: PerQuery,
    champion: PerQuery | None,
    *,
    n_features: int,
    segments: pa.Array | None = None,
    drift: Sequence[PartDrift] = (),
    allowance: Allowance | None = None,
) -> Verdict:
    """Judge a challenger by its measures on the queries held out.

    A comparison with a champion over fewer than `FEWEST_QUERIES` queries is refused: the interval
    of so few differences is no ground for a decision. Queries of different weights count as
    `effective_queries` counts them.

    Parameters
    ----------
    rules
        The rules.
    challenger, champion
        Values of the gate's metric for the same queries in the same order; None if there is no
        champion yet.
    n_features
        Number of features that the challenger uses.
    segments
        (n_queries,) segment of every query, null for queries without segment.
    drift
        Shifts of the features of every new part since the champion's training data.
    allowance
        Level of the test against the champion; None for a gate without a budget.

    Raises
    ------
    DataError
        If the queries of challenger and champion differ, or no query counts for the metric.
    """
    sign = 1.0 if higher_is_better(rules.metric) else -1.0
    mean = challenger.summary().metrics[rules.metric]
    if np.isnan(mean):
        raise DataError(
            f"no query held out counts for {rules.metric}, so nothing can be judged; data.holdout "
            "needs queries with relevant and other documents."
        )
    reasons: list[Reason] = []
    test = None
    if rules.minimum_score is not None:
        reasons.append(_absolute(rules.metric, mean, rules.minimum_score, sign))
    if champion is not None:
        found, test = _against(rules, challenger, champion, sign, allowance)
        reasons += found
        if rules.max_segment_loss is not None and segments is not None:
            reasons += _by_segment(rules, challenger, champion, segments, sign)
    return verdict_of(rules, reasons, test, n_features, drift)


def verdict_of(
    rules: GateConfig,
    reasons: Sequence[Reason],
    test: NightTest | None,
    n_features: int,
    drift: Sequence[PartDrift],
) -> Verdict:
    """The verdict from the rules about measures, and the rules about model and features.

    Parameters
    ----------
    rules
        The rules.
    reasons, test
        Results of the rules about measures, and the test among them if there is one.
    n_features, drift
        As in `judge`.
    """
    others = []
    if rules.max_features is not None:
        others.append(
            at_most("max_features", n_features, rules.max_features, f"{n_features} features")
        )
    if rules.max_drift is not None and drift:
        others.append(_drift(drift, rules.max_drift))
    # A challenger that other rules reject cannot be promoted by chance: its test spends nothing.
    counts = all(reason.passed for reason in others)
    found = (*reasons, *others)
    return Verdict(all(reason.passed for reason in found), found, test if counts else None)


def _against(
    rules: GateConfig,
    challenger: PerQuery,
    champion: PerQuery,
    sign: float,
    allowance: Allowance | None,
) -> tuple[list[Reason], NightTest | None]:
    """Rules about the difference to the champion over all queries, and its test if there is one."""
    if not challenger.query_ids.equals(champion.query_ids):
        raise DataError("challenger and champion were not measured on the same queries.")
    found = compare_rows(challenger, champion, **resampling_of(rules))[rules.metric]
    effect = f"{rules.metric} {found.mean_a:.4f} against {found.mean_b:.4f} of the champion"
    reasons = [at_least("minimum_effect", sign * found.difference, rules.minimum_effect, effect)]
    if found.n_effective < FEWEST_QUERIES:
        queries = queries_text(found.n_queries, found.n_effective)
        text = (
            f"{queries} count for {rules.metric}; an interval that decides needs at least "
            f"{FEWEST_QUERIES}"
        )
        few = Reason("fewest_queries", False, found.n_effective, float(FEWEST_QUERIES), text)
        return [*reasons, few], None
    if rules.lower_bound is not None:
        worst = found.low if sign > 0 else -found.high
        text = f"lower end of the {rules.confidence:.0%} interval of the difference"
        _, error = mean_and_error(*differences_of(challenger, champion, rules.metric))
        evidence = Evidence(error, found.n_queries, found.n_effective)
        if (by_chance := chance_of_equal(rules, evidence)) is not None:
            text += f" (an equal challenger passes with probability {by_chance:.2g})"
        reasons.append(at_least("lower_bound", worst, rules.lower_bound, text))
    if allowance is None:
        return reasons, None
    tested = compare_at_level(rules, challenger, champion, sign, allowance)
    passed = tested.test.better
    reasons.append(Reason(tested.rule, passed, tested.value, tested.limit, tested.text))
    return reasons, tested.test


def _by_segment(
    rules: GateConfig,
    challenger: PerQuery,
    champion: PerQuery,
    segments: pa.Array,
    sign: float,
) -> list[Reason]:
    """Rules about the mean difference in every segment with enough queries."""
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


def _drift(parts: Sequence[PartDrift], tolerated: float) -> Reason:
    """Rule about the feature whose shift is farthest beyond chance and the tolerated shift."""
    shifts = ((part, name, shift) for part in parts for name, shift in part.features.items())
    part, name, shift = max(shifts, key=lambda each: each[2].index / max(each[2].limit, tolerated))
    text = (
        f"population stability index {shift.index:.3f} of feature {name} in {part.part} "
        f"({part.n_after} queries against {part.n_before}; by chance up to {shift.limit:.3f})"
    )
    if (needed := _queries_needed(part, tolerated)) is not None:
        text += f"; too few queries to see a shift of {tolerated:g}: {needed}"
    return at_most("max_drift", shift.index, max(shift.limit, tolerated), text)


def _queries_needed(part: PartDrift, tolerated: float) -> str | None:
    """In words, the number of queries that would show a shift of the tolerated size.

    None if there are enough queries. The limit of a typical feature is taken to be proportional to
    1 / n_before + 1 / n_after, like the index that chance gives.
    """
    limit = float(np.median([shift.limit for shift in part.features.values()]))
    if limit <= tolerated:
        return None
    noise = 1 / part.n_before + 1 / part.n_after
    left = noise * tolerated / limit - 1 / part.n_before
    if left <= 0:
        return f"the champion's training data needs more than {part.n_before}"
    return f"about {int(np.ceil(1 / left))} are needed"


def _absolute(metric: str, mean: float, limit: float, sign: float) -> Reason:
    """Rule about the mean itself; for a measure of error the limit is the largest mean."""
    if sign > 0:
        return at_least("minimum_score", mean, limit, f"mean {metric}")
    return at_most("minimum_score", mean, limit, f"mean {metric} {mean:.4f}")


def at_least(rule: str, value: float, limit: float, text: str) -> Reason:
    """The result of a rule about a smallest value."""
    words = f"{text}: {value:+.4f}, at least {limit:+.4f}"
    return Reason(rule, bool(value >= limit), float(value), float(limit), words)


def at_most(rule: str, value: float, limit: float, text: str) -> Reason:
    """The result of a rule about a largest value."""
    words = f"{text}, at most {limit:g}"
    return Reason(rule, bool(value <= limit), float(value), float(limit), words)
