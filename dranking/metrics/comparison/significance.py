"""Statistics of paired differences: an interval of their mean, and tests that the mean is 0.

All of them are about one statistic, the weighted mean m of n differences d_i with query weights
w_i. Interval and p-values divide it by one standard error e:

    m = sum w_i d_i / W,    e = sqrt((n - 1) / n sum (w_i (d_i - m) / (W - w_i))^2),    W = sum w_i,

the jackknife error: leaving query i out moves the mean by w_i (m - d_i) / (W - w_i). With equal
weights e is the sample standard deviation over the root of n, and m / e is Student's t. The
linearised error, which has W in place of W - w_i, is almost 0 where one query has nearly all of the
weight: d_i is then close to m because it decides m. Student's t has `degrees_of_freedom`: n - 1
for equal weights. The interval of `mean_test` leaves out 0 exactly where its p-value is below 1
less the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.metrics.measures.by_name import value_range

Array = NDArray[np.float64]

FEWEST_QUERIES = 20
"""Fewest queries whose interval is a ground for a decision; see the table of `mean_interval`."""

ENOUGH_QUERIES, MOST_SKEWED = 2_000, 0.005
"""Effective queries from which on, and squared skewness of the mean up to which, no samples are
drawn: Student's quantile is then that of the bootstrap to 1 %."""

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
    Student's distribution with `degrees_of_freedom`. Samples without spread have no t and are left
    out. From `ENOUGH_QUERIES` effective queries on, no samples are drawn of differences whose mean
    has a squared skewness of at most `MOST_SKEWED`: the two quantiles agree to 1 %.

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
    5      .972, .944   .925, .834   .911, .911    .601, .599
    10     .961, .950   .907, .854   .925, .912    .783, .762
    20     .961, .954   .926, .895   .934, .921    .907, .873
    50     .952, .948   .942, .914   .953, .944    .949, .933
    100    .952, .950   .948, .933   .946, .940    .950, .940
    200    .948, .947   .946, .938   .953, .947    .956, .949
    =====  ===========  ===========  ============  ===========

    No interval can hold for every distribution of few differences: of samples of ten with 80 % ties
    one in nine has no spread. `FEWEST_QUERIES` is the first n with .90 in every column.

    The same for this interval and queries of different weights: *ranks* 1 / i for query i,
    *lognormal* exponentials of Gaussians of deviation 1, *one* with a query that weighs as much as
    1,000 others:

    =========  =======  =========  ========  ========  ========  ========
    weights    n        effective  normal    skewed    discrete  tied
    =========  =======  =========  ========  ========  ========  ========
    ranks      20       8.1        .957      .892      .931      .864
    ranks      50       12.5       .963      .890      .944      .903
    ranks      100      16.5       .961      .896      .940      .889
    ranks      200      21.1       .970      .908      .940      .871
    lognormal  20       10.3       .963      .897      .936      .870
    lognormal  50       22.8       .952      .900      .935      .921
    lognormal  100      42.3       .962      .913      .941      .932
    lognormal  200      80.9       .956      .931      .943      .933
    one        20       1.0        .993      .988      .990      .950
    one        50       1.1        .994      .997      .996      .971
    one        100      1.2        1.000     .996      1.000     .987
    one        200      1.4        .999      1.000     1.000     .998
    =========  =======  =========  ========  ========  ========  ========

    References
    ----------
    Hall, On symmetric bootstrap confidence intervals, Journal of the Royal Statistical Society B
    50, 1988. Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 12.
    """
    found = mean_test(
        differences, weights, seed=seed, n_resamples=n_resamples, confidence=confidence
    )
    return found.low, found.high


def measure_interval(
    measure: str, values: Array, weights: Array, **how: Any
) -> tuple[float, float]:
    """The `mean_interval` of a named measure, cut to its range by `cut_to_range`."""
    return cut_to_range(measure, values, *mean_interval(values, weights, **how))


def cut_to_range(measure: str, values: Array, low: float, high: float) -> tuple[float, float]:
    """The ends of an interval, cut to the range of a named measure if all values lie there."""
    least, largest = value_range(measure)
    if values.min() < least or values.max() > largest:
        return low, high
    return float(np.maximum(low, least)), float(np.minimum(high, largest))


def mean_test(differences: Array, weights: Array, **how: Any) -> MeanTest:
    """The interval of `mean_interval`, and the p-value that belongs to it; arguments as there."""
    return mean_tests(differences[:, None], weights, **how)[0]


def mean_tests(
    differences: Array,
    weights: Array,
    *,
    seed: int = 0,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> list[MeanTest]:
    """`mean_test` of each column of (n, n_tests) differences, with the same bootstrap samples."""
    n, n_effective = len(differences), effective_queries(weights)
    moments = [mean_and_error(column, weights) for column in differences.T]
    sampled = [
        test
        for test, (_, error) in enumerate(moments)
        if error > 0.0
        and (
            n_effective < ENOUGH_QUERIES
            or _squared_skewness(differences[:, test], weights) > MOST_SKEWED
        )
    ]
    centred = differences[:, sampled] - np.array([moments[test][0] for test in sampled])
    samples = dict(zip(sampled, _bootstrap_t(centred, weights, seed, n_resamples), strict=True))
    return [
        _mean_test(*found, n, n_effective, samples.get(test, np.empty(0)), confidence)
        for test, found in enumerate(moments)
    ]


def _mean_test(
    mean: float, error: float, n: int, n_effective: float, t: Array, confidence: float
) -> MeanTest:
    """Interval and p-value of a mean, from its error and its bootstrap samples of t, if any."""
    if n == 1 or (error == 0.0 and n < FEWEST_QUERIES):
        return MeanTest(np.nan, np.nan, 1.0)
    if error == 0.0:
        return MeanTest(mean, mean, float(abs(mean) <= ROUNDING))
    degrees = degrees_of_freedom(n_effective)
    factor = float(special.stdtrit(degrees, 0.5 + confidence / 2))
    observed = abs(mean) / error
    p_value = float(2.0 * special.stdtr(degrees, -observed))
    sizes = np.sort(np.abs(t[~np.isnan(t)]))
    if len(sizes):
        # So many samples are at least as large as the factor that their share is not below alpha.
        n_beyond = math.ceil((1.0 - confidence) * len(sizes) * (1.0 - ROUNDING))
        factor = max(factor, float(sizes[-n_beyond]))
        p_value = max(p_value, float(np.mean(sizes >= observed)))
    return MeanTest(mean - factor * error, mean + factor * error, p_value)


def _squared_skewness(differences: Array, weights: Array) -> float:
    """Squared skewness of the weighted mean of differences with spread."""
    moves = shares_of(weights) * (differences - mean_and_error(differences, weights)[0])
    moves /= np.abs(moves).max()
    return float(((moves**3).sum() ** 2) / np.square(moves).sum() ** 3)


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
    degrees = degrees_of_freedom(effective_queries(weights))
    return float(2.0 * special.stdtr(degrees, -abs(mean) / error))


def effective_queries(weights: Array) -> float:
    """Number of queries of equal weight whose mean has the variance of the weighted mean.

    It is ``(sum w)^2 / sum w^2``: n for n equal weights, 1 where one query has all of the weight.

    Parameters
    ----------
    weights
        (n,) query weights above 0, n >= 1.

    References
    ----------
    Kish, Survey sampling, 1965, section 11.7.
    """
    shares = shares_of(weights)
    # Rounding must not make 19.999... of 20 equal weights.
    return round(1.0 / float(np.square(shares).sum()), 9)


def queries_text(n_queries: int, n_effective: float) -> str:
    """The number of compared queries, and what it amounts to where their weights differ.

    Examples
    --------
    >>> queries_text(50, 4.2)
    '50 queries that weigh as much as 4.2 equal ones'
    """
    if n_effective == n_queries:
        return "1 query" if n_queries == 1 else f"{n_queries} queries"
    return f"{n_queries} queries that weigh as much as {n_effective:.1f} equal ones"


def rough_text(n_effective: float) -> str:
    """A mark behind figures of fewer than `FEWEST_QUERIES` effective queries; else no text."""
    return " (rough)" if 0 < n_effective < FEWEST_QUERIES else ""


def degrees_of_freedom(n_effective: float) -> float:
    """Degrees of freedom of Student's t for a weighted mean: effective queries less 1, at least 1.

    With n - 1 degrees, tests of queries of different weights reject too often, the more so the
    lower their level. Share of 400,000 Gaussian samples of mean 0 that a one-sided test rejects,
    over its level, with n - 1 degrees and with these:

    ==========  =====  =========  ==========  ==========  ==========
    weights     n      effective  .05         .005        .0005
    ==========  =====  =========  ==========  ==========  ==========
    equal       20     20.0       1.00, 1.00  .95, .95    .92, .92
    ranks       20     8.1        1.36, 1.07  2.41, .90   4.80, .40
    ranks       200    21.1       1.24, 1.08  1.70, .98   2.70, .74
    lognormal   50     24.7       1.14, 1.07  1.48, 1.10  2.07, 1.04
    lognormal   200    77.0       1.07, 1.04  1.17, 1.05  1.36, 1.02
    one         50     1.1        .86, .14    3.98, 0     28.0, 0
    ==========  =====  =========  ==========  ==========  ==========

    ``python -m pipelines.reproduce.intervals`` prints the table; its weights are those of
    `mean_interval`. The degrees of Bell and McCaffrey, which match the variance of the squared
    error, are too few here (a ratio of .16 at level .05 in the third row): the error is large where
    the mean is.

    Parameters
    ----------
    n_effective
        Number of effective queries, `effective_queries`.

    References
    ----------
    Bell and McCaffrey, Bias reduction in standard errors for linear regression with multi-stage
    samples, Survey Methodology 28, 2002.
    """
    return max(n_effective - 1.0, 1.0)


def mean_and_error(differences: Array, weights: Array) -> tuple[float, float]:
    """The weighted mean, and its standard error: 0 for differences that are equal up to rounding.

    The error of one query is 0, too.
    """
    n, shares = len(differences), shares_of(weights)
    mean = float((shares * differences).sum())
    if np.ptp(differences) <= ROUNDING:
        return mean, 0.0
    heaviest = int(np.argmax(shares))
    others = np.arange(n) != heaviest
    moves = np.empty(n)
    moves[others] = shares[others] * (differences[others] - mean) / (1.0 - shares[others])
    # The same for a share near 1, whose distance to 1 has few digits.
    without = (shares_of(weights[others]) * differences[others]).sum()
    moves[heaviest] = shares[heaviest] * (differences[heaviest] - without)
    return mean, float(np.sqrt((n - 1) / n * np.square(moves).sum()))


def shares_of(weights: Array) -> Array:
    """Weights with the sum 1; weights of any size have squares that are neither 0 nor infinite.

    Smaller weights count as 1e-100 of the largest: a sample of them alone has a mean, too.
    """
    scaled = np.maximum(weights / weights.max(), 1e-100)
    shares: Array = scaled / scaled.sum()
    return shares


def _bootstrap_t(centred: Array, weights: Array, seed: int, n_resamples: int) -> Array:
    """(n_tests, n_resamples) studentised means of bootstrap samples; NaN without spread.

    Every column of `centred` (n, n_tests) has the weighted mean 0.
    """
    n, shares = len(centred), shares_of(weights)
    moments = _equal_moments if np.ptp(shares) == 0.0 else _weighted_moments
    rng = np.random.default_rng(seed)
    found, start = np.full((n_resamples, centred.shape[1]), np.nan), 0
    for rows in batches(n_resamples if centred.size else 0, n):
        drawn = rng.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        mean, spread, size = moments(counts.astype(np.float64), centred, shares)
        some = spread > ROUNDING * size
        part = found[start : start + rows]
        part[some] = mean[some] / np.sqrt((n - 1) / n * spread[some])
        start += rows
    return found.T


def _weighted_moments(counts: Array, centred: Array, shares: Array) -> tuple[Array, Array, Array]:
    """Means of samples, the sums of squares of their jackknife errors, and the same around 0.

    `counts` (n_samples, n) says how often each query is in a sample; results are (n_samples,
    n_tests).
    """
    total = counts @ shares
    means = counts @ (shares[:, None] * centred) / total[:, None]
    # Where one query has all of a sample's weight, its error is limited, and its t too large.
    others = np.maximum(total[:, None] - shares, ROUNDING * total[:, None])
    influence = counts * np.square(shares / others)
    spreads = [
        np.einsum("ij,ij->i", influence, np.square(column - mean[:, None]))
        for column, mean in zip(centred.T, means.T, strict=True)
    ]
    return means, np.column_stack(spreads), influence @ np.square(centred)


def _equal_moments(counts: Array, centred: Array, shares: Array) -> tuple[Array, Array, Array]:
    """`_weighted_moments` for equal weights, from two sums of each sample.

    That takes half of the time or less (`pipelines.benchmarks.intervals`).
    """
    n = len(shares)
    sums, squares = np.hsplit(counts @ np.hstack((centred, np.square(centred))), 2)
    # The influence of each query is 1 / (n - 1).
    return sums / n, (squares - np.square(sums) / n) / (n - 1) ** 2, squares / (n - 1) ** 2


def batches(n_draws: int, size: int) -> Iterator[int]:
    """Numbers of samples of a size that are drawn at the same time."""
    rows = max(1, DRAWS_AT_ONCE // size)
    for start in range(0, n_draws, rows):
        yield min(rows, n_draws - start)
