"""Greedy RankRLS that chooses lambda and the number of features by its own criterion."""

import numpy as np
import pytest

import dranking as dr
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import LAYOUTS
from tests.rankrls.greedy.test_estimator import noise_that_raises_the_error
from tests.reference.greedy import centred_queries, held_out_error, naive_scores, ridge_weights

LAMBDAS = [0.01, 1.0, 30.0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lambda_and_size_are_chosen_by_the_squared_error(tmp_path, layout, monkeypatch):
    # Scores of sparse data without a state are rounded differently from those of statistics.
    monkeypatch.setattr("dranking.rankrls.leave_query_out.memory_plan.needs_of", Needs)
    problem = random_problem(11, n_queries=14, n_features=6, max_documents=7)
    queries = centred_queries(*problem.labelled())
    dataset = problem.dataset(LAYOUTS[layout], max_documents=20)
    store = build_statistics(dataset, tmp_path / "store")
    ranker = dr.GreedyRankRLSCV(4, LAMBDAS).fit(store)
    errors = np.empty((3, 4))
    for row, value in enumerate(LAMBDAS):
        chosen: list[int] = []
        for k in range(4):
            scores = naive_scores(queries, chosen, value)
            chosen.append(min(scores, key=lambda i: (scores[i], i)))
            errors[row, k] = scores[chosen[-1]]
        assert ranker.paths_[row].selected == chosen
    np.testing.assert_allclose(ranker.lqo_error_, errors, rtol=1e-9)
    row, k = np.unravel_index(np.argmin(errors), errors.shape)
    assert ranker.regularization_ == LAMBDAS[row]
    assert ranker.selected_ == ranker.paths_[row].selected[: k + 1]
    expected = ridge_weights(queries, ranker.selected_, LAMBDAS[row])
    np.testing.assert_allclose(ranker.coef_[ranker.selected_], expected, rtol=1e-9)
    from_data = dr.GreedyRankRLSCV(4, LAMBDAS).fit(dataset)
    np.testing.assert_array_equal(from_data.coef_, ranker.coef_)


def test_features_to_begin_with_stay_though_fewer_have_a_smaller_error():
    problem, start = noise_that_raises_the_error(), [0, 2]
    queries = centred_queries(*problem.labelled())
    assert held_out_error(queries, start[:1], 1.0) < held_out_error(queries, start, 1.0)
    ranker = dr.GreedyRankRLSCV(3, [1.0], start=start).fit(problem.dataset())
    assert ranker.selected_[:2] == start
    expected = ridge_weights(queries, ranker.selected_, 1.0)
    np.testing.assert_allclose(ranker.coef_[ranker.selected_], expected, rtol=1e-9)
