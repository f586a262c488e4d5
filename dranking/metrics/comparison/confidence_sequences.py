"""Intervals and e-values of means of bounded values, valid however often they are looked at.

A 95 % interval that is looked at every morning misses the mean on some morning with a probability
that grows towards 1. A confidence sequence is a sequence of intervals, one for each number of
values, of which all hold the mean together with probability 1 - alpha. So a comparison may be
stopped at any time, for any reason, also because the interval looks good.

Condition: each value lies in [0, 1] and has the mean mu given the values before it. Values of
independent units of one population fulfil the condition, in the order of arrival and never changed
later. One unit is one user: several sessions of a user are not independent, so that a user counts
once, with the mean of the user's first day, or by one visit. Values that are divided by a sum over
all values, or values without a bound, do not fulfil the condition.

The lower ends invert a mixture of the exponential supermartingales of Howard et al. (2021, theorem
4). With mu_i in (0, 1), a mean of the values before value i, and psi(l) = -log(1 - l) - l,

    M_t(m) = mean over l of exp(sum_{i<=t} l_i (x_i - m) - psi(l_i mu_i) ((x_i - mu_i) / mu_i)^2)

exceeds 1 / alpha at some t with probability at most alpha if the mean is m or less (Ville's
inequality). The theorem takes the range of the values, 1, for the bound of their deviations. Here
the deviation below is at most mu_i, which is known before value i: `exp(l y - psi(l) y^2) <= 1 +
l y` for y >= -1 and 0 <= l < 1 (Fan, Grama and Liu 2015), at y = (x_i - mu_i) / mu_i and l_i mu_i,
gives exp(l_i (x_i - mu_i) - psi(l_i mu_i) y^2) <= 1 + l_i (x_i - mu_i), whose mean is at most
exp(l_i (m - mu_i)). The bets l are 8, 4, 2, ..., 2^-12, at most .9 / mu_i: one of them is near the
best one for each number of values up to some hundred millions.

`mean_e_value` is the capital of a bet against a mean (Waudby-Smith and Ramdas, 2024),
averaged over fractions of the capital that are bet on each value.

References
----------
Howard, Ramdas, McAuliffe and Sekhon, Time-uniform, nonparametric, nonasymptotic confidence
sequences, Annals of Statistics 49, 2021, arXiv 1810.08240. Waudby-Smith and Ramdas, Estimating
means of bounded random variables by betting, JRSS B 86, 2024, arXiv 2010.09686. Fan, Grama and Liu,
Exponential inequalities for martingales with applications, Electronic Journal of Probability 20,
2015.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dranking.errors import DataError, UsageError

Array = NDArray[np.float64]

BETS: Final = np.array([0.9, 0.75, *(0.5 ** np.arange(1, 15))])
"""Fractions of the capital that `mean_e_value` bets."""

_STEPS: Final = 2.0 ** np.arange(3, -13, -1)
_LARGEST: Final = 0.9
"""The l of a confidence sequence, and the largest l_i mu_i."""

_MOST_STEPS: Final = 100
_AT_ONCE: Final = 1 << 16


def confidence_sequence(values: ArrayLike, alpha: float = 0.05) -> tuple[Array, Array]:
    """Intervals of the mean of bounded values, one after each value, all valid at once.

    Parameters
    ----------
    values
        (n_values,) numbers in [0, 1], one for each independent unit, such as a user, in the order
        of arrival.
    alpha
        Probability with which some interval misses the mean, at most; half of it on each side.

    Returns
    -------
    lower, upper
        (n_values,) float64 in [0, 1]: after i + 1 values the mean lies between ``lower[i]`` and
        ``upper[i]``. Lower ends never decrease and upper ends never increase, since earlier
        intervals stay valid. A lower end above the upper end shows that the mean has changed.

    Raises
    ------
    DataError
        If a value is not finite or lies outside of [0, 1].
    UsageError
        If alpha is not between 0 and 1, or `values` has not one dimension.

    Examples
    --------
    >>> lower, upper = confidence_sequence([0.0, 1.0] * 500)
    >>> round(float(lower[-1]), 3), round(float(upper[-1]), 3)
    (0.442, 0.558)
    """
    _check_alpha(alpha)
    x = _checked(values)
    return lower_ends(x, alpha / 2), 1.0 - lower_ends(1.0 - x, alpha / 2)


def lower_ends(values: ArrayLike, alpha: float = 0.05) -> Array:
    """Lower ends of the mean of bounded values: the one-sided form of `confidence_sequence`.

    Upper ends are ``1 - lower_ends(1 - values)``.

    Parameters
    ----------
    values
        (n_values,) numbers in [0, 1], in the order of arrival.
    alpha
        Probability with which some end lies above the mean, at most.

    Returns
    -------
    (n_values,) float64 in [0, 1], never decreasing.

    Raises
    ------
    DataError, UsageError
        As `confidence_sequence` does.
    """
    x = _checked(values)
    _check_alpha(alpha)
    found, sums, total = [np.empty(0)], np.zeros((3, len(_STEPS))), 0.0
    for start in range(0, len(x), _AT_ONCE):
        part = x[start : start + _AT_ONCE]
        count = np.arange(start + 1, start + len(part) + 1)
        before = (0.5 + total + np.cumsum(part) - part) / count  # 1/2 before the first value
        running = sums[:, None] + np.cumsum(_terms(part, before), axis=1)
        found.append(roots_of_mixture(running, alpha))
        sums, total = running[:, -1], total + float(part.sum())
    return np.maximum.accumulate(np.maximum(np.concatenate(found), 0.0))


def expected_half_width(n_values: int, mean: float, variance: float, alpha: float = 0.05) -> float:
    """Half of the width that `confidence_sequence` will have, for planning.

    Parameters
    ----------
    n_values
        Number of values, at least 1.
    mean, variance
        Mean of the values in [0, 1], and their variance, at most 1/4.
    alpha
        As in `confidence_sequence`.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """
    _check_alpha(alpha)
    if n_values < 1 or not 0 <= mean <= 1 or not 0 <= variance <= 0.25:
        raise UsageError(
            f"n_values is {n_values}, mean is {mean:g} and variance is {variance:g}; at least 1 "
            "value, a mean in [0, 1] and a variance from 0 to 0.25, the largest of values in "
            "[0, 1], are needed."
        )
    width = 0.0
    for below in (mean, 1.0 - mean):
        center = np.clip(np.array([below]), 0.5 / n_values, 1.0)
        bets, costs = _bets(center)
        sums = n_values * np.stack([bets * below, bets, costs * variance])
        width += below - max(float(roots_of_mixture(sums, alpha / 2)[0]), 0.0)
    return width / 2


def mean_e_value(values: ArrayLike, null: float) -> float:
    """Evidence against "the mean is at most `null`": an e-value, whose mean is then at most 1.

    The value is the capital of a gambler who begins with 1 and bets on every value that it will
    be above `null`, averaged over the fractions `BETS` of the capital that are bet.
    Nothing but the range of the values and their independence is assumed. The order of the values
    does not matter, in any bit.

    Parameters
    ----------
    values
        (n_values,) numbers in [0, 1]. Differences in [-1, 1] are tested for being above 0 by
        ``mean_e_value((differences + 1) / 2, 0.5)``.
    null
        Mean in (0, 1) that is tested.

    Raises
    ------
    DataError
        If a value is not finite or lies outside of [0, 1].
    UsageError
        If `null` is not between 0 and 1, or `values` has not one dimension.

    Examples
    --------
    >>> mean_e_value([], 0.5), round(mean_e_value([1.0, 1.0, 1.0, 0.0], 0.5), 4)
    (1.0, 1.1046)
    """
    x = _checked(values)
    if not 0 < null < 1:
        raise UsageError(f"null is {null:g}; a mean between 0 and 1 is needed.")
    gains = np.sort(x / null - 1.0)
    capitals = np.array([np.log1p(bet * gains).sum() for bet in BETS])
    # More than the largest float is evidence enough, and JSON has no infinity.
    return float(np.exp(min(special.logsumexp(capitals) - np.log(len(BETS)), 700.0)))


def _terms(values: Array, before: Array) -> Array:
    """(3, n, n_bets) terms l x, l and psi(l mu) ((x - mu) / mu)^2 of each value and bet."""
    bets, costs = _bets(before)
    return np.stack([bets * values[:, None], bets, costs * np.square(values - before)[:, None]])


def _bets(center: Array) -> tuple[Array, Array]:
    """(n, n_bets) bets l, at most `_LARGEST` / mu, and psi(l mu) / mu^2."""
    mu = center[:, None]
    bets = np.minimum(_STEPS, _LARGEST / mu)
    scaled = bets * mu
    series = scaled**2 * (0.5 + scaled / 3 + scaled**2 / 4)  # below, the logarithm cancels
    psi = np.where(scaled < 1e-3, series, -np.log1p(-scaled) - scaled)
    return bets, psi / mu**2


def roots_of_mixture(sums: Array, alpha: float) -> Array:
    """(n,) means m at which a mixture over bets of exp(gain - cost - bet m) is 1 / alpha.

    `sums` (3, n, n_bets) are the sums of gains, bets and costs, such as those of `_terms`. The
    logarithm of the mixture is convex and decreasing in m, so that Newton's method comes up to
    the root from the largest m at which one bet alone reaches the bound.
    """
    gains, bets, costs = sums
    target = np.log(gains.shape[1] / alpha)
    roots: Array = ((gains - costs - target) / bets).max(axis=1)
    for _ in range(_MOST_STEPS):
        exponents = gains - costs - roots[:, None] * bets
        largest = exponents.max(axis=1)
        shares = np.exp(exponents - largest[:, None])
        total = shares.sum(axis=1)
        step = (largest + np.log(total) - target) * total / (shares * bets).sum(axis=1)
        roots = roots + step
        if np.all(np.abs(step) <= 1e-12 * (1.0 + np.abs(roots))):
            break
    return roots


def _checked(values: ArrayLike) -> Array:
    """The values as an array of float64 in [0, 1]."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise UsageError(f"values have the shape {x.shape}; one value for each unit is needed.")
    wrong = np.flatnonzero(~((x >= 0) & (x <= 1)))
    if len(wrong):
        raise DataError(
            f"value {wrong[0]} is {x[wrong[0]]:g}; only values in [0, 1] have a confidence "
            f"sequence ({len(wrong)} of {len(x)} do not lie there). Cap and scale them by bounds "
            "that do not depend on the values; sums and self-normalised values have none."
        )
    return x


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is {alpha:g}; a probability between 0 and 1 is needed.")
