"""Greedy RankRLS on data that loses digits: near copies, large means, any scales."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dranking.data.tables.in_memory import from_arrays
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.greedy.selections import LAYOUTS, assert_greedy, select
from tests.reference.greedy import centred_queries, ridge_weights


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("layout", ["C", "CSR"])
def test_near_duplicates_with_a_tiny_lambda_stay_close_to_refits(distance, layout):
    """As in the paper's algorithm, a score may be off by 5e-7 here; the error of a pick may not."""
    rng = np.random.default_rng(19)
    base = rng.uniform(0.25, 0.5, size=(120, 4))
    X = np.hstack([base, base + distance * rng.normal(size=base.shape)]).astype(np.float32)
    y = base @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.1 * rng.normal(size=120)
    query_ptr = np.arange(0, 121, 8)
    dataset = from_arrays(LAYOUTS[layout](X), y, qid=np.repeat(np.arange(15), 8))
    path = select(dataset, 8, 1e-8)
    queries = centred_queries(X, y, query_ptr)
    assert_greedy(path, queries, tolerance=1e-6, error_tolerance=1e-9)


@pytest.mark.parametrize(
    ("mean", "layout", "tolerance"),
    [(1e3, "C", 1e-10), (1e5, "C", 1e-10), (1e3, "CSR", 1e-10), (1e5, "CSR", 1e-9)],
)
def test_means_far_above_the_spread(mean, layout, tolerance):
    problem = random_problem(20, n_features=6)
    moved = problem._replace(X=(problem.X + mean).astype(np.float32))
    path = select(moved.dataset(LAYOUTS[layout]), 6)
    assert_greedy(path, centred_queries(*moved.labelled()), tolerance)


@given(
    problem=ranking_problems(),
    powers=st.lists(st.integers(-6, 6), min_size=5, max_size=5),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_features_of_any_scale_stay_close_to_refits(problem, powers, regularization, layout):
    """Gram matrices lose digits with their condition number, so the tolerance grows with it."""
    scales = 10.0 ** np.array(powers[: problem.X.shape[1]])
    scaled = problem._replace(X=(problem.X * scales).astype(np.float32))
    X, y, query_ptr, weights = scaled.labelled()
    assume(len(y))
    queries = centred_queries(X, y, query_ptr, weights)
    path = select(scaled.dataset(LAYOUTS[layout]), X.shape[1], regularization)
    assert sorted(path.selected) == list(range(X.shape[1]))
    assert np.isfinite(path.lqo_error).all()
    largest = sum(weight * (X_q**2).sum(axis=0) for X_q, _, weight in queries).max()
    tolerance = 1e-9 + 1e-14 * largest / regularization
    if tolerance < 1e-3:
        assert_greedy(path, queries, tolerance)


@pytest.mark.parametrize("scales", [[1.0, 1e-6, 1e6], [1e9, 1e9, 1.0]])
def test_raw_features_of_any_scale(scales):
    """Features of very different scales and their copies get the weights of ridge regression."""
    problem = random_problem(21, n_features=3)
    X = (problem.X * np.array(scales)).astype(np.float32)
    raw = problem._replace(X=np.hstack([X, X]))
    path = select(raw.dataset(), 6)
    queries = centred_queries(*raw.labelled())
    for t, weights in enumerate(path.weights):
        features = np.concatenate([X_q[:, path.selected[: t + 1]] for X_q, _, _ in queries])
        expected = features @ ridge_weights(queries, path.selected[: t + 1], 1.0)
        np.testing.assert_allclose(features @ weights, expected, rtol=1e-6, atol=1e-6)
