"""Means of the values of pages over queries, with intervals, unless too little is covered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import special

from dranking.clicks.off_policy.off_policy import QueryValues
from dranking.clicks.off_policy.value_errors import propensity_variance, user_variance
from dranking.clicks.propensities.propensities import Propensities
from dranking.errors import DataError
from dranking.metrics.comparison.significance import (
    FEWEST_QUERIES,
    effective_queries,
    mean_and_error,
    mean_interval,
    queries_text,
)

LEAST_COVERED: Final = 0.5
"""Least share of the pages, weighted by the values of positions, that must be covered for a
value."""


MOST_MISSING: Final = 0.2
"""Largest share of the sessions whose queries the data may lack, for a value."""


@dataclass(frozen=True)
class OffPolicyValue:
    """The mean value of a ranker's pages, or the difference of two, over the log's traffic.

    Attributes
    ----------
    name
        Name of the reward, such as ``clicks@10``.
    lower, upper
        Means if documents that are not covered have relevance 0, and relevance 1; equal if all
        documents are covered.
    interval
        Interval of the mean, of 95 % unless another confidence was asked for; it holds for any
        relevance of the documents that are not covered.
    standard_error
        Standard error of `lower`, with `propensity_error` and `user_error`.
    covered
        Share of the pages that is covered, weighted by traffic and by the values of positions.
    propensity_error
        Part of the standard error from errors of harvested propensities; parts add in squares.
    user_error
        Part of the standard error from users who come back with other queries; parts add in
        squares. 0 where users are not counted.
    n_queries, n_sessions
        Number of queries with clicks and a page, and of their sessions.
    n_effective
        Number of queries of equal traffic that say as much as these
        (`dranking.metrics.comparison.significance.effective_queries`).
    n_missing_queries, n_missing_sessions
        Number of queries with clicks that have no page in the data, and of their sessions.
    """

    name: str
    lower: float
    upper: float
    interval: tuple[float, float]
    standard_error: float
    covered: float
    propensity_error: float
    user_error: float
    n_queries: int
    n_sessions: int
    n_effective: float
    n_missing_queries: int
    n_missing_sessions: int

    def as_json(self) -> dict[str, Any]:
        """The figures, for JSON."""
        return {**self.__dict__, "interval": list(self.interval)}


def off_policy_value(
    values: QueryValues,
    propensities: Propensities,
    name: str,
    *,
    least_covered: float = LEAST_COVERED,
    max_missing: float = MOST_MISSING,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 10_000,
) -> OffPolicyValue:
    """The mean over queries, weighted by traffic, with an interval.

    The interval resamples queries, each with the clicks on its pages
    (`dranking.metrics.comparison.significance.mean_interval`). Two errors are added in squares:
    that of harvested propensities, and that of users who come back with other queries
    (`dranking.clicks.off_policy.value_errors`).

    Parameters
    ----------
    name
        Name of the reward.
    least_covered
        Least covered share of the pages; a ranker whose pages are covered less has no value.
    max_missing
        Share of the sessions with queries that have no page, above which there is no value: it
        would be one of other queries than those that users ask.
    confidence
        Coverage of the interval, between 0 and 1.
    seed, n_resamples
        Seed of the resampling, and number of resamples.

    Raises
    ------
    DataError
        If fewer than `FEWEST_QUERIES` queries have clicks and a page, or `n_effective` of these
        queries is below that number; if too many sessions are of queries without a page, or too
        little is covered.
    """
    n_effective = _effective_queries(values, name, max_missing)
    covered = _covered_share(values, name, least_covered)
    traffic = values.traffic
    lower, upper = (float(traffic @ each / traffic.sum()) for each in (values.lower, values.upper))
    how: dict[str, Any] = {"seed": seed, "n_resamples": n_resamples, "confidence": confidence}
    low, high = mean_interval(values.lower, traffic, **how)
    if not np.array_equal(values.lower, values.upper):  # something is not covered
        _, high = mean_interval(values.upper, traffic, **how)
    added = np.array(
        [
            (propensity_variance(values, end, propensities), user_variance(values, ends))
            for end, ends in enumerate((values.lower, values.upper))
        ]
    )
    margins = float(special.ndtri(0.5 + confidence / 2)) * np.sqrt(added.sum(axis=1))
    return OffPolicyValue(
        name=name,
        lower=lower,
        upper=upper,
        interval=(
            lower - float(np.hypot(lower - low, margins[0])),
            upper + float(np.hypot(high - upper, margins[1])),
        ),
        standard_error=math.sqrt(mean_and_error(values.lower, traffic)[1] ** 2 + added[0].sum()),
        covered=covered,
        propensity_error=math.sqrt(added[0, 0]),
        user_error=math.sqrt(added[0, 1]),
        n_queries=len(traffic),
        n_sessions=round(float(traffic.sum())),
        n_effective=n_effective,
        n_missing_queries=round(float(values.missing[0])),
        n_missing_sessions=round(float(values.missing[1])),
    )


def _effective_queries(values: QueryValues, name: str, max_missing: float) -> float:
    """The effective number of the queries; DataError where they are no ground for an interval."""
    n = len(values.lower)
    n_missing, missing_sessions = (float(each) for each in values.missing)
    if n < FEWEST_QUERIES:
        raise DataError(
            f"{n} queries of the clicks have documents in the data, and {n_missing:.0f} have none; "
            f"at least {FEWEST_QUERIES} are needed for an interval. Are the ids of queries those "
            "of the clicks?"
        )
    share = missing_sessions / (missing_sessions + float(values.traffic.sum()))
    if share > max_missing:
        raise DataError(
            f"{name}: {share:.0%} of the sessions with clicks are of queries that the data lacks "
            f"({n_missing:,.0f} of {n_missing + n:,.0f} queries), and {max_missing:.0%} may be: "
            "the value would be one of other queries than those that users ask. Compare the ids of "
            "queries, give the documents of the others, or, for queries that were held out on "
            "purpose, allow more with --max-missing (for retrain clicks.max_missing)."
        )
    n_effective = effective_queries(values.traffic)
    if n_effective < FEWEST_QUERIES:
        raise DataError(
            f"{name}: {queries_text(n, n_effective)}, by the sessions of each, have clicks and "
            f"documents; at least {FEWEST_QUERIES} equal ones are needed for an interval. Most of "
            "the sessions are of few queries: give clicks of more queries."
        )
    return n_effective


def _covered_share(values: QueryValues, name: str, least_covered: float) -> float:
    """The covered share of the pages; DataError where it is too small for a value."""
    total = float(values.traffic @ values.total)
    covered = float(values.traffic @ values.covered) / total if total > 0.0 else 1.0
    if covered < least_covered:
        raise DataError(
            f"{name}: only {covered:.0%} of the pages are covered by documents that users were "
            f"shown, and {least_covered:.0%} are needed: these clicks say too little about this "
            "ranker. Show its documents to some users: by interleaving, or by exploration."
        )
    return covered
