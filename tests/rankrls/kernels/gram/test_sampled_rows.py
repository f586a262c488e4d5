"""Documents rounded to a byte for each feature, and the products of such documents."""

import numpy as np
import pytest

from dranking.rankrls.kernels.gram.sampled_rows import add_sampled_row, rounded


def test_rounding_moves_no_number_by_more_than_half_a_unit():
    X = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32) * [1, 1e-30, 1e30, 0, 7]
    X = X.astype(np.float32)
    numbers, [units], [squares] = rounded(X)
    assert numbers.shape == (50, 16)
    assert not numbers[:, 5:].any()
    numbers = numbers[:, :5]
    assert (abs(numbers.astype(int)).max(axis=0) == [127, 127, 127, 0, 127]).all()
    assert (abs(X - numbers * units) <= 0.50001 * units).all()
    np.testing.assert_array_equal(squares, (numbers.astype(int) ** 2).sum(axis=0))


@pytest.mark.parametrize("n", [1, 5, 16, 17])
def test_rows_of_a_sample_are_sums_of_whole_numbers_part_by_part(n):
    rng = np.random.default_rng(n)
    sizes, width = [1, 3, 4, 0, 2], -(-n // 16) * 16
    numbers = np.zeros((sum(sizes), width), np.int8)
    numbers[:, :n] = rng.choice(np.array([-127, 127], np.int8), (sum(sizes), n))
    units = 2.0 ** rng.integers(-3, 4, (len(sizes), n))
    row, f = np.zeros(n), n - 1
    add_sampled_row(numbers, units, np.cumsum(sizes), f, row)
    scaled = numbers[:, :n] * np.repeat(units, sizes, axis=0)
    np.testing.assert_array_equal(row, scaled.T @ scaled[:, f])
