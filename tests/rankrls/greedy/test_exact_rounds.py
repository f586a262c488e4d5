"""Selections among raw columns that are sums and multiples of others: exact, and in few passes."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from dranking.errors import AccuracyWarning
from dranking.rankrls.greedy import certificate
from dranking.rankrls.greedy.estimator import warn_of_rounding
from dranking.rankrls.greedy.exact_rounds import ExactRounds
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.held_out import Verified
from tests.models.problems import Problem
from tests.rankrls.greedy.selections import assert_same_paths
from tests.rankrls.raw_checks import assert_best_picks
from tests.rankrls.raw_problems import relative_error
from tests.reference.exact_selection import ExactRefits, to_float


def collinear_problem(seed, n_queries, n_base, n_features):
    """Base columns of raw units; the others are float32 sums and multiples of base columns."""
    rng = np.random.default_rng(seed)
    m = 12 * n_queries
    X = np.empty((m, n_features), dtype=np.float32)
    logs = rng.normal(0.0, 1.0, (m, n_base))
    X[:, :n_base] = np.exp(logs) * 10.0 ** rng.uniform(-3.0, 9.0, n_base)
    for j in range(n_base, n_features):
        a, b = rng.choice(n_base, 2, replace=False)
        X[:, j] = X[:, a] * np.float32(1.024) if j % 4 > 1 else X[:, a] + X[:, b]
    y = np.digitize(logs[:, :3].sum(axis=1) + rng.normal(0.0, 2.0, m), [-1.0, 1.0, 3.0])
    return Problem(X, y.astype(np.float64), np.full(n_queries, 12), np.ones(n_queries))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_all_picks_among_columns_that_depend_on_each_other_are_exact(layout):
    """Sums of products in float64 leave the state no digit from round 5 on; nothing is in doubt."""
    problem = collinear_problem(0, 8, 5, 10)
    for regularization in (2.0**-10, 1.0):
        [path] = select_paths(problem.dataset(layout), [regularization], SelectionRules(10)).paths
        with warnings.catch_warnings():
            warnings.simplefilter("error", AccuracyWarning)
            warn_of_rounding(path, [])
        assert max(doubt.share for doubt in path.doubts) <= 1e-9
        refits = ExactRefits(*problem.labelled(), regularization)
        for kept, error in zip(path.kept, path.lqo_error, strict=True):
            assert relative_error(error, to_float(refits.error(kept))) <= 1e-9
        assert_best_picks(refits, path)
        weights = np.zeros(10)
        weights[path.kept[-1]] = path.weights[-1]
        assert refits.prediction_distance(weights) <= 1e-9


@pytest.mark.parametrize("lambdas", [[1.0], [2.0**-4, 2.0**6]])
def test_passes_do_not_grow_with_rounds_in_doubt(lambdas):
    """At most 1.5 passes a pick for all lambdas; these took 2.1, for each of the lambdas."""
    problem = collinear_problem(1, 60, 40, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = select_paths(problem.dataset(), lambdas, SelectionRules(60))
    assert found.n_passes <= 1.5 * 60
    assert found.n_passes <= 20
    for path in found.paths:
        assert path.relative_rounding <= 1e-6
        assert np.isfinite(path.lqo_error).all()


def test_rows_that_do_not_fit_into_memory_are_computed_again(monkeypatch):
    problem = collinear_problem(2, 20, 10, 16)
    expected = select_paths(problem.dataset(), [1.0], SelectionRules(16))
    of = ExactRounds.of
    monkeypatch.setattr(ExactRounds, "of", lambda tiles, n_bytes_left: of(tiles, 0))
    found = select_paths(problem.dataset(), [1.0], SelectionRules(16))
    assert_same_paths(found.paths, expected.paths)
    assert found.n_passes > expected.n_passes


@pytest.mark.parametrize("keeps", [True, False])
def test_features_in_several_blocks_take_the_same_rounds(keeps, monkeypatch):
    """The rows of all features are kept with the first block of features of each tile."""
    problem = collinear_problem(2, 20, 10, 16)
    data = problem.dataset(max_documents=60)
    [expected] = select_paths(data, [1.0], SelectionRules(16)).paths
    if not keeps:
        of = ExactRounds.of
        monkeypatch.setattr(ExactRounds, "of", lambda tiles, n_bytes_left: of(tiles, 0))
    [path] = select_paths(data, [1.0], SelectionRules(16), feature_blocks=3).paths
    assert path.kept == expected.kept
    np.testing.assert_allclose(path.lqo_error, expected.lqo_error, rtol=1e-9)
    np.testing.assert_allclose(path.weights[-1], expected.weights[-1], rtol=1e-6)


def test_a_round_keeps_the_errors_with_the_least_rounding(monkeypatch):
    """Orthogonal factors of single queries are asked, and know less than the factor of all."""

    def knows_nothing(run, kept):
        return [Verified(9.0, 9e9, np.zeros(len(each)), np.zeros(len(each)), []) for each in kept]

    monkeypatch.setattr(certificate, "from_factors", knows_nothing)
    data = collinear_problem(1, 150, 40, 136).dataset()
    [path] = select_paths(data, [1.0], SelectionRules(4)).paths
    assert path.relative_rounding <= 1e-4
    assert min(path.lqo_error) > 9.0
    assert max(doubt.share for doubt in path.doubts) <= 1e-4
