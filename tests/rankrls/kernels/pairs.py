"""Exact values of numbers in double-double."""

from fractions import Fraction

import numpy as np


def exact(pairs):
    """(...) fractions of pairs (2, ...)."""
    return np.vectorize(lambda high, low: Fraction(high) + Fraction(low), otypes=[object])(*pairs)
