"""Sums in one binary tree over positions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dranking.engine.tree_sum import tree_sum
from tests.engine.small_data import reference_tree


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70))
def test_tree_sum_adds_neighbours(values):
    arrays = [np.array([v, -v]) for v in values]
    np.testing.assert_array_equal(tree_sum(arrays), reference_tree(arrays))


def test_tree_sum_of_tuples_sums_each_part():
    left, right = tree_sum([(np.ones(2), 1.0), (np.ones(2), 2.0), (np.ones(2), 4.0)])
    np.testing.assert_array_equal(left, [3.0, 3.0])
    assert right == 7.0
