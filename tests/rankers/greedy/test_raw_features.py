"""Searches on raw features, against fixed-point arithmetic of hundreds of digits."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import AccuracyWarning
from dranking.rankers.gram.statistics_store import build_statistics
from tests.rankers.grouped import greedy
from tests.rankers.problems import random_problem
from tests.rankers.raw_problems import (
    drawn_problem,
    is_certified,
    raw_problem,
    relative_error,
    share_missed,
)
from tests.reference.exact_selection import ExactRefits, to_float

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")

WAYS = {
    "forward": {"n_features": 3},
    "floating": {"n_features": 3, "search": "floating"},
    "back": {"n_features": 3, "fitting": "back"},
    "backward": {"n_features": 1, "search": "backward"},
}


def way_of(seed):
    return list(WAYS)[np.random.default_rng(seed).integers(len(WAYS))]


def assert_certified(way, seed, n_features=5):
    """Errors of all rounds, picks and the drops of backward search are as close as they say."""
    problem, data, regularization = drawn_problem(seed, n_features)
    options = WAYS[way] | (
        {"feature_blocks": 2} if way == "forward" and not data.is_sparse and seed % 7 == 5 else {}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        ranker = greedy(regularization=regularization, **options).fit(data)
    refits, path = ExactRefits(*problem.labelled(), regularization), ranker.path_
    tolerance = max(1e-9, ranker.relative_rounding_)
    for kept, error in zip(path.kept, path.lqo_error, strict=True):
        off = relative_error(error, to_float(refits.error(kept)))
        assert is_certified(off, ranker.relative_rounding_), (way, seed)
    if way == "forward":
        assert_best_picks(refits, path, tolerance)
    if way == "backward":
        for before, after in pairwise(path.kept):
            errors = {i: to_float(refits.error(set(before) - {i})) for i in before}
            [dropped] = set(before) - set(after)
            off = share_missed(errors[dropped], min(errors.values()))
            assert off <= tolerance, (way, seed)
    return tolerance


def assert_best_picks(refits, path, tolerance):
    """No feature that a pick passed over is better by more than the certificate says."""
    for round_, selected in enumerate(path.kept):
        before = selected[:-1]
        left = set(range(refits.n_features)) - set(before)
        errors = {i: to_float(refits.error([*before, i])) for i in left}
        off = share_missed(errors[selected[-1]], min(errors.values()))
        assert off <= tolerance, (round_, errors)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_searches_on_raw_features(first):
    tolerances = [assert_certified(way_of(seed), seed) for seed in range(first, first + 50)]
    assert np.mean(np.array(tolerances) <= 1e-6) >= 0.75


@pytest.mark.parametrize("seed", [2, 17, 34, 55, 58])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_picks_whose_rivals_nearly_depend_on_the_selected_features(seed, layout):
    """Rivals lose all digits of their scores although the picks lose none."""
    problem = raw_problem(seed, weighted=seed == 34, dominant=seed in (17, 34))
    for regularization in (2.0**-15, 2.0**-5, 1.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            ranker = dr.GreedyRankRLS(5, regularization).fit(problem.dataset(layout))
        refits = ExactRefits(*problem.labelled(), regularization)
        assert_best_picks(refits, ranker.path_, max(1e-9, ranker.relative_rounding_))


def test_a_negative_score_that_is_rounding_hides_no_candidate():
    """In round 5, all scores are rounding, from -1e27 to 1e45."""
    problem = raw_problem(30, dominant=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        ranker = dr.GreedyRankRLS(7).fit(problem.dataset(sparse.csr_array))
    refits = ExactRefits(*problem.labelled(), 1.0)
    assert_best_picks(refits, ranker.path_, max(1e-9, ranker.relative_rounding_))


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(200, 20_200, 100))
def test_searches_on_many_raw_data_sets(first):
    for seed in range(first, first + 100):
        assert_certified(way_of(seed), seed, n_features=5 + seed % 8)


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
