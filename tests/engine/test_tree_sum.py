"""Sums in one binary tree over positions."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dranking.engine.tree_sum import joined_runs, n_subtrees, run_sum, total_of, tree_sum
from tests.engine.small_data import reference_tree

floats = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70)


@given(floats)
def test_tree_sum_adds_neighbours(values):
    arrays = [np.array([v, -v]) for v in values]
    np.testing.assert_array_equal(tree_sum(arrays), reference_tree(arrays))


@given(floats, st.data())
def test_runs_of_any_borders_joined_in_any_groups_add_the_same(values, data):
    cuts = st.lists(st.integers(0, len(values)), max_size=8)
    borders = sorted({0, len(values), *data.draw(cuts)})
    runs = [run_sum(values[a:b], a) for a, b in pairwise(borders)]
    sizes = [n_subtrees(a, b) for a, b in pairwise(borders)]
    assert [len(run) for run in runs] == sizes
    fan_in = data.draw(st.integers(2, 5))
    while len(runs) > 1:
        runs = [joined_runs(runs[i : i + fan_in]) for i in range(0, len(runs), fan_in)]
    assert total_of(runs[0]) == reference_tree(values)


def test_tree_sum_of_tuples_sums_each_part():
    left, right = tree_sum([(np.ones(2), 1.0), (np.ones(2), 2.0), (np.ones(2), 4.0)])
    np.testing.assert_array_equal(left, [3.0, 3.0])
    assert right == 7.0
