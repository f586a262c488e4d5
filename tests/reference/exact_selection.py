"""Leave-query-out errors of sets of features in fixed-point arithmetic of 640 binary places.

Python's integers hold every digit of products; a division drops digits behind place 640. Features
from 1e-15 to 1e30 and lambdas from 2^-40 on keep several hundred digits.
"""

from copy import copy
from fractions import Fraction
from itertools import pairwise

import numpy as np

PLACES = 640


def fixed(value):
    """The fixed-point number of a float, rounded down."""
    fraction = Fraction(float(value))
    return (fraction.numerator << PLACES) // fraction.denominator


def to_float(value):
    return float(Fraction(int(value), 1 << PLACES))


def times(a, b):
    """Product of fixed-point matrices."""
    return np.dot(a, b) >> PLACES


class ExactRefits:
    """Leave-query-out errors of sets of features by refits, each computed once."""

    def __init__(self, X, y, query_ptr, weights, regularization):
        self.regularization = fixed(regularization)
        self.n_features = X.shape[1]
        self._grams, self._rows = [], []
        for span, weight in zip(pairwise(query_ptr), weights, strict=True):
            rows = np.column_stack((X[slice(*span)].astype(np.float64), y[slice(*span)]))
            values = np.array([[fixed(v) for v in row] for row in rows], dtype=object)
            centred = values - values.sum(axis=0) // len(values)
            self._grams.append(times(centred.T, centred) * fixed(weight) >> PLACES)
            self._rows.append(values[:, :-1])
        self._total = sum(self._grams)
        self._known = {}

    def at(self, regularization):
        """The same data with another lambda."""
        other = copy(self)
        other.regularization, other._known = fixed(regularization), {}
        return other

    def error(self, subset):
        """The error of a set of features, as an exact fraction rounded to 640 places."""
        key = tuple(sorted(subset))
        if key not in self._known:
            self._known[key] = sum(self._query_error(gram, [*key, -1]) for gram in self._grams)
        return self._known[key]

    def held_out_scores(self, subset):
        """Scores of the documents of each query under the model of all other queries."""
        places, found = [*subset, -1], []
        for rows, gram in zip(self._rows, self._grams, strict=True):
            own = gram[np.ix_(places, places)]
            weights = solve(self._total[np.ix_(places, places)] - own, self.regularization)
            found.append(times(rows[:, list(subset)], weights))
        return found

    def weights(self):
        """Exact weights of all features, rounded to float64."""
        exact = solve(self._total, self.regularization)
        return np.array([to_float(value) for value in exact])

    def minimum(self):
        """Least sum of squared residuals and of lambda times squared weights, of all features."""
        exact = solve(self._total, self.regularization)
        return to_float(self._total[-1, -1] - times(self._total[-1, :-1], exact))

    def prediction_distance(self, weights):
        """Distance of predictions by some weights from those of the exact ones, over that of y."""
        exact = solve(self._total, self.regularization)
        off = np.array([fixed(w) for w in weights], dtype=object) - exact
        square = times(off, times(self._total[:-1, :-1], off))
        return (to_float(square) / to_float(self._total[-1, -1])) ** 0.5

    def _query_error(self, gram, places):
        """w'G w of the held-out query, where w are the weights of all others, and -1 for y."""
        own = gram[np.ix_(places, places)]
        weights = solve(self._total[np.ix_(places, places)] - own, self.regularization)
        weights = np.append(weights, -(1 << PLACES))
        return times(weights, times(own, weights))


def solve(system, regularization):
    """Weights of (G + lambda I) w = b for the symmetric system [[G, b], [b', y.y]]."""
    rows = system[:-1].copy()
    t = len(rows)
    rows[np.arange(t), np.arange(t)] += regularization
    for k in range(t):
        rows[k, k:] = (rows[k, k:] << PLACES) // rows[k, k]
        below = rows[k + 1 :, k].copy()
        rows[k + 1 :, k:] -= below[:, None] * rows[k, k:] >> PLACES
    weights = rows[:, t].copy()
    for k in range(t - 1, 0, -1):
        weights[:k] -= rows[:k, k] * weights[k] >> PLACES
    return weights
