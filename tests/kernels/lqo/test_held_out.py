"""Models fitted without one query at a time, against solves for each query and set of features."""

import numpy as np
import pytest

from dranking.kernels.lqo.held_out import (
    KeptTotals,
    fit_held_out,
    inverses_of,
    removal_errors,
    score_held_out,
)


def problem(seed=0, n_queries=7, t=4, scale=1.0):
    """Centred features and labels of some queries."""
    rng = np.random.default_rng(seed)
    queries = []
    for size in rng.integers(1, 6, n_queries):
        X = rng.normal(size=(size, t)) * scale
        queries.append((X - X.mean(axis=0), rng.normal(size=size)))
    return [(X, y - y.mean()) for X, y in queries]


def statistics(queries, regularization):
    grams = np.array([X.T @ X for X, _ in queries])
    products = np.array([X.T @ y for X, y in queries])
    norms = np.array([y @ y for _, y in queries])
    totals = KeptTotals(grams.sum(axis=0), products.sum(axis=0), regularization)
    return (grams, products, norms, totals)


def weights_without(queries, q, features, regularization):
    """Weights of ridge regression on all queries but one."""
    X = np.concatenate([X[:, features] for p, (X, _) in enumerate(queries) if p != q])
    y = np.concatenate([y for p, (_, y) in enumerate(queries) if p != q])
    return np.linalg.solve(X.T @ X + regularization * np.eye(len(features)), X.T @ y)


@pytest.mark.parametrize("scale", [1.0, np.array([1e-3, 1.0, 30.0, 1e4])])
@pytest.mark.parametrize("regularization", [0.01, 5.0])
def test_models_and_removals_are_those_of_solves(scale, regularization):
    queries = problem(scale=scale)
    grams, products, norms, totals = statistics(queries, regularization)
    fit = fit_held_out(grams, products, norms, totals)
    for q, (X, y) in enumerate(queries):
        w = weights_without(queries, q, range(4), regularization)
        np.testing.assert_allclose(fit.weights[q], w, rtol=1e-8)
        residual = y - X @ w
        assert fit.errors[q] == pytest.approx(residual @ residual, rel=1e-9, abs=1e-13)
        np.testing.assert_allclose(fit.residual_products[q], X.T @ residual, rtol=1e-7, atol=1e-9)
    for j, error in enumerate(removal_errors(fit, grams)):
        features = [i for i in range(4) if i != j]
        expected = 0.0
        for q, (X, y) in enumerate(queries):
            residual = y - X[:, features] @ weights_without(queries, q, features, regularization)
            expected += residual @ residual
        assert error == pytest.approx(expected, rel=1e-9)


def test_an_inverse_has_no_part_in_what_rounding_made():
    """Two copies and a lambda lost in rounding: as the inverse on what is left of them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    X = np.column_stack([X, X[:, 0]])
    systems = np.array([X.T @ X, np.eye(3)])
    inverses = inverses_of(systems)
    np.testing.assert_allclose(inverses[0], np.linalg.pinv(X.T @ X, rcond=1e-12), rtol=1e-9)
    np.testing.assert_allclose(inverses[1], np.eye(3), atol=1e-15)


def test_no_features_and_no_queries():
    fit = fit_held_out(np.empty((2, 0, 0)), np.empty((2, 0)), np.array([3.0, 1.0]),
                       KeptTotals(np.empty((0, 0)), np.empty(0), 1.0))  # fmt: skip
    assert fit.errors.tolist() == [3.0, 1.0]
    grams, products, norms, totals = statistics(problem(), 1.0)
    fit = fit_held_out(grams[:0], products[:0], norms[:0], totals)
    assert removal_errors(fit, grams[:0]).tolist() == [0.0] * 4


def test_scores_use_the_weights_of_their_query():
    rng = np.random.default_rng(2)
    columns = rng.normal(size=(6, 3)).astype(np.float32)
    weights, ptr = rng.normal(size=(2, 3)), np.array([0, 2, 6])
    scores = np.empty(6)
    score_held_out(columns, ptr, weights, scores)
    expected = np.concatenate([columns[:2] @ weights[0], columns[2:] @ weights[1]])
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
