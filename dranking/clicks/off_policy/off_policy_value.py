"""Means of the values of pages over queries, with intervals, and when there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.clicks.off_policy.off_policy import QueryValues
from dranking.clicks.propensities.propensities import Curve, Propensities
from dranking.errors import DataError
from dranking.metrics.comparison.significance import FEWEST_QUERIES, mean_and_error, mean_interval

Array = NDArray[np.float64]

LEAST_COVERED: Final = 0.5
"""Least covered share of the pages, by position, for a value."""

NORMAL_975: Final = 1.96


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
        Standard error of `lower`, with `propensity_error`.
    covered
        Share of the pages that is covered, by the values of positions and traffic.
    propensity_error
        What errors of harvested propensities add to the standard error, at most.
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
    (`dranking.metrics.comparison.significance.mean_interval`). The standard error of harvested
    propensities is added in squares: the sum over positions of the derivative times the error, in
    absolute values, which no dependence between positions exceeds.

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
    error = propensity_error(values.slopes / traffic.sum(), propensities)
    margin = float(special.ndtri(0.5 + confidence / 2)) * error
    return OffPolicyValue(
        name=name,
        lower=lower,
        upper=upper,
        interval=(
            lower - float(np.hypot(lower - low, margin)),
            upper + float(np.hypot(high - upper, margin)),
        ),
        standard_error=float(np.hypot(mean_and_error(values.lower, traffic)[1], error)),
        covered=covered,
        propensity_error=error,
        n_queries=n,
        n_sessions=round(float(traffic.sum())),
        n_missing_queries=round(float(values.missing[0])),
        n_missing_sessions=round(float(values.missing[1])),
    )


def propensity_error(slopes: Array, propensities: Propensities) -> float:
    """Most that errors of the propensities add to a value's standard error.

    Parameters
    ----------
    slopes
        (2, n_curves, n_positions) derivatives of the value with respect to log a_k and b_k.
    """
    total = 0.0
    for row, curve in enumerate(propensities.curves):
        of_a, of_b = _standard_errors(curve)
        total += float(np.abs(slopes[0, row, : len(of_a)]) @ of_a)
        total += float(np.abs(slopes[1, row, : len(of_b)]) @ of_b)
    return total


def _standard_errors(curve: Curve) -> tuple[Array, Array]:
    """Standard errors of log a_k and of b_k; 0 where the numbers were given."""
    of_a, of_b = np.zeros(len(curve.a)), np.zeros(len(curve.a))
    if curve.a_intervals is not None:
        low, high = np.array(curve.a_intervals).T
        of_a = (high - low) / (2.0 * NORMAL_975 * np.array(curve.a))
    if curve.b_intervals is not None:
        low, high = np.array(curve.b_intervals).T
        of_b = (high - low) / (2.0 * NORMAL_975)
    return of_a, of_b
