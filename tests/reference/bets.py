"""Final capital of bets on differences, and the fewest queries of any test, by plain loops."""

import itertools
import math
from fractions import Fraction

BETS = [Fraction(9, 10), Fraction(3, 4)] + [Fraction(1, 2**k) for k in range(1, 15)]


def final_capital(differences, weights=None, largest_weight=1):
    """Mean final capital of gamblers who bet fixed shares on every difference, exactly."""
    weights = [1] * len(differences) if weights is None else weights
    total = Fraction(0)
    for bet in BETS:
        capital = Fraction(1)
        for difference, weight in zip(differences, weights, strict=True):
            capital *= 1 + bet * Fraction(difference) * Fraction(weight) / Fraction(largest_weight)
        total += capital
    return total / len(BETS)


def samples(values, chances, n):
    """Every sample of n values, and its probability, exactly."""
    for picks in itertools.product(range(len(values)), repeat=n):
        yield [values[k] for k in picks], math.prod((chances[k] for k in picks), start=Fraction(1))


def fewest_queries(improvement, level, power):
    """The smallest n for which a loss of 1 that is not seen cannot be told from none."""
    n, unseen = 0, 1.0
    while power * unseen > level:
        n += 1
        unseen /= 1 + improvement
    return n
