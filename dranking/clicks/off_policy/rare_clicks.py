"""The lower end of a mean value that holds for rare clicks, too.

Let T V be the sum over queries of traffic times value, and w_d what one more click on document d
adds to it. A click at a position that users seldom look at stands for many, so that few clicks with
a large w_d make V, and where by chance there are none, neither Student's interval nor the bootstrap
knows of them. But given what was shown, clicks of the position-based model are independent: the
number of clicks C_d is a sum of independent zeros and ones with the mean a_d r_d + b_d, with a_d
the expected examinations and b_d the clicks by trust. So for every bet l > 0 with l w_d > -1

    E prod_d (1 + l w_d)^C_d <= exp(l sum_d w_d (a_d r_d + b_d)),

since a factor of one impression has the mean 1 + l w_d p <= exp(l w_d p). The capital

    e(m) = mean over l of exp(sum_d (C_d log(1 + l w_d) - l w_d b_d) + l c - l T m)

has a mean of at most 1 if the mean value is m or less; c is the part of T V that no click enters.
By Markov's inequality the m with e(m) = 1 / level lies above the mean value with a probability of
at most the level: whatever the relevances are, and however rare the clicks. In the term of a bet
that a click on d would leave less than a tenth, d counts as relevant: a_d w_d takes the place of
its clicks. Bets and such documents are chosen by impressions, never by clicks.

The other errors are those of propensities, of users who come back, and of the queries, whose values
differ. Their variance is that of the mean less that of independent clicks, sum_d w_d^2 C_d / T^2,
and its share of the variance, times the whole squared width of the interval at the level, is added
to the square of that of the bets. The spread of queries does not know of few good queries that the
log lacks by chance, and neither does this lower end.

References
----------
Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024,
arXiv 2010.09686. Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, Anytime-valid off-policy
inference for contextual bandits, 2022, arXiv 2210.10768.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.off_policy.off_policy import QueryValues
from dranking.clicks.off_policy.off_policy_value import OffPolicyValue
from dranking.metrics.comparison.confidence_sequences import BETS, roots_of_mixture

Array = NDArray[np.float64]

_LEAST_KEPT = 0.1 - 1e-9
"""Least share of the capital that a click leaves, as of bets on judged queries: a tenth, or so."""


def lower_end(values: QueryValues, found: OffPolicyValue, level: float) -> float:
    """One-sided lower end of the mean of `QueryValues.lower`.

    Parameters
    ----------
    values
        The values of pages, or their differences.
    found
        Their mean, with an interval of the confidence 1 - 2 level.
    level
        Probability with which the end lies above the mean value, at most.
    """
    per_click, clicks = values.per_click, values.clicks
    total, traffic = float(values.traffic @ values.lower), float(values.traffic.sum())
    end = end_of_bets(
        per_click,
        clicks,
        values.by_trust,
        values.examined,
        total - float(per_click @ (clicks - values.by_trust)),
        traffic,
        level,
    )
    variance = float(np.square(per_click) @ clicks) / traffic**2
    margin = found.lower - found.interval[0]
    return float(widened(found.lower, float(end), margin, found.standard_error**2, variance))


def end_of_bets(
    per_click: Array,
    clicks: NDArray[np.int64],
    by_trust: Array,
    examined: Array,
    constant: float,
    traffic: float,
    level: float,
) -> Array:
    """The mean value m with e(m) = 1 / level, for one or more sets of clicks.

    Parameters
    ----------
    per_click, by_trust, examined
        (n_documents,) as in `QueryValues`.
    clicks
        (n_documents,) or (n_samples, n_documents) clicks.
    constant, traffic
        Part of the traffic times the mean value that no click enters, and the traffic.
    level
        Probability with which the end lies above the mean value, at most.

    Returns
    -------
    float64, of the shape (n_samples,) or ().
    """
    gains = []
    for bet in BETS:
        kept = 1.0 + bet * per_click >= _LEAST_KEPT
        logs = np.log1p(np.where(kept, bet * per_click, 0.0))
        known = per_click @ np.where(kept, -by_trust, examined) + constant
        gains.append(clicks @ logs + bet * known)
    stacked = np.stack(gains, axis=-1)
    rows = stacked.reshape(-1, len(BETS))
    sums = np.stack([rows, np.broadcast_to(BETS * traffic, rows.shape), np.zeros(rows.shape)])
    return roots_of_mixture(sums, level).reshape(stacked.shape[:-1])


def widened(
    mean: float | Array,
    end: float | Array,
    margin: float | Array,
    variance: float | Array,
    of_clicks: float | Array,
) -> Array:
    """The lower end of the bets, with the other errors added in squares; elementwise.

    Parameters
    ----------
    mean, end
        Means, and their lower ends by bets.
    margin, variance
        Distances of the means from their lower ends by intervals, and variances of the means.
    of_clicks
        Parts of the variances that are those of independent clicks.
    """
    share = of_clicks / np.maximum(variance, np.finfo(np.float64).tiny)
    others = np.sqrt(np.maximum(1.0 - share, 0.0)) * margin
    found: Array = mean - np.hypot(np.maximum(mean - end, 0.0), others)
    return found
