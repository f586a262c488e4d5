"""Exact leave-query-out errors of RankRLS, and its solvers, against refits."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.engine.tiles import Tiles
from dranking.errors import AccuracyWarning
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.raw_problems import drawn_problem
from tests.reference.greedy import centred_queries, held_out_error, ridge_weights

GRID = [2.0**-8, 0.5, 1.0, 2.0**6, 2.0**12]


@given(ranking_problems(max_queries=6), st.sampled_from([np.asarray, sparse.csr_array]))
def test_errors_are_those_of_refits(problem, layout):
    X, y, query_ptr, weights = problem.labelled()
    if not len(y):
        return
    queries = centred_queries(X, y, query_ptr, weights)
    everything = range(X.shape[1])
    ranker = dr.RankRLSCV(GRID).fit(problem.dataset(layout, max_documents=7))
    floor = 1e-11 * sum(weight * labels @ labels for _, labels, weight in queries)
    for value, error in zip(GRID, ranker.lqo_error_, strict=True):
        expected = held_out_error(queries, everything, value)
        assert error == pytest.approx(expected, rel=1e-9, abs=floor)


@pytest.mark.parametrize(("max_documents", "n_features"), [(4, 30), (40, 6), (14, 14)])
def test_small_and_large_queries(max_documents, n_features):
    problem = random_problem(
        1, n_queries=25, n_features=n_features, max_documents=max_documents, zeros=0.3
    )
    queries = centred_queries(*problem.labelled())
    ranker = dr.RankRLSCV(GRID).fit(problem.dataset(max_documents=50))
    expected = [held_out_error(queries, range(n_features), value) for value in GRID]
    np.testing.assert_allclose(ranker.lqo_error_, expected, rtol=1e-9)
    assert ranker.regularization_ == GRID[int(np.argmin(expected))]
    weights = ridge_weights(queries, range(n_features), ranker.regularization_)
    np.testing.assert_allclose(ranker.coef_, weights, rtol=1e-8, atol=1e-10)


def test_greedy_selection_of_all_features_ends_at_the_same_error():
    """The two algorithms share no formula."""
    problem = random_problem(2, n_queries=60, n_features=10)
    found = dr.GreedyRankRLS(10, 4.0, search=dr.Search(patience=None))
    with pytest.warns(dr.errors.SelectionWarning):
        found.fit(problem.dataset())
    [error] = dr.RankRLSCV([4.0]).fit(problem.dataset()).lqo_error_
    assert error == pytest.approx(found.lqo_error_[-1], rel=1e-10)


def test_ties_go_to_the_smallest_lambda():
    X = np.ones((6, 2), dtype=np.float32)
    ranker = dr.RankRLSCV([4.0, 2.0, 8.0]).fit(X, [0, 1, 0, 1, 0, 1], qid=[1, 1, 2, 2, 3, 3])
    assert len(set(ranker.lqo_error_)) == 1
    assert ranker.regularization_ == 2.0


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("value", [0.1, 100.0])
def test_conjugate_gradients_find_the_direct_solution(layout, value):
    problem = random_problem(3, n_queries=30, n_features=20, zeros=0.5)
    dataset = problem.dataset(layout, max_documents=60)
    direct = dr.RankRLS(value, solver="direct").fit(dataset)
    iterated = dr.RankRLS(value, solver="cg").fit(dataset)
    np.testing.assert_allclose(iterated.coef_, direct.coef_, rtol=1e-8, atol=1e-10)
    assert iterated.objective_ == pytest.approx(direct.objective_, rel=1e-10)


def test_many_features_take_conjugate_gradients(monkeypatch):
    monkeypatch.setattr("dranking.rankrls.normal_equations.MAX_DIRECT_FEATURES", 19)
    monkeypatch.setattr("dranking.rankrls.normal_equations.DirectSolver", None)
    problem = random_problem(4, n_features=20)
    weights = ridge_weights(centred_queries(*problem.labelled()), range(20), 1.0)
    np.testing.assert_allclose(dr.RankRLS().fit(problem.dataset()).coef_, weights, rtol=1e-8)


def test_conjugate_gradients_that_do_not_converge_are_an_error(monkeypatch):
    monkeypatch.setattr("dranking.rankrls.normal_equations.CG_STEPS_PER_FEATURE", 0.1)
    problem = random_problem(5, n_features=8)
    with pytest.raises(
        dr.DrankingError, match=r"did not converge .*\(--normalize standard, in Python"
    ):
        dr.RankRLS(1e-3, solver="cg").fit(problem.dataset())


def test_errors_and_the_model_take_two_passes(monkeypatch):
    """The normal equations of the model are summed beside the sums of the errors."""
    passes, sum_blocks = [], Tiles.sum_blocks

    def counted(tiles, *values, name, **options):
        passes.append(name)
        return sum_blocks(tiles, *values, name=name, **options)

    monkeypatch.setattr(Tiles, "sum_blocks", counted)
    dr.RankRLSCV(GRID).fit(random_problem(6, n_queries=20, n_features=9).dataset())
    assert passes == ["sums-of-rows", "leave-query-out"]


@pytest.mark.parametrize("value", [2.0**-15, 1.0])
@pytest.mark.parametrize("kind", ["plain", "raw", "store", "raw store", "wide", "wide store"])
def test_one_lambda_gives_the_model_of_rankrls_to_the_last_bit(kind, value, tmp_path, monkeypatch):
    """Both take the normal equations, and sums with 32 digits where these lose digits."""
    raw = drawn_problem(8, 12)[0]
    problem = raw if "raw" in kind else random_problem(6, n_queries=20, n_features=9)
    data = problem.dataset(max_documents=60)
    if "store" in kind:
        data = build_statistics(data, tmp_path / "store")
    if "wide" in kind:
        monkeypatch.setattr("dranking.rankrls.gram.triangular_factor.MAX_WIDE_FEATURES", 1)
        monkeypatch.setattr("dranking.rankrls.gram.triangular_factor.DOCUMENTS_PER_FEATURE", 10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        plain, chosen = dr.RankRLS(value).fit(data), dr.RankRLSCV([value]).fit(data)
    np.testing.assert_array_equal(chosen.coef_, plain.coef_)
    assert chosen.objective_ == plain.objective_
    assert chosen.relative_rounding_ >= plain.relative_rounding_
