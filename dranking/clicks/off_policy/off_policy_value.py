"""Means of the values of pages over queries, with intervals, and when there is none."""

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
from dranking.metrics.comparison.significance import FEWEST_QUERIES, mean_and_error, mean_interval

LEAST_COVERED: Final = 0.5
"""Least covered share of the pages, by position, for a value."""


@dataclass(frozen=True)
class OffPolicyValue:
    """The mean value of a ranker's pages, or the difference of two, over the log's traffic.

    Attributes
    ----------
    name
        Such as ``clicks@10``.
    lower, upper
        Mean with relevance 0 and with relevance 1 for what is not covered; equal where everything
        is covered.
    interval
        95 % interval of the mean (or of another confidence, if asked for), which holds whatever the
        relevance of what is not covered.
    standard_error
        Standard error of `lower`, with `propensity_error` and `user_error`.
    covered
        Share of the pages that is covered, by the values of positions and traffic.
    propensity_error
        What errors of harvested propensities add to the standard error, in squares.
    user_error
        What users who come back with other queries add to it, in squares; 0 where users are not
        counted.
    n_queries, n_sessions
        Queries with clicks and a page, and their sessions.
    n_missing_queries, n_missing_sessions
        Queries with clicks that have no page in the data, and their sessions.
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
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 10_000,
) -> OffPolicyValue:
    """The mean over queries, weighted by traffic, with an interval.

    The interval resamples queries, each with the clicks on its pages
    (`dranking.metrics.comparison.significance.mean_interval`). What that lacks is added in squares:
    errors of harvested propensities, and users who come back with other queries
    (`dranking.clicks.off_policy.value_errors`).

    Parameters
    ----------
    name
        Name of the reward.
    least_covered
        Covered share of the pages below which there is no value.
    confidence
        Coverage of the interval, between 0 and 1.
    seed, n_resamples
        Of the resampling.

    Raises
    ------
    DataError
        If fewer than `FEWEST_QUERIES` queries have clicks and a page, or too little is covered.
    """
    n = len(values.lower)
    if n < FEWEST_QUERIES:
        raise DataError(
            f"{n} queries of the clicks have documents in the data, and {values.missing[0]:.0f} "
            f"have none; at least {FEWEST_QUERIES} are needed for an interval. Are the ids of "
            "queries those of the clicks?"
        )
    total = float(values.traffic @ values.total)
    covered = float(values.traffic @ values.covered) / total if total > 0.0 else 1.0
    if covered < least_covered:
        raise DataError(
            f"{name}: only {covered:.0%} of the pages are covered by documents that users were "
            f"shown, and {least_covered:.0%} are needed: these clicks say too little about this "
            "ranker. Show its documents to some users: by interleaving, or by exploration."
        )
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
        n_queries=n,
        n_sessions=round(float(traffic.sum())),
        n_missing_queries=round(float(values.missing[0])),
        n_missing_sessions=round(float(values.missing[1])),
    )
