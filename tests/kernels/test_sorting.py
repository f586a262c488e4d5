"""Orders of values against NumPy's stable sort, with ties, infinities and NaN."""

import numpy as np
import pytest

from dranking.kernels.machine.compile import frozen
from dranking.kernels.sorting import RUN, ascending, descending

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])


@pytest.mark.parametrize("n", [0, 1, 2, RUN - 1, RUN, RUN + 1, 3 * RUN, 5 * RUN + 3, 1000])
@pytest.mark.parametrize("n_distinct", [1, 3, 10**6])
def test_orders_are_those_of_a_stable_sort(n, n_distinct):
    rng = np.random.default_rng(n)
    for special in (0.0, 0.3):
        values = rng.integers(0, n_distinct, n) / 7.0
        replaced = rng.random(n) < special
        values[replaced] = rng.choice(SPECIAL, int(replaced.sum()))
        expected = np.argsort(-values, kind="stable")
        np.testing.assert_array_equal(descending(frozen(values)), expected)
        np.testing.assert_array_equal(ascending(frozen(values)), expected[::-1])
