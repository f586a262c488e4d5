"""RankRLS against the sum over document pairs that it minimises."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.errors import AccuracyWarning
from dranking.rankrls.gram.rows import ridge_weights
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.kernels.far_columns import NOTHING_FAR, far_columns
from dranking.rankrls.kernels.gram.per_query import residual_sums
from dranking.rankrls.kernels.relative_products import shifted_strips
from dranking.rankrls.normal_equations import DirectSolver
from tests.models.problems import Problem, random_problem, ranking_problems
from tests.reference.exact_selection import ExactRefits
from tests.reference.greedy import centred_queries
from tests.reference.greedy import ridge_weights as refitted_weights
from tests.reference.rankrls import pairwise_ridge

LAYOUTS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "CSR": sparse.csr_array}


def fit(dataset, regularization=1.0, **options):
    return dr.RankRLS(regularization).fit(dataset, **options)


@given(
    problem=ranking_problems(),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    layout=st.sampled_from(sorted(LAYOUTS)),
    max_documents=st.integers(1, 12),
)
def test_weights_minimise_the_pairwise_loss(problem, regularization, layout, max_documents):
    assume(not np.isnan(problem.y).all())
    model = fit(problem.dataset(LAYOUTS[layout], max_documents=max_documents), regularization)
    weights, objective = pairwise_ridge(
        *problem.labelled()[:3], regularization, problem.labelled()[3]
    )
    np.testing.assert_allclose(model.coef_, weights, rtol=1e-8, atol=1e-9)
    assert model.objective_ == pytest.approx(objective, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("regularization", [2.0**-15, 1.0, 2.0**15])
def test_weights_are_those_of_least_squares(regularization):
    problem = random_problem(1, zeros=0.3)
    model = fit(problem.dataset(), regularization)
    queries = centred_queries(*problem.labelled())
    expected = refitted_weights(queries, range(12), regularization)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-10)


@pytest.mark.parametrize("max_documents", [1, 13, 10**6])
def test_block_layout_changes_next_to_nothing(max_documents):
    problem = random_problem(2)
    np.testing.assert_allclose(
        fit(problem.dataset(max_documents=max_documents)).coef_,
        fit(problem.dataset(max_documents=50)).coef_,
        rtol=1e-12,
    )


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("tile_bytes", [1, 2**28])
def test_threads_and_tiles_change_no_bit(n_threads, tile_bytes, monkeypatch):
    dataset = random_problem(3, n_queries=90).dataset(max_documents=20)
    expected = fit(dataset, executor=ThreadExecutor(2))
    monkeypatch.setattr("dranking.engine.tile_layout.MAX_TILE_BYTES", tile_bytes)
    monkeypatch.setattr("dranking.engine.tile_layout.TILES_PER_SLOT", 1)
    found = fit(dataset, executor=ThreadExecutor(n_threads))
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.objective_ == expected.objective_


def test_order_of_queries_and_documents_changes_next_to_nothing():
    problem = random_problem(4)
    backwards = Problem(
        problem.X[::-1], problem.y[::-1], problem.sizes[::-1], problem.weights[::-1]
    )
    np.testing.assert_allclose(
        fit(backwards.dataset()).coef_, fit(problem.dataset()).coef_, rtol=1e-11
    )


def test_weight_two_is_the_query_twice_and_weight_zero_is_no_query():
    problem = random_problem(5, n_queries=30)
    times = np.arange(30) % 3
    borders = np.cumsum(problem.sizes)[:-1]
    parts = zip(np.split(problem.X, borders), np.split(problem.y, borders), times, strict=True)
    X, y, sizes = [], [], []
    for X_q, y_q, n_times in parts:
        X += [X_q] * n_times
        y += [y_q] * n_times
        sizes += [len(y_q)] * n_times
    copied = Problem(np.vstack(X), np.concatenate(y), np.array(sizes), np.ones(len(sizes)))
    weighted = problem._replace(weights=times.astype(float))
    np.testing.assert_allclose(
        fit(weighted.dataset()).coef_, fit(copied.dataset()).coef_, rtol=1e-11
    )


def test_unlabelled_documents_and_single_documents_change_next_to_nothing():
    problem = random_problem(6)
    rng = np.random.default_rng(0)
    more = Problem(
        np.vstack([problem.X, rng.normal(size=(5, 12))]).astype(np.float32),
        np.concatenate([problem.y, [2.0, np.nan, np.nan, 1.0, np.nan]]),
        np.concatenate([problem.sizes, [1, 2, 2]]),
        np.concatenate([problem.weights, [1.0, 1.0, 1.0]]),
    )
    np.testing.assert_allclose(fit(more.dataset()).coef_, fit(problem.dataset()).coef_, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_a_feature_constant_within_every_query_weighs_nothing(solver, layout):
    problem, rng = random_problem(7, n_features=5), np.random.default_rng(0)
    X = problem.X.copy()
    X[:, 1] = 7.25
    X[:, 2] = np.repeat(rng.normal(size=40), problem.sizes)
    X[:, 3] = np.repeat(1.7e9 + rng.integers(0, 10**6, 40), problem.sizes)
    model = dr.RankRLS(1e-3, solver).fit(problem._replace(X=X).dataset(LAYOUTS[layout]))
    np.testing.assert_array_equal(model.coef_[[1, 2, 3]], 0.0)
    assert model.relative_rounding_ <= 1e-9
    assert model.coef_[[0, 4]].all()


def test_any_shift_of_a_query_changes_next_to_nothing():
    """Grades and features count only by their differences within a query."""
    problem = random_problem(8)
    rng = np.random.default_rng(1)
    shift = np.repeat(rng.integers(-3, 4, size=(40, 1)) * 1.0, problem.sizes, axis=0)
    rounded = problem._replace(X=np.round(problem.X * 64) / 64)
    moved = rounded._replace(
        X=(rounded.X + 1024 * shift).astype(np.float32), y=rounded.y + shift[:, 0]
    )
    np.testing.assert_allclose(fit(moved.dataset()).coef_, fit(rounded.dataset()).coef_, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e9])
def test_copies_share_a_weight_whatever_their_scale(scale):
    problem = random_problem(9, n_features=2)
    X = (problem.X * scale).astype(np.float32)
    alone = fit(problem._replace(X=X).dataset(), 2.0**-15)
    # A feature given three times acts as one with a third of the regularization.
    model = fit(problem._replace(X=np.hstack([X] * 3)).dataset(), 3 * 2.0**-15)
    np.testing.assert_allclose(model.coef_, np.tile(alone.coef_ / 3, 3), rtol=1e-6)


def test_features_of_very_different_scales():
    problem = random_problem(10, n_features=5)
    scales = np.array([1e-6, 1e-3, 1.0, 1e3, 1e6])
    raw = problem._replace(X=(problem.X * scales).astype(np.float32))
    queries = centred_queries(*raw.labelled())
    expected = refitted_weights(queries, range(5), 2.0**-15)
    np.testing.assert_allclose(fit(raw.dataset(), 2.0**-15).coef_, expected, rtol=1e-9)


def test_many_lambdas_from_one_pass():
    dataset = random_problem(11).dataset()
    normal = DirectSolver.of(dataset, get_executor("threads"))
    for regularization in 2.0 ** np.arange(-15, 16, 5):
        np.testing.assert_array_equal(
            normal.solve(regularization), fit(dataset, regularization).coef_
        )


def test_directions_lost_in_rounding_get_no_weight():
    """[1, -1] is an eigenvector of 0 + lambda, which 1e20 + lambda cannot hold."""
    gram = np.full((2, 2), 1e20)
    weights = ridge_weights(gram, np.array([3e20, 3e20 + 2**17]), 1.0)
    np.testing.assert_allclose(weights, 1.5, rtol=1e-12)


def test_the_diagonal_may_span_many_orders():
    diagonal = 10.0 ** np.array([-30, -6, 0, 6, 18])
    weights = ridge_weights(np.diag(diagonal), np.ones(5), 1e-20)
    np.testing.assert_allclose(weights, 1.0 / (diagonal + 1e-20), rtol=1e-14)


def test_data_without_features_or_labels_is_refused():
    with pytest.raises(dr.DataError, match=r"0 feature\(s\)"):
        dr.RankRLS().fit(np.empty((3, 0), dtype=np.float32), [0, 1, 2], qid=[1, 1, 1])
    with pytest.raises(dr.DataError, match="no labelled document among 3"):
        dr.RankRLS().fit(np.ones((3, 2)), None, qid=[1, 1, 1])
    dataset = from_arrays(np.ones((3, 2)), [0, 1, 2], [1, 1, 1])
    with pytest.raises(dr.DataError, match="no labelled document among 0"):
        dr.RankRLS().fit(dataset.select_queries(np.array([False])))


def predicted(n_queries=200, noise=0.0):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10 * n_queries, 3)).astype(np.float32)
    y = X.astype(np.float64) @ [1.0, 2.0, -1.0] + noise * rng.normal(size=len(X))
    return Problem(X, y, np.full(n_queries, 10), np.ones(n_queries))


@pytest.mark.parametrize("noise", [0.0, 3e-8])
@pytest.mark.parametrize("solver", ["direct", "direct without factors", "cg"])
def test_the_objective_has_digits_where_features_predict_the_relevance(solver, noise, monkeypatch):
    """The minimum is a share of 1e-15 of the squared relevance, or less."""
    if solver == "direct without factors":
        monkeypatch.setattr("dranking.rankrls.gram.triangular_factor.MAX_WIDE_FEATURES", 0)
        monkeypatch.setattr("dranking.rankrls.gram.triangular_factor.MAX_FACTORED_FEATURES", 0)
    problem = predicted(noise=noise)
    ranker = dr.RankRLS(2.0**-40, solver=solver.split()[0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ranker.fit(problem.dataset())
    least = ExactRefits(*problem.labelled(), ranker.regularization).minimum()
    off = abs(ranker.objective_ - least) / least
    assert off <= max(1e-9, ranker.relative_rounding_) or ranker.relative_rounding_ == 1.0
    assert bool(seen) == (ranker.relative_rounding_ > 1e-6)
    if solver == "direct":
        assert off <= 1e-9
        assert not seen
    elif solver == "direct without factors" and noise:
        assert off <= 1e-6
        assert not seen


def test_the_objective_of_a_store_without_digits_comes_with_a_warning(tmp_path):
    store = build_statistics(predicted().dataset(), tmp_path / "s")
    with pytest.warns(AccuracyWarning, match="objective .* features predict the relevance"):
        ranker = dr.RankRLS(2.0**-40).fit(store)
    assert ranker.relative_rounding_ == 1.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_of_residuals_are_those_of_loops(layout):
    problem = random_problem(12, n_queries=6, n_features=3)
    block = problem.dataset(LAYOUTS[layout]).block(0)
    w = np.array([0.5, -1.0, 2.0])
    strips = shifted_strips(block.features, block.query_ptr, NOTHING_FAR)
    products, squares = residual_sums(strips, block.relevance, block.query_ptr, block.weights, w)
    expected, norms = np.zeros(3), np.zeros(2)
    X, y, ptr, weights = problem.labelled()
    for q, weight in enumerate(weights):
        rows, labels = X[ptr[q] : ptr[q + 1]].astype(float), y[ptr[q] : ptr[q + 1]]
        residuals = (labels - labels.mean()) - (rows - rows.mean(axis=0)) @ w
        expected += weight * (rows - rows.mean(axis=0)).T @ residuals
        size = np.abs(labels - labels.mean()) + np.abs(rows) @ np.abs(w)
        norms += weight * residuals @ residuals, weight * size @ size
    np.testing.assert_allclose(products, expected, rtol=1e-12)
    np.testing.assert_allclose(squares, norms, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_of_residuals_have_digits_for_columns_far_from_zero(layout):
    """A column of 2^30 in every document has residuals of 0 on the others, and no product."""
    problem = random_problem(12, n_queries=6, n_features=3)
    problem.X[:, 1] = 2.0**30
    block = problem.dataset(LAYOUTS[layout]).block(0)
    far, w = far_columns(block.features, block.query_ptr), np.array([0.5, -1.0, 2.0])
    assert far.columns.tolist() == [1]
    strips = shifted_strips(block.features, block.query_ptr, far)
    products, squares = residual_sums(strips, block.relevance, block.query_ptr, block.weights, w)
    X, y, ptr, weights = problem.labelled()
    expected, norm = np.zeros(3), 0.0
    for q, weight in enumerate(weights):
        rows = X[ptr[q] : ptr[q + 1]].astype(float)
        rows -= rows.mean(axis=0)
        rows[:, 1] = 0.0
        labels = y[ptr[q] : ptr[q + 1]]
        residuals = (labels - labels.mean()) - rows @ w
        expected += weight * rows.T @ residuals
        norm += weight * residuals @ residuals
    np.testing.assert_allclose(products, expected, rtol=1e-12)
    assert squares[0] == pytest.approx(norm, rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_labels_far_from_zero_keep_the_digits_of_their_differences(solver, layout):
    """Scores that are subtracted from labels of 1e12 would keep four decimal places."""
    problem = random_problem(13, n_features=4)
    near = dr.RankRLS(1.0, solver).fit(problem.dataset(LAYOUTS[layout]))
    far = problem._replace(y=problem.y + 1e12)
    ranker = dr.RankRLS(1.0, solver).fit(far.dataset(LAYOUTS[layout]))
    refits = ExactRefits(*far.labelled(), 1.0)
    assert refits.prediction_distance(ranker.coef_) <= 1e-9
    assert ranker.objective_ == pytest.approx(refits.minimum(), rel=1e-12)
    assert ranker.relative_rounding_ <= max(1e-12, 2.0 * near.relative_rounding_)
