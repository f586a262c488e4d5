"""Statistics of paired differences: bootstrap interval, t-test, Holm's correction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

DRAWS_AT_ONCE = 1 << 20
"""Largest number of bootstrap draws in memory at the same time."""


def bootstrap_interval(
    differences: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    seed: int = 0,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a weighted mean.

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
    Lower and upper end.

    References
    ----------
    Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 13.
    """
    n = len(differences)
    rng = np.random.default_rng(seed)
    products = weights * differences
    means = np.empty(n_resamples)
    rows = max(1, DRAWS_AT_ONCE // n)
    for start in range(0, n_resamples, rows):
        end = min(start + rows, n_resamples)
        drawn = rng.integers(0, n, size=(end - start, n))
        means[start:end] = products[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.5 - confidence / 2, 0.5 + confidence / 2))
    return float(low), float(high)


def paired_t_test(differences: NDArray[np.float64]) -> float:
    """Two-sided p-value of Student's t-test that the differences have mean 0.

    Parameters
    ----------
    differences
        (n,) one value for each query, n >= 1.

    Returns
    -------
    The p-value: 1 if n is 1 or all differences are 0; 0 if all differences equal another number.
    """
    n = len(differences)
    mean = float(differences.mean())
    if n == 1 or not differences.any():
        return 1.0
    error = float(differences.std(ddof=1)) / np.sqrt(n)
    if error == 0.0:
        return 0.0
    return float(2.0 * special.stdtr(n - 1, -abs(mean) / error))


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
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
