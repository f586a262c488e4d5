"""e-LOND: a bound on the share of promotions that are no improvement, from e-values.

Test number t of the ledger promotes the challenger if its e-value is at least 1 / alpha_t, with

    alpha_t = alpha gamma_t (R_{t-1} + 1),    gamma_t = 6 / (pi t)^2,

where R_{t-1} is the number of earlier tests that have found a better challenger. The gamma_t sum
to 1. The expected share of false ones among all promotions is then at most alpha after every test,
whatever the dependence between the tests (Xu and Ramdas, the e-LOND procedure).

An e-value is a number of at least 0 whose mean is at most 1 if the challenger is no better;
Student's t gives none. Here it is the capital of bets on the differences of the queries
(`dranking.metrics.comparison.confidence_sequences.mean_e_value`), which assumes nothing but queries
that are drawn independently and measures in [0, 1]. Nothing is approximate, and the price is power:
the levels fall as 1 / t^2 until the first promotion, and an e-value needs a larger difference than
a p-value of the same level.

Condition, as for the ledger: the champion was not chosen on the judged queries (``gate.rotate``);
otherwise its luck on them makes later challengers look worse.

References
----------
Xu and Ramdas, Online multiple testing with e-values, AISTATS 2024, arXiv 2311.06412. Javanmard and
Montanari, On online control of false discovery rate, arXiv 1502.06197 (LOND for p-values).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.comparison.confidence_sequences import BETS, mean_e_value

Array = NDArray[np.float64]


def lond_level(rate: float, number: int, n_discoveries: int) -> float:
    """Level alpha_t of a test.

    Parameters
    ----------
    rate
        alpha, the bound on the false discovery rate.
    number
        t, the number of the test, from 1.
    n_discoveries
        R_{t-1}, the number of earlier tests that have found a better challenger.

    Examples
    --------
    >>> round(sum(lond_level(0.1, t, 0) for t in range(1, 100_000)), 5)
    0.1
    >>> lond_level(0.1, 12, 2) == 3 * lond_level(0.1, 12, 0)
    True
    """
    return min(1.0, rate * 6.0 / (np.pi * number) ** 2 * (n_discoveries + 1))


def difference_e_value(differences: Array, weights: Array) -> float:
    """e-value against "the weighted mean of the differences is at most 0".

    Parameters
    ----------
    differences
        (n_queries,) in [-1, 1].
    weights
        (n_queries,) query weights above 0: differences are bet on in proportion to them.

    Raises
    ------
    DataError
        If a difference is outside of [-1, 1].
    """
    bounded = differences * (weights / weights.max())
    return mean_e_value((bounded + 1.0) / 2.0, 0.5)


def detectable_by_bets(error: float, level: float, quantile: float) -> float:
    """Difference whose e-value reaches 1 / level, approximately, with a power.

    A bet of a small part of the capital on n differences of sum S and sum of squares Q gains
    exp(S^2 / 2Q) at best; the mean over all bets is at least the gain of one bet, divided by the
    number of bets.

    Parameters
    ----------
    error
        Standard error of the mean difference.
    level
        Level of the test.
    quantile
        Quantile of the normal distribution at the power.
    """
    return float(error * (np.sqrt(2.0 * np.log(len(BETS) / level)) + quantile))
