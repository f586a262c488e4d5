"""The test of a challenger by the final capital of bets, and what the test costs in queries.

Differences d_1, ..., d_n of a measure in [0, 1] lie in [-1, 1]. A gambler begins with 1 and bets a
share b of the capital on every difference being above 0, and ends with the capital

    e = mean over b of prod_i (1 + b d_i w_i / w_max)

(`dranking.metrics.comparison.confidence_sequences.mean_e_value`; w_i are query weights, at most
w_max). If the queries are independent and the mean of w_i d_i is 0 or less, each factor has a mean
of at most 1, and so has e: by Markov's inequality e reaches 1 / level with a probability of at most
the level. Nothing is assumed about the distribution or the number of queries, and their order does
not matter. The bound w_max comes from the configuration: the largest weight of the sample depends
on the differences, and the mean of e would exceed 1.

No test that is valid for all these distributions does much better. Let a test of level a find an
improvement by d with power p on n queries. Mix that distribution with losses of 1, of probability
d / (1 + d), so that the mean is 0: a sample has no such loss with probability (1 + d)^-n, and so
p (1 + d)^-n <= a. Therefore n >= ln(p / a) / ln(1 + d), which is `fewest_queries`.

References
----------
Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024,
arXiv 2010.09686. Bahadur and Savage, The nonexistence of certain statistical procedures in
nonparametric problems, Annals of Mathematical Statistics 27, 1956.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.metrics.comparison.confidence_sequences import BETS, mean_e_value
from dranking.metrics.comparison.significance import ROUNDING

Array = NDArray[np.float64]

POWER: Final = 0.8
"""Power at which improvements and numbers of queries are stated."""

MOST_QUERIES: Final = 1e9


def difference_e_value(differences: Array, shares: Array) -> float:
    """e-value against "the weighted mean of the differences is at most 0".

    Parameters
    ----------
    differences
        (n_queries,) in [-1, 1].
    shares
        (n_queries,) query weights, each divided by the largest weight that is allowed.

    Raises
    ------
    DataError
        If a difference or a share is larger than 1.
    """
    bets = differences * shares
    rounded = np.where(np.abs(bets) <= 1.0 + ROUNDING, np.clip(bets, -1.0, 1.0), bets)
    return mean_e_value((rounded + 1.0) / 2.0, 0.5)


def fewest_queries(improvement: float, level: float, power: float = POWER) -> int:
    """Number of queries below which no test finds an improvement, if it is valid for everything.

    Examples
    --------
    >>> [fewest_queries(0.01, 0.5 / tests) for tests in (365, 12, 4)]
    [641, 297, 187]
    """
    return max(1, math.ceil(math.log(power / level) / math.log1p(improvement)))


def detectable(differences: Array, shares: Array, level: float) -> float | None:
    """Improvement of the mean that bets find with `POWER`, as precise as `queries_needed`.

    Parameters
    ----------
    differences, shares
        As in `difference_e_value`: future differences are spread like these.
    level
        Level of the test, above 0.

    Returns
    -------
    The improvement; None if these queries would not even find an improvement by 1.
    """
    n = len(differences)
    low, high = 0.0, 1.0
    if not _finds(_moments(differences, shares, high), n, level):
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if _finds(_moments(differences, shares, middle), n, level):
            high = middle
        else:
            low = middle
    return high


def queries_needed(
    differences: Array, shares: Array, level: float, improvement: float
) -> int | None:
    """Number of queries with which bets find an improvement with `POWER`, approximately.

    The logarithm of the capital of every bet is taken to be normal, and all of them to be small
    together. Parameters are as in `detectable`; None stands for more than `MOST_QUERIES`.
    """
    moments = _moments(differences, shares, improvement)
    low, high = 1.0, MOST_QUERIES
    if not _finds(moments, high, level):
        return None
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        if _finds(moments, middle, level):
            high = middle
        else:
            low = middle
    return math.ceil(high)


def _moments(differences: Array, shares: Array, improvement: float) -> tuple[Array, Array]:
    """(n_bets,) means and variances of the log gain by a query, if the mean is `improvement`."""
    mean = np.average(differences, weights=shares)
    moved = np.clip(differences - mean + improvement, -1.0, 1.0) * shares
    gains = np.log1p(np.outer(BETS, moved))
    return gains.mean(axis=1), gains.var(axis=1)


def _finds(moments: tuple[Array, Array], n_queries: float, level: float) -> bool:
    """Whether the capital reaches 1 / level with `POWER`."""
    means, variances = moments
    unlucky = n_queries * means - special.ndtri(POWER) * np.sqrt(n_queries * variances)
    return bool(special.logsumexp(unlucky) - math.log(len(BETS)) >= -math.log(level))
