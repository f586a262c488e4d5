"""RankRLS with weights that may not be negative, against all sets of weights at 0 and SciPy."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given
from scipy.optimize import lsq_linear

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.raw_problems import drawn_problem
from tests.reference.signed_rankrls import signed_ridge, stacked_pairs


@given(
    problem=ranking_problems(),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    max_documents=st.integers(1, 12),
    data=st.data(),
)
def test_weights_are_the_best_of_all_sets_at_zero(problem, regularization, max_documents, data):
    assume(not np.isnan(problem.y).all())
    restricted = data.draw(st.sets(st.integers(0, problem.X.shape[1] - 1), max_size=3))
    ranker = dr.RankRLS(regularization, non_negative=sorted(restricted))
    ranker.fit(problem.dataset(max_documents=max_documents))
    X, y, query_ptr, query_weights = problem.labelled()
    expected = signed_ridge(X, y, query_ptr, regularization, sorted(restricted), query_weights)
    np.testing.assert_allclose(ranker.coef_, expected, rtol=1e-8, atol=1e-9)
    assert (ranker.coef_[sorted(restricted)] >= 0.0).all()
    assert {*ranker.at_zero_} <= restricted
    assert not ranker.coef_[ranker.at_zero_].any()


@pytest.mark.parametrize("regularization", [2.0**-10, 1.0, 2.0**5])
def test_weights_are_those_of_bounded_least_squares_over_pairs(regularization):
    problem = random_problem(1, n_features=30, zeros=0.3)
    ranker = dr.RankRLS(regularization, non_negative=range(20)).fit(problem.dataset())
    problem = problem._replace(weights=np.ones(len(problem.sizes)))
    ranker.fit(problem.dataset())
    X, y, query_ptr, _ = problem.labelled()
    low = np.where(np.arange(30) < 20, 0.0, -np.inf)
    found = lsq_linear(
        *stacked_pairs(X.astype(float), y, query_ptr, regularization),
        (low, np.inf), method="bvls", tol=1e-15,
    )  # fmt: skip
    np.testing.assert_allclose(ranker.coef_, found.x, rtol=1e-8, atol=1e-10)
    assert ranker.objective_ == pytest.approx(2.0 * found.cost, rel=1e-10)
    assert 0 < len(ranker.at_zero_) < 20
    assert ranker.relative_rounding_ < 1e-9


@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("seed", [0, 3, 5, 8])
def test_raw_features_have_the_signs_of_exact_arithmetic(seed):
    """Columns from 1e-3 to 1e9, of which some are sums of others, so that A has no digits."""
    problem, data, regularization = drawn_problem(seed, 9, 6)
    restricted = [0, 2, 4, 5, 7]
    X, y, query_ptr, query_weights = problem.labelled()
    expected = signed_ridge(X, y, query_ptr, regularization, restricted, query_weights)
    ranker = dr.RankRLS(regularization, non_negative=restricted).fit(data)
    assert (ranker.coef_[restricted] >= 0.0).all()
    firsts = np.repeat(query_ptr[:-1], np.diff(query_ptr))  # less large numbers are rounded less
    differences = X.astype(float) - X[firsts].astype(float)
    off = np.linalg.norm(differences @ (ranker.coef_ - expected)) / np.linalg.norm(y)
    assert off <= ranker.relative_rounding_ < 1e-6


@pytest.mark.parametrize("kind", ["threads", "store"])
def test_tiles_threads_and_stores_give_the_same_weights(kind, tmp_path, monkeypatch):
    data = random_problem(3, n_queries=90).dataset(max_documents=20)
    ranker = dr.RankRLS(non_negative=["f1", "f2", "f3", "f4"])
    expected = ranker.fit(data, executor=ThreadExecutor(2)).coef_
    assert 0 < len(ranker.at_zero_) < 4
    if kind == "store":
        found = ranker.fit(build_statistics(data, tmp_path / "store")).coef_
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        return
    monkeypatch.setattr("dranking.engine.tile_layout.MAX_TILE_BYTES", 1)
    monkeypatch.setattr("dranking.engine.tile_layout.TILES_PER_SLOT", 1)
    found = ranker.fit(data, executor=ThreadExecutor(3)).coef_
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("regularization", [1.0, 2.0**-40])
def test_all_weights_may_be_kept_at_zero(regularization):
    """With the small lambda, the columns depend on each other up to rounding."""
    X = np.array([[1.0, 3.0], [0.0, 0.0]], dtype=np.float32)
    ranker = dr.RankRLS(regularization, non_negative=[0, 1]).fit(X, [0, 1], qid=[1, 1])
    assert ranker.at_zero_ == [0, 1]
    assert not ranker.coef_.any()
    assert ranker.objective_ == 0.5  # y.y


def test_the_model_says_which_weights_the_constraint_keeps_at_zero():
    problem = random_problem(3, n_queries=90)
    ranker = dr.RankRLS(non_negative=["f1", "f2", "f3", "f4"], normalize="standard")
    model = ranker.fit(problem.dataset()).to_model()
    names = [f"f{i + 1}" for i in ranker.at_zero_]
    assert model.provenance["at_zero"] == names
    assert not {*names} & {*model.feature_names}
    with pytest.raises(dr.UsageError, match="without constraints"):
        dr.leave_query_out_scores(ranker, problem.dataset())


def test_signs_that_rounding_leaves_open_are_refused(tmp_path):
    """A statistics store has no documents, from which sums with 32 digits would follow."""
    _, data, regularization = drawn_problem(5, 9, 6)
    store = build_statistics(data, tmp_path / "store")
    with pytest.raises(dr.DrankingError, match="rounding leaves it open which weights"):
        dr.RankRLS(regularization, non_negative=[0]).fit(store)
