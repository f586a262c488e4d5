"""The gate: the rules that a challenger must pass to become the champion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from dranking.errors import DataError
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import Allowance, GateTest, statement_of
from dranking.retrain.gate.comparison import Reason, at_least, at_most, by_segment, compared


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
    statement
        A sentence: the decision and its level, the spent budget, and the improvement that such
        tests find; or the day of the next test. Empty without a champion.
    next_test
        Day from which on the challenger can be tested, in ISO form; None unless the challenger
        passes all other rules, and no test can be taken today.
    """

    accepted: bool
    reasons: tuple[Reason, ...]
    test: GateTest | None = None
    statement: str = ""
    next_test: str | None = None

    @property
    def decision(self) -> Literal["accepted", "rejected", "postponed"]:
        """The decision in a word: accepted, rejected, or postponed to the next test."""
        if self.accepted:
            return "accepted"
        return "rejected" if self.next_test is None else "postponed"

    def largest_shift(self, drift: Sequence[PartDrift]) -> tuple[float | None, float | None]:
        """Index of the feature that has shifted most, and its limit; None if there is none.

        With the rule ``max_drift``, it is the shift that is farthest beyond its own limit.
        """
        for reason in self.reasons:
            if reason.rule == "max_drift":
                return reason.value, reason.limit
        shifts = [shift.index for part in drift for shift in part.features.values()]
        return max(shifts, default=None), None


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
        Level of the test against the champion; None if the budget asks for no test.

    Raises
    ------
    DataError
        If the queries of challenger and champion differ, no query counts for the metric, or a query
        weighs more than ``gate.max_query_weight``.
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
        found, test = compared(rules, challenger, champion, sign, allowance)
        reasons += found
        if rules.max_segment_loss is not None and segments is not None:
            reasons += by_segment(rules, challenger, champion, segments, sign)
    if champion is None:
        allowance = None
    return verdict_of(rules, reasons, test, n_features, drift, allowance)


def verdict_of(
    rules: GateConfig,
    reasons: Sequence[Reason],
    test: GateTest | None,
    n_features: int,
    drift: Sequence[PartDrift],
    allowance: Allowance | None,
    metric: str | None = None,
) -> Verdict:
    """The verdict from the rules about measures, and the rules about model and features.

    Parameters
    ----------
    rules
        The rules.
    reasons, test
        Results of the rules about measures, and the test among them if there is one.
    n_features, drift, allowance
        As in `judge`; without a champion there is no allowance.
    metric
        The measure of the test; None for that of the rules.
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
    accepted = all(reason.passed for reason in found)
    if allowance is None:
        return Verdict(accepted, found)
    if not allowance.level:
        waits = all(reason.passed for reason in found if reason.rule != "every")
        next_test = allowance.next_day.isoformat() if waits else None
        return Verdict(False, found, None, allowance.text, next_test)
    if test is None or not counts:
        return Verdict(accepted, found)
    share = (allowance.spent + test.level) / allowance.budget
    said = statement_of(test, metric or rules.metric, accepted, share)
    return Verdict(accepted, found, test, said)


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
