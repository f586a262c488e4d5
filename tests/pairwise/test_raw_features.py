"""Pairwise rankers on raw features, against minima in arithmetic of 300 or 600 bits."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.errors import AccuracyWarning
from tests.engine.executors import Remote
from tests.models.problems import Problem
from tests.rankrls.raw_problems import drawn_problem, raw_problem
from tests.reference.exact_hinges import (
    hinges_of_lists,
    hinges_of_pairs,
    least_of_hinges,
    value_at,
)
from tests.reference.exact_pairs import least_logistic, least_squared_hinge
from tests.reference.exact_selection import ExactRefits

EXACT_MINIMA = {
    "squared hinges": (
        lambda: dr.RankSVM(1e-5),
        lambda problem, ranker: least_squared_hinge(*problem.labelled(), 1e-5, ranker.coef_),
    ),
    "logistic": (
        lambda: dr.RankLogistic(1e-5),
        lambda problem, ranker: least_logistic(*problem.labelled(), 1e-5, ranker.coef_),
    ),
    "hinges": (
        lambda: dr.RankSVM(1e-3, loss="hinge"),
        lambda problem, ranker: least_of_hinges(
            hinges_of_pairs(*problem.labelled(), lambda a, b: 1), 1e-3, ranker.coef_
        ),
    ),
    "hinges with margins": (
        lambda: dr.MaxMarginRanker(1e-3, "pairwise"),
        lambda problem, ranker: least_of_hinges(
            hinges_of_pairs(*problem.labelled(), margin_of_levels), 1e-3, ranker.coef_
        ),
    ),
}
"""Rankers, and their minima in exact arithmetic."""


def margin_of_levels(better, worse):
    """The margin of two of four grades."""
    return Fraction(4, 4 - int(better)) - Fraction(4, 4 - int(worse))


MINIMA = {}


def minimum_of_all_layouts(key, find):
    """The minimum of a problem, found once, since it does not depend on the layout."""
    if key not in MINIMA:
        MINIMA[key] = find()
    return MINIMA[key]


def assert_at_the_minimum(seed):
    problem = raw_problem(
        seed,
        scale=[1.0, 2.0**-40, 2.0**40][seed % 3],
        weighted=seed % 2 == 1,
        dominant=seed % 5 == 0,
    )
    features = np.sort(np.random.default_rng(seed).permutation(12)[:5])
    problem = problem._replace(X=np.ascontiguousarray(problem.X[:, features]))
    layout = sparse.csr_array if seed % 4 == 3 else np.asarray
    regularization = [2.0**-15, 2.0**-5, 1.0][seed // 3 % 3]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ranker = dr.RankSVM(regularization).fit(problem.dataset(layout, max_documents=60))
    least = least_squared_hinge(*problem.labelled(), regularization, ranker.coef_)
    stated = ranker.gap_ / ranker.objective_
    off = ranker.objective_ / least - 1.0
    assert off <= max(1e-9, 1.01 * stated)
    assert off <= 1e-6 or {AccuracyWarning, ConvergenceWarning} & {each.category for each in seen}


@pytest.mark.parametrize("seed", range(12))
def test_the_minimum_on_raw_features(seed):
    assert_at_the_minimum(seed)


@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("seed", [92, 120, 348])
def test_an_outlier_at_the_corner_of_the_hinge_does_not_end_the_descent(seed):
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9)
    ranker = dr.RankSVM(regularization).fit(data)
    least = least_squared_hinge(*problem.labelled(), regularization, ranker.coef_)
    assert ranker.objective_ <= least * (1.0 + 1e-8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(12, 1_012, 50))
def test_the_minimum_on_many_raw_data_sets(first):
    for seed in range(first, first + 50):
        assert_at_the_minimum(seed)


@pytest.mark.parametrize("loss", ["squared-hinge", "hinge", "logistic"])
def test_a_column_in_another_unit_takes_no_part_in_the_end(loss):
    """A column 1e7 times as large as the useful columns; the objective falls with lambda."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=240), [-0.5, 1.0])
    X[:, 3] = np.round(np.exp(rng.normal(size=240)) * 1e7)
    qid = np.repeat(np.arange(24), 10)
    objectives = []
    for regularization in (1e-3, 1e-5, 1e-7):
        if loss == "logistic":
            ranker = dr.RankLogistic(regularization)
        else:
            ranker = dr.RankSVM(regularization, loss=loss)
        objectives.append(ranker.fit(X, y, qid=qid).objective_)
    assert objectives[0] > objectives[1] > objectives[2]
    scaled = X * np.float32([1, 1, 1, 2.0**-24])
    unit = dr.RankSVM(1e-9, loss="squared-hinge").fit(scaled, y, qid=qid)
    raw = dr.RankSVM(1e-9, loss="squared-hinge").fit(X, y, qid=qid)
    np.testing.assert_allclose(raw.coef_ * [1, 1, 1, 2.0**24], unit.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("constant", ["time", "hits"])
@pytest.mark.parametrize("name", EXACT_MINIMA)
def test_a_column_that_is_constant_in_each_query_has_no_weight(name, constant, layout):
    """The time or the number of hits of a query, beside normal columns, in no unit of these."""
    rng = np.random.default_rng(0)
    n_queries, size = 20, 6
    X = rng.normal(size=(n_queries * size, 5)).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X)), [-1.0, 0.0, 1.0])
    time, hits = 1.7e9 + rng.integers(0, 10**6, n_queries), rng.lognormal(13.0, 2.0, n_queries)
    X[:, 4] = np.repeat(time if constant == "time" else hits, size)
    problem = Problem(X, y.astype(float), np.full(n_queries, size), np.ones(n_queries))
    make, least_of = EXACT_MINIMA[name]
    ranker = make().fit(problem.dataset(layout, max_documents=50))
    assert ranker.coef_[4] == 0.0
    least = minimum_of_all_layouts((name, constant), lambda: least_of(problem, ranker))
    assert ranker.objective_ == pytest.approx(least, rel=1e-6 if "hinges" in name else 1e-9)
    assert ranker.relative_rounding_ <= 1e-6


def time_stamps(layout, missing):
    """Times that differ in their first hundred-millionth parts, and some that are missing.

    Documents without a time are the first of each query, or any. They have the worst grade, so that
    in the minimum no hinge depends on them, and their huge differences take no part.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 3)).astype(np.float32)
    X[:, 2] = 1.7e9 + 128.0 * rng.integers(0, 3, 240)
    y = np.digitize(X[:, 0] + X[:, 2] / 128.0 - 1.7e9 / 128.0 + rng.normal(size=240), [0.0, 2.0])
    gone = {
        "none": [],
        "first": np.arange(0, 240, 10),
        "any": np.flatnonzero(rng.random(240) < 0.2),
    }
    X[gone[missing], 2] = y[gone[missing]] = 0.0
    problem = Problem(X, y.astype(float), np.full(24, 10), np.ones(24))
    return problem, problem.dataset(layout)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("missing", ["none", "first", "any"])
def test_a_column_far_from_zero_takes_part_with_all_digits(layout, missing):
    problem, data = time_stamps(layout, missing)
    ranker = dr.RankSVM(1e-7).fit(data)
    least = minimum_of_all_layouts(
        missing, lambda: least_squared_hinge(*problem.labelled(), 1e-7, ranker.coef_)
    )
    assert ranker.objective_ == pytest.approx(least, rel=1e-9)
    assert ranker.relative_rounding_ <= 1e-7  # scores of such values may round by that


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_conjugate_gradients_have_the_digits_of_a_column_far_from_zero(layout):
    problem, data = time_stamps(layout, "none")
    ranker = dr.RankRLS(1e-3, "cg").fit(data)
    refits = ExactRefits(*problem.labelled(), 1e-3)
    assert refits.prediction_distance(ranker.coef_) <= 1e-12
    assert ranker.relative_rounding_ <= 1e-9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_lists_have_the_digits_of_a_column_far_from_zero(layout):
    """Scores of a time stamp lose 1e-9 of the objective, and cutting planes their end."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(48, 3)).astype(np.float32)
    X[:, 2] = 1.6e7 + rng.integers(0, 3, 48)
    y = np.digitize(X[:, 0] + X[:, 2] - 1.6e7 + rng.normal(size=48), [0.0, 2.0])
    problem = Problem(X, y.astype(float), np.full(12, 4), np.ones(12))
    ranker = dr.MaxMarginRanker(1e-3, "ndcg", tol=1e-9).fit(problem.dataset(layout))
    hinges = hinges_of_lists(*problem.labelled(), "ndcg")
    at_ranker = value_at(hinges, 1e-3, ranker.coef_)
    assert ranker.objective_ == pytest.approx(at_ranker, rel=1e-12)
    assert at_ranker <= (1.0 + 1e-9) * least_of_hinges(hinges, 1e-3, ranker.coef_)
    assert ranker.relative_rounding_ <= 1e-9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("measure", ["ap", "ndcg"])
def test_steps_on_lists_have_the_bits_of_the_distances(measure, layout):
    """A column far from zero counts from its medians: its weight is that of the differences."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    X[:, 2] = rng.integers(0, 3, 120)
    y = np.digitize(X[:, 0] + X[:, 2] + rng.normal(size=120), [1.0, 3.0])
    own = X[:, 2].reshape(20, 6)
    near, far = X.copy(), X.copy()
    near[:, 2] = (own - np.sort(own, axis=1)[:, [2]]).ravel()
    far[:, 2] += np.repeat(2.0**23 + 4.0 * rng.integers(0, 10**5, 20), 6).astype(np.float32)
    near[:, 3] = 0.0
    far[:, 3] = np.repeat(1.7e9 + rng.integers(0, 10**6, 20), 6)
    weights = []
    for features in (near, far):
        problem = Problem(features, y.astype(float), np.full(20, 6), np.ones(20))
        steps = {"n_epochs": 2, "steps_per_epoch": 300}
        ranker = dr.MaxMarginRanker(1e-3, measure, solver=steps).fit(problem.dataset(layout))
        weights.append(ranker.coef_)
    assert weights[0][:3].all()
    assert weights[1][3] == 0.0
    if layout is np.asarray:
        np.testing.assert_array_equal(weights[1], weights[0])
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-12)


FAR_FITS = {
    "ranksvm": lambda: dr.RankSVM(1e-4),
    "cg": lambda: dr.RankRLS(1e-1, "cg"),
    "lists": lambda: dr.MaxMarginRanker(1e-3, "ap", max_iter=5),
    "steps": lambda: dr.MaxMarginRanker(1e-3, "ap", solver={"n_epochs": 1, "steps_per_epoch": 50}),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", FAR_FITS)
def test_far_columns_have_the_same_bits_on_any_workers_and_tiles(name, layout, monkeypatch):
    problem, _ = time_stamps(layout, "any")
    data = problem.dataset(layout, max_documents=30)
    assert data.n_blocks == 8
    expected = FAR_FITS[name]().fit(data, executor=ThreadExecutor(2))
    monkeypatch.setattr("dranking.engine.tile_layout.MAX_TILE_BYTES", 1)
    for executor in (ThreadExecutor(1), Remote(3)):
        found = FAR_FITS[name]().fit(data, executor=executor)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.objective_ == expected.objective_
