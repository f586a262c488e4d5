"""Searches on raw features, against fixed-point arithmetic of hundreds of digits."""

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import AccuracyWarning
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.models.problems import Problem, random_problem
from tests.rankrls.raw_checks import assert_best_picks, check_search
from tests.rankrls.raw_problems import is_certified, raw_problem, relative_error
from tests.reference.exact_selection import ExactRefits, to_float

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (50, 100, 150))]
)
def test_searches_on_raw_features(first):
    roundings = [check_search(seed, n_features=5) for seed in range(first, first + 50)]
    assert np.mean(np.array(roundings) <= 1e-6) >= 0.75


@cache
def refits_of(seed, regularization):
    """A problem, and its refits, which both layouts share."""
    problem = raw_problem(seed, weighted=seed == 34, dominant=seed in (17, 34))
    return problem, ExactRefits(*problem.labelled(), regularization)


@pytest.mark.parametrize("seed", [2, 17, 34, 55, 58])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_picks_whose_rivals_nearly_depend_on_the_selected_features(seed, layout):
    """Rivals lose all digits of their scores although the picks lose none."""
    for regularization in (2.0**-15, 2.0**-5, 1.0):
        problem, refits = refits_of(seed, regularization)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            ranker = dr.GreedyRankRLS(5, regularization).fit(problem.dataset(layout))
        assert_best_picks(refits, ranker.path_)


def test_a_negative_score_that_is_rounding_hides_no_candidate():
    """In round 5, all scores are rounding, from -1e27 to 1e45."""
    problem = raw_problem(30, dominant=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        ranker = dr.GreedyRankRLS(7).fit(problem.dataset(sparse.csr_array))
    refits = ExactRefits(*problem.labelled(), 1.0)
    assert_best_picks(refits, ranker.path_)


@pytest.mark.parametrize(("seed", "left_out"), [(218, [2, 3, 6, 8, 9]), (389, [3, 10])])
def test_removals_where_columns_are_copies_but_in_one_query(seed, left_out):
    """Without that query, only lambda tells the columns apart, far below their rounding."""
    problem = raw_problem(seed, scale=2.0**40, weighted=seed == 389)
    problem = problem._replace(X=np.delete(problem.X, left_out, axis=1))
    refits = ExactRefits(*problem.labelled(), 2.0**-15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        ranker = dr.GreedyRankRLS(1, 2.0**-15, search="backward").fit(problem.dataset())
    for before, after in pairwise(ranker.path_.kept):
        errors = {i: to_float(refits.error(set(before) - {i})) for i in before}
        [dropped] = set(before) - set(after)
        assert errors[dropped] <= min(errors.values()) * (1.0 + 1e-5)


def mostly_in_one_query(seed):
    """The second of three predictive columns has its large values in the fourth of eight queries.

    A weight that the other queries determine with few digits is multiplied by these values.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(6, 12, 8)
    X = rng.normal(size=(sizes.sum(), 3))
    X[np.repeat(np.arange(8), sizes) == 3, 1] *= 10.0 ** rng.uniform(1.0, 6.0)
    X = X.astype(np.float32)
    weights = [1.0, rng.uniform(0.01, 1.0) / np.abs(X[:, 1]).max(), -0.5]
    noise = 10.0 ** rng.uniform(-9.0, -1.0) * rng.normal(size=len(X))
    return Problem(X, X.astype(np.float64) @ weights + noise, sizes, np.ones(8))


@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("source", ["documents", "store"])
def test_a_query_with_nearly_all_of_a_column(source, tmp_path):
    for seed in (4, 6, 12, 14, 18, 46):
        problem, off = mostly_in_one_query(seed), []
        data = problem.dataset()
        if source == "store":
            data = build_statistics(data, tmp_path / str(seed))
        refits = ExactRefits(*problem.labelled(), 2.0**-15)
        ranker = dr.GreedyRankRLS(2, 2.0**-15, search="backward").fit(data)
        for kept, error in zip(ranker.path_.kept, ranker.path_.lqo_error, strict=True):
            off.append(relative_error(error, to_float(refits.error(kept))))
        assert is_certified(max(off), ranker.relative_rounding_), seed


def test_a_statistics_store_certifies_less(tmp_path):
    """The columns are sums and copies of each other, and sums of products have half the digits."""
    problem = raw_problem(1)
    store = build_statistics(problem.dataset(), tmp_path / "s")
    with pytest.warns(AccuracyWarning, match=r"nearly depend on others, .*: f\d+"):
        ranker = dr.GreedyRankRLS(1, search="backward").fit(store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        documents = dr.GreedyRankRLS(1, search="backward").fit(problem.dataset())
    assert ranker.relative_rounding_ > 100.0 * documents.relative_rounding_


def test_features_without_dependence_are_certified_in_the_model():
    problem = random_problem(0, n_features=6)
    ranker = dr.GreedyRankRLS(3).fit(problem.dataset())
    assert 0.0 < ranker.relative_rounding_ < 1e-11
    facts = ranker.to_model().provenance
    assert facts["relative_rounding"] == ranker.relative_rounding_


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_errors_of_labels_far_from_zero_have_all_digits(layout):
    """The mean of six labels of 1e13 is rounded by a share of 1e-3 of their differences."""
    problem = random_problem(5, n_queries=8, n_features=4)
    far = problem._replace(y=problem.y + 1e13 * (1 + problem.qid))
    refits = ExactRefits(*far.labelled(), 1.0)
    ranker = dr.GreedyRankRLS(3).fit(far.dataset(layout))
    for kept, error in zip(ranker.path_.kept, ranker.path_.lqo_error, strict=True):
        assert error == pytest.approx(to_float(refits.error(kept)), rel=1e-12)
