"""Upcoming picks: predicted right if all queries decide, and without influence on the result."""

from types import SimpleNamespace

import numpy as np
import pytest

from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.sample import sample_of
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.prefetch import PickPredictor
from dranking.rankrls.greedy.selection import select_paths
from tests.engine.executors import Remote
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import assert_same_bits
from tests.rankrls.greedy.wrong_upcoming import WrongPredictor

LAMBDA, SIZE = 0.5, 9


@pytest.fixture(scope="module")
def dataset():
    """Correlated features, so that the best next feature depends on the features selected."""
    problem = random_problem(1, n_queries=80, n_features=24)
    mixed = problem.X @ np.random.default_rng(0).normal(size=(24, 24))
    X = (problem.X + mixed / 6.0).astype(np.float32)
    return problem._replace(X=X).dataset(max_documents=50)


@pytest.fixture(scope="module")
def expected(dataset):
    """A selection that fetches one row in a pass: nothing is computed early."""
    [path] = select_paths(dataset, [LAMBDA], SelectionRules(SIZE, prefetch=1)).paths
    return path


def totals(n=8, seed=0):
    """A and b of a random problem."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, n)) + rng.normal(size=(40, n))
    return X.T @ X, X.T @ (X[:, 1] - X[:, 5] + rng.normal(size=40))


def gram_of(A, b, known, sample=None):
    moments = SimpleNamespace(diagonal=np.diag(A).copy(), products=b, sample=sample)
    rows = {i: A[i].copy() for i in known}
    return SimpleNamespace(totals=rows, moments=moments, n_features=len(b))


def explained(A, b, S):
    """b_S' (A_SS + lambda I)^-1 b_S: by how much the features S lower the error of the fit."""
    inside = A[np.ix_(S, S)] + LAMBDA * np.eye(len(S))
    return b[S] @ np.linalg.solve(inside, b[S]) if S else 0.0


def gains_by_fits(A, b, S, candidates):
    return np.array([explained(A, b, [*S, i]) - explained(A, b, S) for i in candidates])


def picks_by_fits(A, b, S, candidates, number):
    """Forward selection from S on, with a fit for every candidate."""
    S, left = list(S), list(candidates)
    for _ in range(number):
        S.append(left.pop(int(np.argmax(gains_by_fits(A, b, S, left)))))
    return S[len(S) - number :]


@pytest.mark.parametrize("seed", range(5))
def test_with_all_rows_it_is_the_selection_of_the_fit_to_all_queries(seed):
    A, b = totals(seed=seed)
    candidates = np.array([0, 1, 2, 3, 5, 7])
    predictor = PickPredictor(gram_of(A, b, range(8)), LAMBDA, 8)
    for S in ([], [4], [4, 6], [6]):  # not only growing
        gains = gains_by_fits(A, b, S, candidates)
        for number in (1, 4, 6, 9):
            found = predictor.predict(S, candidates, gains, number)
            assert found == picks_by_fits(A, b, S, candidates, min(number, 6))


def test_what_the_criterion_says_differently_now_holds_for_the_next_picks():
    A, b = np.diag([4.0, 3.0, 2.0, 1.0]) - LAMBDA * np.eye(4), np.array([4.0, 3.0, 2.0, 1.0])
    predictor = PickPredictor(gram_of(A, b, range(4)), LAMBDA, 4)
    assert predictor.predict([], np.arange(4), np.array([4.0, 3.0, 2.0, 1.0]), 4) == [0, 1, 2, 3]
    assert predictor.predict([], np.arange(4), np.array([4.0, 1.5, 2.0, 3.5]), 4) == [0, 3, 2, 1]


def test_it_sees_as_far_as_rows_are_known():
    A, b = totals()
    candidates, S = np.arange(8), []
    whole = picks_by_fits(A, b, S, candidates, 8)
    gains = gains_by_fits(A, b, S, candidates)
    for seen in range(8):
        predictor = PickPredictor(gram_of(A, b, whole[:seen]), LAMBDA, 8)
        assert predictor.predict(S, candidates, gains, 8) == whole[: seen + 1]


@pytest.mark.parametrize("executor", [Remote(2), ThreadExecutor(2)])
def test_a_sample_of_all_documents_serves_as_well_as_rows(executor):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(60, 6))
    X = X.astype(np.float32)
    X[:, 4] = 0.0
    dataset = from_arrays(X, rng.normal(size=60), np.arange(60) // 30, max_documents=30)
    sample = sample_of(Tiles(dataset, executor))
    Z = np.concatenate([part - part.mean(axis=0) for part in np.split(X.astype(np.float64), 2)])
    A, b = Z.T @ Z, rng.normal(size=6)
    gains = gains_by_fits(A, b, [], range(6))
    predictor = PickPredictor(gram_of(A, b, [], sample), LAMBDA, 6)
    assert predictor.predict([], np.arange(6), gains, 6) == picks_by_fits(A, b, [], range(6), 6)


@pytest.mark.parametrize(
    "search", ["forward", pytest.param("floating", marks=pytest.mark.exhaustive)]
)
def test_no_prediction_changes_a_bit(dataset, search, monkeypatch):
    lambdas = [0.01, LAMBDA, 30.0]

    def assert_same_paths(n_rows):
        rules = SelectionRules(SIZE, search=search, prefetch=n_rows)
        for found, other in zip(select_paths(dataset, lambdas, rules).paths, expected, strict=True):
            assert_same_bits(found, other)

    rules = SelectionRules(SIZE, search=search, prefetch=1)
    expected = select_paths(dataset, lambdas, rules).paths
    assert_same_paths(24)
    monkeypatch.setattr("dranking.rankrls.greedy.forward.PickPredictor", WrongPredictor)
    for n_rows in (3, 5, 24):
        assert_same_paths(n_rows)


def test_several_rounds_are_one_update(dataset, expected):
    found = select_paths(dataset, [LAMBDA], SelectionRules(SIZE, prefetch=SIZE))
    assert_same_bits(found.paths[0], expected)
    assert found.traffic["update"].n_operations <= SIZE // 2
    assert found.n_passes <= 4


def test_predictions_without_each_query_survive_picks_that_were_wrong(dataset, monkeypatch):
    def squares(block, scores):
        return (scores**2).sum(axis=1)

    rules = SelectionRules(SIZE, patience=2, prefetch=1)
    [expected] = select_paths(dataset, [30.0], rules, measure=squares).paths
    monkeypatch.setattr("dranking.rankrls.greedy.forward.PickPredictor", WrongPredictor)
    for _ in range(4):
        rules = SelectionRules(SIZE, patience=2, prefetch=24)
        [found] = select_paths(dataset, [30.0], rules, measure=squares).paths
        np.testing.assert_array_equal(found.measured, expected.measured)


def test_features_to_begin_with_are_one_update(dataset):
    rules = SelectionRules(5, start=[3, 17, 8, 20, 1], prefetch=5)
    found = select_paths(dataset, [LAMBDA], rules)
    assert found.traffic["update"].n_operations == 1
    alone = select_paths(dataset, [LAMBDA], SelectionRules(5, start=[3, 17, 8, 20, 1], prefetch=1))
    assert_same_bits(found.paths[0], alone.paths[0])
