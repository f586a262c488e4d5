"""Randomised tests that rankers do not differ, and p-values of several tests.

Under the hypothesis that rankers do not differ, their values of a query may change places. Both
tests count how often the means lie so far apart under other orders as they do under the given one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.comparison.significance import ROUNDING, batches, shares_of

Array = NDArray[np.float64]


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
    products = (shares_of(weights) * differences)[np.abs(differences) > ROUNDING]
    n = len(products)
    # Other choices with the same sum in exact arithmetic count as equal, also where terms cancel.
    observed = abs(float(products.sum())) - ROUNDING * float(np.abs(products).sum())
    if 2**n <= n_resamples:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ products) >= observed))
    rng = np.random.default_rng(seed)
    as_large = 0
    for rows in batches(n_resamples, n):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(rows, n), dtype=np.int8)
        as_large += int((np.abs(signs @ products) >= observed).sum())
    return (as_large + 1) / (n_resamples + 1)


def sign_flip_tests(
    differences: Array, weights: Array, *, seed: int = 0, n_resamples: int = 10_000
) -> Array:
    """P-values of `sign_flip_test` for several columns of differences, with the same random signs.

    Parameters
    ----------
    differences
        (n_queries, n_tests) differences.
    weights, seed, n_resamples
        As in `sign_flip_test`; a column with few differences that are not 0 has all choices tried.

    Returns
    -------
    (n_tests,) p-values.
    """
    products = shares_of(weights)[:, None] * differences
    products[np.abs(differences) <= ROUNDING] = 0.0
    observed = np.abs(products.sum(axis=0)) - ROUNDING * np.abs(products).sum(axis=0)
    rng = np.random.default_rng(seed)
    as_large = np.zeros(len(observed), dtype=np.int64)
    for rows in batches(n_resamples, len(products)):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(rows, len(products)), dtype=np.int8)
        as_large += (np.abs(signs @ products) >= observed).sum(axis=0)
    p_values: Array = (as_large + 1) / (n_resamples + 1)
    for test in np.flatnonzero(2.0 ** np.count_nonzero(products, axis=0) <= n_resamples):
        p_values[test] = sign_flip_test(differences[:, test], weights, n_resamples=n_resamples)
    return p_values


def tukey_hsd(values: Array, weights: Array, *, seed: int = 0, n_resamples: int = 10_000) -> Array:
    """P-values of the randomised Tukey HSD test for all pairs of rankers.

    The values of each query are brought into a random order, as if rankers did not differ at all.
    The p-value of a pair is the share of random orders in which the largest mean lies at least as
    far above the smallest one as the means of the pair lie apart; the given order counts as one
    more. The p-values hold for all pairs together: they are adjusted already.

    Parameters
    ----------
    values
        (n_queries, n_rankers) values of a measure, n_queries >= 1.
    weights
        (n_queries,) query weights above 0.
    seed
        Seed of the orders.
    n_resamples
        Number of random orders.

    Returns
    -------
    (n_rankers, n_rankers) symmetric p-values; 1 on the diagonal.

    Notes
    -----
    The hypothesis is that all rankers have one distribution of values. A pair of equal rankers
    with noisier values than the others is called different too often: at level .05 in .14 (standard
    error .006) of samples of 50 queries where two of ten rankers have ten times the noise of the
    others, and in .08 where they have three times the noise; some pair is in .19 and .15, and in
    .05 where all have the same noise. Random signs with Holm's correction call some pair different
    in .03 of each (``python -m pipelines.reproduce.equal_rankers --samples 4000``).

    References
    ----------
    Carterette, Multiple testing in statistical analysis of systems-based information retrieval
    experiments, ACM Transactions on Information Systems 30, 2012, algorithm 1.
    """
    shares = shares_of(weights)
    means = shares @ values
    apart = np.abs(means[:, None] - means)
    # Other orders with the same range in exact arithmetic count as equal.
    observed = apart - ROUNDING * float((shares @ np.abs(values)).max())
    rng = np.random.default_rng(seed)
    as_large = np.zeros(apart.shape, dtype=np.int64)
    for n_orders in batches(n_resamples, values.size):
        orders = rng.permuted(np.broadcast_to(values, (n_orders, *values.shape)), axis=2)
        ranges = np.ptp(np.einsum("q,oqr->or", shares, orders), axis=1)
        as_large += (ranges[:, None, None] >= observed).sum(axis=0)
    p_values: Array = (as_large + 1) / (n_resamples + 1)
    return p_values


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
