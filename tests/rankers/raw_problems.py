"""Ranking problems with features as the web has them: counts, lengths, sums, units, outliers."""

import numpy as np

from tests.rankers.problems import Problem

N_FEATURES = 12


def raw_problem(seed, *, scale=1.0, weighted=False, dominant=False):
    """Six to nine queries; all features times `scale`, which is a power of two.

    Columns: four of heavy tails from 1e-3 to 1e9, counts, another count, the sum of both counts, a
    float32 sum of two heavy columns, a copy in another unit, a nearly constant column far from
    zero, a constant, and a column with one huge outlier. One query has a single document. In a
    dominant problem the features of one query are larger than all others by far.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 25, rng.integers(6, 10))
    sizes[rng.integers(len(sizes))] = 1
    m = int(sizes.sum())
    X = np.empty((m, N_FEATURES), dtype=np.float32)
    X[:, :4] = rng.lognormal(0.0, 1.5, (m, 4)) * 10.0 ** rng.uniform(-3.0, 9.0, 4)
    X[:, 4] = np.round(rng.lognormal(3.0, 1.0, m))
    X[:, 5] = np.round(rng.lognormal(5.0, 1.0, m))
    X[:, 6] = X[:, 4] + X[:, 5]
    X[:, 7] = X[:, 0] + X[:, 1]
    X[:, 8] = X[:, 2] * np.float32(1.024)
    X[:, 9] = 3e7 + 4.0 * rng.integers(0, 3, m)
    X[:, 10] = 7.0
    X[:, 11] = rng.random(m)
    X[rng.integers(m), 11] *= 1e6
    if dominant:
        X[np.repeat(np.arange(len(sizes)), sizes) == 2] *= np.float32(2.0**17)
    y = rng.integers(0, 5, m).astype(np.float64)
    weights = rng.uniform(0.2, 3.0, len(sizes)) if weighted else np.ones(len(sizes))
    return Problem(X * np.float32(scale), y, sizes, weights)
