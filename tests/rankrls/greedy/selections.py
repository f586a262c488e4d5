"""Helpers of the tests of greedy selections: run a selection, and check its path."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from tests.reference.greedy import naive_scores

LAYOUTS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "CSR": sparse.csr_array}


def select(dataset, n_features, regularization=1.0, executor=None, **rules):
    rules = SelectionRules(n_features, **rules)
    [path] = select_paths(dataset, [regularization], rules, executor=executor).paths
    return path


def assert_greedy(path, queries, tolerance=1e-9, error_tolerance=None):
    """Assert that picks are the best by refits, and errors those of refits, to `tolerance`.

    An error is a difference of sums as large as the initial error, so beside the relative
    tolerance an error may be off by some thousand roundings of the initial error.
    """
    floor = 1e-13 * path.initial_error
    error_tolerance = tolerance if error_tolerance is None else error_tolerance
    for t, (pick, error) in enumerate(zip(path.selected, path.lqo_error, strict=True)):
        scores = naive_scores(queries, path.selected[:t], path.regularization)
        assert pick in scores
        best = min(scores.values())
        assert scores[pick] <= best * (1.0 + tolerance) + floor
        assert error == pytest.approx(scores[pick], rel=error_tolerance, abs=floor)


def assert_copies_follow_their_order(path, X):
    for i, j in combinations(range(X.shape[1]), 2):
        if np.array_equal(X[:, i], X[:, j]):
            assert path.selected.index(i) < path.selected.index(j)


def assert_same_bits(left, right):
    assert left.selected == right.selected
    assert left.lqo_error == right.lqo_error
    assert left.initial_error == right.initial_error
    for a, b in zip(left.weights, right.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_same_paths(left, right):
    for one, other in zip(left, right, strict=True):
        assert_same_bits(one, other)


def assert_same_selection(left, right):
    assert left.selected == right.selected
    np.testing.assert_allclose(left.lqo_error, right.lqo_error, rtol=1e-9)
