"""Arithmetic on pairs against exact fractions."""

from fractions import Fraction

import numpy as np

from dranking.rankrls.kernels.gram.double_double import (
    UNIT,
    centred_pairs,
    product_of_pairs,
    sum_of_pairs,
    sums_of_products,
)
from tests.rankrls.kernels.pairs import exact


def drawn_pairs(rng, *shape):
    high = rng.normal(size=shape) * 10.0 ** rng.integers(-12, 13, shape)
    return np.stack((high, high * rng.uniform(-1.0, 1.0, shape) * 2.0**-53))


def raw_rows(rng):
    """Columns of several units: heavy tails, far from zero, constant, with a huge outlier."""
    rows = rng.lognormal(0.0, 2.0, (12, 5)).astype(np.float32).astype(np.float64)
    rows[:, 1] = 3e7 + 4.0 * rng.integers(0, 3, 12)
    rows[:, 2] = np.float32(0.1)
    rows[3, 3] = 1e9
    return rows


def test_sums_and_products_keep_32_digits():
    rng = np.random.default_rng(0)
    a, b = drawn_pairs(rng, 8, 6), drawn_pairs(rng, 8, 6)
    off = np.abs(exact(sum_of_pairs(a, b)) - exact(a) - exact(b))
    assert (off <= 2 * UNIT * (np.abs(exact(a)) + np.abs(exact(b)))).all()
    vector = drawn_pairs(rng, 6)
    off = np.abs(exact(product_of_pairs(a, vector)) - exact(a) @ exact(vector))
    assert (off <= 12 * UNIT * (np.abs(exact(a)) @ np.abs(exact(vector)))).all()


def test_a_sum_that_cancels_keeps_the_digits_of_its_terms():
    a = np.array([[[1.0]], [[2.0**-60]]])
    assert exact(sum_of_pairs(a, np.array([[[-1.0]], [[0.0]]])))[0, 0] == Fraction(2.0**-60)


def test_rows_are_centred_and_summed_with_32_digits():
    rng = np.random.default_rng(1)
    rows, ptr, weights = raw_rows(rng), np.array([0, 5, 12]), np.array([1.0, 0.3])
    expected = np.vectorize(Fraction, otypes=[object])(rows)
    for start, stop, weight in zip(ptr, ptr[1:], weights, strict=False):
        mean = expected[start:stop].sum(axis=0) / Fraction(int(stop - start))
        expected[start:stop] = (expected[start:stop] - mean) * Fraction(float(np.sqrt(weight)))
    pairs = centred_pairs(rows, ptr, weights)
    assert (np.abs(exact(pairs) - expected) <= 40 * UNIT * np.abs(rows).max(axis=0)).all()
    assert not pairs[:, :, 2].any(), "a constant column is exactly zero"
    sums = sums_of_products(pairs)
    own = exact(pairs)
    norms = np.sqrt((own**2).sum(axis=0).astype(float))
    off = np.abs(exact(sums) - own.T @ own).astype(float)
    assert (off <= 40 * UNIT * norms * norms[:, None]).all()
    np.testing.assert_array_equal(sums, sums.transpose(0, 2, 1))
