"""Panels of products against plain sums, in every bit."""

from fractions import Fraction

import numpy as np
import pytest

from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.panels import NARROW_WIDTH, WIDTH, add_panel, eliminate_panel, padded


@kernel
def added(left, right, strip, size, sums, column):
    add_panel(left, right, strip, size, sums, column)


@pytest.mark.parametrize("add", [added, add_panel], ids=["compiled", "python"])
@pytest.mark.parametrize("size", [0, 1, 3, 8])
def test_panels_are_sums_in_order_rounded_once_a_product(add, size):
    rng = np.random.default_rng(size)
    weights, strip = rng.normal(size=(2, 8)), rng.normal(size=(8, 3 * WIDTH))
    sums = rng.normal(size=(2, 3 * WIDTH))
    wanted = sums.copy()
    for row in range(2):
        for i in range(WIDTH, 2 * WIDTH):
            for d in range(size):
                product = Fraction(weights[row, d]) * Fraction(strip[d, i])
                wanted[row, i] = float(product + Fraction(wanted[row, i]))
    add(weights[0], weights[1], strip, size, sums, WIDTH)
    np.testing.assert_array_equal(sums, wanted)


@kernel
def eliminated(beta, delta, rows, slots, total_rows, q, column, out):
    eliminate_panel(beta, delta, rows, slots, total_rows, q, column, out)


@pytest.mark.parametrize("eliminate", [eliminated, eliminate_panel], ids=["compiled", "python"])
@pytest.mark.parametrize("t", [0, 1, 5])
def test_eliminations_are_sums_in_order_rounded_once_a_product(eliminate, t):
    rng = np.random.default_rng(t)
    n, slots = NARROW_WIDTH + 5, rng.permutation(7)[: t + 1]
    beta, delta = rng.normal(size=(2, t))
    rows, total_rows = rng.normal(size=(7, 3, n)), rng.normal(size=(t + 1, n))
    out = np.full((2, n), np.nan)
    eliminate(beta, delta, rows, slots, total_rows, 2, 3, out)

    def minus_product(total, a, b):
        return float(Fraction(total) - Fraction(a) * Fraction(b))

    for i in range(n):
        if not 3 <= i < 3 + NARROW_WIDTH:
            assert np.isnan(out[:, i]).all()
            continue
        own = rows[slots, 2, i]
        others = total_rows[:, i] - own
        g, m, h = own[t], others[t], 0.0
        for j in range(t):
            g = minus_product(g, beta[j], own[j])
            m = minus_product(m, beta[j], others[j])
            h = minus_product(h, delta[j], others[j])
        np.testing.assert_array_equal(out[:, i], [m, h + g])


def test_padded_columns_are_whole_panels():
    assert [padded(n) for n in (1, WIDTH, WIDTH + 1)] == [WIDTH, WIDTH, 2 * WIDTH]
