"""Leave-query-out predictions with each candidate, from one factor; against refits."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from dranking.engine.choose_executor import get_executor
from dranking.engine.tiles import Tiles
from dranking.rankrls.leave_query_out import predictions
from tests.models.problems import Problem, random_problem
from tests.reference.greedy import centred_queries, ridge_weights

LAMBDA = 0.5


def scores_of_refits(problem, subset):
    """Score of every labelled document by the model that is fitted without its query."""
    X, y, query_ptr, weights = problem.labelled()
    queries, scores = centred_queries(X, y, query_ptr, weights), np.empty(len(y))
    for q, (first, last) in enumerate(pairwise(query_ptr)):
        w = ridge_weights(queries[:q] + queries[q + 1 :], subset, LAMBDA)
        scores[first:last] = X[first:last][:, subset].astype(np.float64) @ w
    return scores


def powers(block, scores):
    """Sums of the scores, and of their squares and cubes, of each model."""
    return np.array([scores.sum(axis=1), (scores**2).sum(axis=1), (scores**3).sum(axis=1)])


def check(problem, selected, candidates, layout=np.asarray):
    """Compare the sums with the sums over refits."""
    tiles = Tiles(problem.dataset(layout, max_documents=20), get_executor("threads"))
    found = predictions.measure_additions(tiles, selected, candidates, LAMBDA, powers)
    scores = np.array([scores_of_refits(problem, [*selected, i]) for i in candidates])
    np.testing.assert_allclose(found, powers(None, scores), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("selected", [[], [4], [6, 1, 3]])
def test_one_factor_serves_all_candidates(selected, layout, monkeypatch):
    monkeypatch.setattr(predictions, "measure_sets", None)  # which is for models in doubt
    check(random_problem(5, n_queries=14, n_features=7), selected, [0, 2, 5], layout)


@pytest.mark.parametrize("kind", ["a copy", "no data", "one query", "nearly a copy"])
def test_models_in_doubt_have_factors_of_their_own(kind):
    X, y, sizes, weights = random_problem(6, n_queries=10, n_features=5)
    X = X.copy()
    if kind == "one query":  # which alone determines the candidate
        X[sizes[0] :, 2] = 0.0
        X[: sizes[0], 2] *= 1e6
    else:
        X[:, 2] = X[:, 4] * (0.0 if kind == "no data" else 1.0)
    if kind == "nearly a copy":
        X[0, 2] = np.nextafter(X[0, 2], np.float32(9))
    check(Problem(X, y, sizes, weights), [4, 0], [2, 1])


def test_features_of_very_different_size_keep_their_digits(monkeypatch):
    monkeypatch.setattr(predictions, "measure_sets", None)
    X, y, sizes, weights = random_problem(7, n_queries=12, n_features=6)
    scaled = (X * np.float32(4.0) ** np.array([9, -9, 0, 5, -5, 1])).astype(np.float32)
    # Without a penalty to speak of, no scale changes a prediction: refits of the plain features.
    tiles, plain = (
        Tiles(Problem(each, y, sizes, weights).dataset(), get_executor("threads"))
        for each in (scaled, X)
    )
    found, expected = (
        predictions.measure_additions(each, [0, 1], [2, 3, 4, 5], 1e-25, powers)
        for each in (tiles, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8)
