"""Statistics of paired differences: an interval of their mean, and tests that the mean is 0.

All of them are about one statistic, the weighted mean m of n differences d_i with query weights
w_i. Interval and p-values divide it by one standard error e:

    m = sum w_i d_i / sum w_i,    e = sqrt(n / (n - 1) sum w_i^2 (d_i - m)^2) / sum w_i,

the linearised error of a ratio of means. With equal weights e is the sample standard deviation
over the root of n, and m / e is Student's t. The interval of `mean_test` leaves out 0 exactly where
its p-value is below 1 less the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

FEWEST_QUERIES = 20
"""Fewest queries whose interval is a ground for a decision; see the table of `mean_interval`."""

ROUNDING = 1e-12
"""Differences at most this far apart are equal, and have no spread."""

DRAWS_AT_ONCE = 1 << 20
"""Largest number of random draws in memory at the same time."""


class MeanTest(NamedTuple):
    """The interval of a weighted mean, and the p-value of the same statistic.

    Attributes
    ----------
    low, high
        Ends of the interval, as from `mean_interval`.
    p_value
        Two-sided p-value that the mean is 0: the larger of the shares of abs(t) that are at least
        abs(m / e), under Student's distribution and among the bootstrap samples. 1 where there is
        no interval.
    """

    low: float
    high: float
    p_value: float


def mean_interval(
    differences: Array,
    weights: Array,
    *,
    seed: int = 0,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Symmetric bootstrap-t interval of a weighted mean, never narrower than Student's.

    The interval is ``m -+ c e``. The factor c is the larger of two quantiles of abs(t): of the
    bootstrap samples, where t is the studentised distance of the sample's mean from m, and of
    Student's distribution with n - 1 degrees of freedom. Samples without spread have no t and are
    left out.

    Parameters
    ----------
    differences
        (n,) one value for each query, n >= 1.
    weights
        (n,) query weights above 0, drawn together with the differences.
    seed
        Seed of the draws.
    n_resamples
        Number of samples of n queries, drawn with replacement.
    confidence
        Coverage, between 0 and 1.

    Returns
    -------
    Lower and upper end. Both are NaN where the spread cannot be estimated: for one query, and for
    fewer than `FEWEST_QUERIES` equal differences. From `FEWEST_QUERIES` equal differences on, both
    are the mean.

    Notes
    -----
    Share of 2,000 samples of n differences whose 95 % interval contains the true mean, for this
    interval and for Student's (``python -m pipelines.reproduce.intervals``; three standard errors
    are .015 near .95; *tied* has 80 % zeros):

    =====  ===========  ===========  ============  ===========
    n      normal       skewed       discrete      tied
    =====  ===========  ===========  ============  ===========
    5      .972, .944   .924, .834   .911, .911    .601, .599
    10     .959, .950   .906, .854   .925, .912    .783, .762
    20     .960, .954   .925, .895   .932, .921    .907, .873
    50     .952, .948   .941, .914   .951, .944    .949, .933
    100    .951, .950   .947, .933   .946, .940    .948, .940
    200    .948, .947   .946, .938   .953, .947    .955, .949
    =====  ===========  ===========  ============  ===========

    No interval can hold for every distribution of few differences: of samples of ten with 80 % ties
    one in nine has no spread. `FEWEST_QUERIES` is the first n with .90 in every column.

    References
    ----------
    Hall, On symmetric bootstrap confidence intervals, Journal of the Royal Statistical Society B
    50, 1988. Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 12.
    """
    found = mean_test(
        differences, weights, seed=seed, n_resamples=n_resamples, confidence=confidence
    )
    return found.low, found.high


def mean_test(
    differences: Array,
    weights: Array,
    *,
    seed: int = 0,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> MeanTest:
    """The interval of `mean_interval`, and the p-value that belongs to it; arguments as there."""
    n = len(differences)
    mean, error = mean_and_error(differences, weights)
    if n == 1 or (error == 0.0 and n < FEWEST_QUERIES):
        return MeanTest(np.nan, np.nan, 1.0)
    if error == 0.0:
        return MeanTest(mean, mean, float(abs(mean) <= ROUNDING))
    t = np.sort(np.abs(_bootstrap_t(differences - mean, weights, seed, n_resamples)))
    factor = float(special.stdtrit(n - 1, 0.5 + confidence / 2))
    observed = abs(mean) / error
    p_value = float(2.0 * special.stdtr(n - 1, -observed))
    if len(t):
        # So many samples are at least as large as the factor that their share is not below alpha.
        n_beyond = math.ceil((1.0 - confidence) * len(t) * (1.0 - ROUNDING))
        factor = max(factor, float(t[-n_beyond]))
        p_value = max(p_value, float(np.mean(t >= observed)))
    return MeanTest(mean - factor * error, mean + factor * error, p_value)


def paired_t_test(differences: Array, weights: Array) -> float:
    """Two-sided p-value of Student's t-test that the weighted mean is 0.

    Parameters
    ----------
    differences, weights
        (n,) one value and one weight above 0 for each query, n >= 1.

    Returns
    -------
    The p-value: 1 if n is 1 or all differences are 0; 0 if all differences equal another number.
    """
    n = len(differences)
    mean, error = mean_and_error(differences, weights)
    if n == 1 or abs(mean) <= ROUNDING:
        return 1.0
    if error == 0.0:
        return 0.0
    return float(2.0 * special.stdtr(n - 1, -abs(mean) / error))


def sign_flip_test(
    differences: Array, weights: Array, *, seed: int = 0, n_resamples: int = 10_000
) -> float:
    """Two-sided p-value of the permutation test that the differences are symmetric around 0.

    Under this hypothesis every difference is as probable as its negative, so the size of the mean
    is compared with its size under other choices of signs. Of k differences that are not 0, all
    2^k choices are tried if they are at most `n_resamples`, and the p-value is exact; otherwise
    that many random choices are drawn, and the given signs count as one more.

    Parameters
    ----------
    differences, weights
        (n,) one value and one weight above 0 for each query, n >= 1.
    seed
        Seed of the draws.
    n_resamples
        Largest number of choices of signs.

    Returns
    -------
    The p-value: 1 if all differences are 0.

    References
    ----------
    Smucker, Allan and Carterette, A comparison of statistical significance tests for information
    retrieval evaluation, CIKM 2007, section 3.1.
    """
    products = (weights * differences)[np.abs(differences) > ROUNDING]
    n = len(products)
    # Other choices with the same sum in exact arithmetic count as equal, also where terms cancel.
    observed = abs(float(products.sum())) - ROUNDING * float(np.abs(products).sum())
    if 2**n <= n_resamples:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ products) >= observed))
    rng = np.random.default_rng(seed)
    as_large = 0
    for rows in _batches(n_resamples, n):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(rows, n), dtype=np.int8)
        as_large += int((np.abs(signs @ products) >= observed).sum())
    return (as_large + 1) / (n_resamples + 1)


def mean_and_error(differences: Array, weights: Array) -> tuple[float, float]:
    """The weighted mean, and its standard error: 0 for differences that are equal up to rounding.

    The error of one query is 0, too.
    """
    n, total = len(differences), float(weights.sum())
    mean = float((weights * differences).sum()) / total
    if np.ptp(differences) <= ROUNDING:
        return mean, 0.0
    spread = float(np.square(weights * (differences - mean)).sum())
    return mean, float(np.sqrt(n / (n - 1) * spread)) / total


def _bootstrap_t(centred: Array, weights: Array, seed: int, n_resamples: int) -> Array:
    """Studentised means of bootstrap samples with spread; `centred` has the weighted mean 0."""
    n = len(centred)
    rng = np.random.default_rng(seed)
    w, wd = weights, weights * centred
    columns = np.stack([w, wd, w * w, w * wd, wd * wd], axis=1)
    parts = []
    for rows in _batches(n_resamples, n):
        drawn = rng.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        total, first, w2, w2d, w2d2 = (counts @ columns).T
        mean = first / total
        spread = w2d2 - 2.0 * mean * w2d + mean * mean * w2
        some = spread > ROUNDING * w2d2
        parts.append(first[some] / np.sqrt(n / (n - 1) * spread[some]))
    return np.concatenate(parts)


def _batches(n_draws: int, size: int) -> Iterator[int]:
    """Numbers of samples of a size that are drawn at the same time."""
    rows = max(1, DRAWS_AT_ONCE // size)
    for start in range(0, n_draws, rows):
        yield min(rows, n_draws - start)


def holm(p_values: Array) -> Array:
    """P-values adjusted for the number of tests by Holm's step-down procedure.

    The i-th smallest of m p-values is multiplied by m - i + 1, raised to the adjusted value of the
    next smaller p-value if this value is larger, and cut at 1.

    Parameters
    ----------
    p_values
        (n_tests,) in [0, 1].

    Returns
    -------
    (n_tests,) adjusted p-values, in the order of `p_values`.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 1979.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
