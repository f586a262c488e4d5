"""Models fitted without one query at a time, against solves for each query and set of features."""

import pickle
from functools import partial

import numpy as np
import pytest

from dranking.rankrls.kernels.lqo.held_out import (
    hold_out,
    hold_out_dominant,
    ridge_of,
    score_held_out,
)
from dranking.rankrls.kernels.lqo.orthogonal import LEAST_MARGIN, rotation_of, triangle_of
from dranking.rankrls.kernels.lqo.pair_factor import pair_factor, rotation_of_pairs


def problem(seed=0, t=4, scale=1.0, sizes=(4, 5, 2, 3, 5, 1, 4)):
    """Centred features and labels of some queries."""
    rng = np.random.default_rng(seed)
    queries = []
    for size in sizes:
        X = rng.normal(size=(size, t)) * scale
        queries.append((X - X.mean(axis=0), rng.normal(size=size)))
    return [(X, y - y.mean()) for X, y in queries]


def weights_without(queries, q, features, regularization):
    """Weights of ridge regression on all queries but one."""
    X = np.concatenate([X[:, features] for p, (X, _) in enumerate(queries) if p != q])
    y = np.concatenate([y for p, (_, y) in enumerate(queries) if p != q])
    return np.linalg.solve(X.T @ X + regularization * np.eye(len(features)), X.T @ y)


def rows_of(queries):
    """Rows [X y] of all queries, and offsets."""
    ptr = np.concatenate(([0], np.cumsum([len(y) for _, y in queries])))
    return np.concatenate([np.column_stack(query) for query in queries]), ptr


def assert_without(queries, q, regularization, group, place):
    """Weights, residual norm and residual norms without each feature are the values of solves."""
    X, y = queries[q]
    t = X.shape[1]
    w = weights_without(queries, q, range(t), regularization)
    np.testing.assert_allclose(group.weights[place], w, rtol=1e-8)
    errors = [((y - X @ w) ** 2).sum()]
    for j in range(t):
        left = [i for i in range(t) if i != j]
        residual = y - X[:, left] @ weights_without(queries, q, left, regularization)
        errors.append(residual @ residual)
    found = [np.square(group.residuals[place]).sum(), *group.without[place]]
    np.testing.assert_allclose(found, errors, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, np.array([1e-3, 1.0, 30.0, 1e4])])
@pytest.mark.parametrize("regularization", [0.01, 5.0])
def test_models_and_removals_are_those_of_solves(scale, regularization):
    """Queries of one document, of fewer and of more documents than features."""
    queries = problem(scale=scale, sizes=[1, 3, 3, 12, 2, 40, 5, 9])
    rows, ptr = rows_of(queries)
    ridge = ridge_of(triangle_of(rows), regularization)
    seen = []
    for group in hold_out(rows[:, :-1], rows[:, -1], ptr, ridge, removals=True):
        for place, q in enumerate(group.queries.tolist()):
            X = np.delete(rows, slice(ptr[q], ptr[q + 1]), axis=0)[:, :-1]
            system, own = X.T @ X, queries[q][0]
            system.flat[::5] += regularization
            margin = 1 / (1 + np.linalg.eigvals(np.linalg.solve(system, own.T @ own)).real.max())
            assert LEAST_MARGIN < group.margins[place] <= margin * (1.0 + 1e-9)
            assert_without(queries, q, regularization, group, place)
            seen.append(q)
    assert sorted(seen) == list(range(8))


@pytest.mark.parametrize("regularization", [1e-6, 1.0])
def test_a_dominant_query_follows_from_all_other_queries(regularization):
    """The first query alone has the second feature, and is far larger in the others."""
    queries = problem(sizes=[6, 9, 9, 9])
    queries[0] = (queries[0][0] * 1e4, queries[0][1])
    for X, _ in queries[1:]:
        X[:, 1] = 0.0
    rows, ptr = rows_of(queries)
    ridge = ridge_of(triangle_of(rows), regularization)
    margins = np.empty(4)
    for group in hold_out(rows[:, :-1], rows[:, -1], ptr, ridge):
        margins[group.queries] = group.margins
    assert (margins < LEAST_MARGIN).tolist() == [True, False, False, False]
    others = ridge_of(triangle_of(rows[ptr[1] :]), regularization)
    X, y = queries[0]
    assert_without(queries, 0, regularization, hold_out_dominant(X, y, others, removals=True), 0)


def test_copies_share_the_weight_where_lambda_is_lost_in_the_squares():
    """The weights of copies are equal, and without one copy the residual stays."""
    queries = [(X[:, [0, 1, 0]] * 1e12, y) for X, y in problem()]
    rows, ptr = rows_of(queries)
    ridge = ridge_of(triangle_of(rows), 1e-6)
    for group in hold_out(rows[:, :-1], rows[:, -1], ptr, ridge, removals=True):
        np.testing.assert_allclose(group.weights[:, 0], group.weights[:, 2], rtol=1e-9)
        errors = np.square(group.residuals).sum(axis=1)
        np.testing.assert_allclose(group.without[:, [0, 2]], errors[:, None].repeat(2, 1), 1e-12)


@pytest.mark.parametrize("n_features", [0, 2])
def test_features_without_data_have_no_weight(n_features):
    queries = [(np.zeros((len(y), n_features)), y) for _, y in problem()]
    rows, ptr = rows_of(queries)
    ridge = ridge_of(triangle_of(rows), 1.0)
    for group in hold_out(rows[:, :-1], rows[:, -1], ptr, ridge, removals=True):
        expected = np.array([queries[q][1] @ queries[q][1] for q in group.queries])
        np.testing.assert_allclose(group.without, expected[:, None].repeat(n_features, axis=1))
        assert not group.weights.any()


def test_scores_use_the_weights_of_their_query():
    rng = np.random.default_rng(2)
    columns = rng.normal(size=(6, 3)).astype(np.float32)
    weights, ptr = rng.normal(size=(2, 3)), np.array([0, 2, 6])
    scores = np.empty(6)
    score_held_out(columns, ptr, weights, scores)
    expected = np.concatenate([columns[:2] @ weights[0], columns[2:] @ weights[1]])
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def pairs_of(factor):
    return np.stack((factor.T @ factor, np.zeros(factor.shape)))


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    "model_of",
    [
        partial(ridge_of, regularization=0.5),
        lambda factor: rotation_of(factor)[0],
        lambda factor: rotation_of(factor)[1],
        lambda factor: pair_factor(pairs_of(factor)),
        lambda factor: rotation_of_pairs(pair_factor(pairs_of(factor)))[0],
    ],
)
def test_a_model_that_is_sent_to_a_worker_keeps_its_layout(model_of, copies):
    """BLAS adds in another order on another layout: the bits would depend on where a task runs."""
    rows, _ = rows_of([(np.hstack([X] * copies), y) for X, y in problem()])
    model = model_of(triangle_of(rows))
    sent = pickle.loads(pickle.dumps(model))
    for name, here, there in zip(model._fields, model, sent, strict=True):
        assert np.asarray(here).strides == np.asarray(there).strides, name
