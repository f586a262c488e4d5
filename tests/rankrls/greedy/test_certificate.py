"""Certificates of searches: no false alarms, true reasons, and no warning of NumPy."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import AccuracyWarning
from dranking.rankrls.greedy.estimator import warn_of_rounding
from dranking.rankrls.greedy.path import SelectionPath
from tests.models.problems import Problem
from tests.rankrls.raw_problems import drawn_problem, relative_error
from tests.reference.exact_selection import ExactRefits, to_float

WAYS = [{}, {"search": "floating"}, {"rescore": "ndcg@10"}]

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")


def with_one_large_query(scale):
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 12, 8)
    X = rng.normal(size=(sizes.sum(), 5))
    X[np.repeat(np.arange(8), sizes) == 3] *= scale
    y = rng.integers(0, 4, len(X)).astype(np.float64)
    return Problem(X.astype(np.float32), y, sizes, np.ones(8))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_rounds_that_are_corrected_are_certified_as_what_is_stated(scale, way):
    """Errors that are corrected are stated, and no feature predicts anything here."""
    problem = with_one_large_query(scale)
    refits = ExactRefits(*problem.labelled(), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        ranker = dr.GreedyRankRLS(3, **way).fit(problem.dataset())
    for kept, error in zip(ranker.path_.kept, ranker.path_.lqo_error, strict=True):
        off = relative_error(error, to_float(refits.error(kept)))
        assert off <= ranker.relative_rounding_ <= 1e-6


@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_floating_search_drops_by_the_errors_that_it_states(scale):
    """No round goes back to a set that the exact errors do not call the best of its size."""
    problem = with_one_large_query(scale)
    refits, best = ExactRefits(*problem.labelled(), 1.0), {}
    path = dr.GreedyRankRLS(3, search="floating").fit(problem.dataset()).path_
    for before, kept in zip([[], *path.kept], path.kept, strict=False):
        error = to_float(refits.error(kept))
        if len(kept) < len(before):
            assert error < best[len(kept)]
        best[len(kept)] = min(error, best.get(len(kept), np.inf))


@pytest.mark.parametrize(
    ("error", "reason"), [(1e-9, "predict the relevance"), (50.0, "far larger values in one query")]
)
def test_the_reason_depends_on_the_size_of_the_error(error, reason):
    path = SelectionPath(1.0, 10.0, [[0]], [error], relative_rounding=1e-3)
    with pytest.warns(AccuracyWarning, match=reason):
        warn_of_rounding(path, ["a"])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("seed", [20, 53])
def test_scores_that_overflow_give_no_warning_of_numpy(seed):
    n = 5 + seed % 8
    _, data, regularization = drawn_problem(seed, n)
    ranker = dr.GreedyRankRLS(n, regularization, search="floating").fit(data)
    assert 0.0 <= ranker.relative_rounding_ <= 1.0


def test_floating_search_ends_in_one_round_where_dense_and_sparse_round_differently():
    """Groups as 0 and 1: three of them come twice, with errors that differ in the last bits."""
    rng = np.random.default_rng(72)
    sizes = rng.integers(3, 12, 8)
    X = np.eye(4)[rng.integers(0, 4, sizes.sum())].astype(np.float32)
    problem = Problem(X, rng.integers(0, 4, len(X)).astype(np.float64), sizes, np.ones(8))
    dense, csr = (
        dr.GreedyRankRLS(3, search="floating").fit(problem.dataset(layout)).path_
        for layout in (np.asarray, sparse.csr_array)
    )
    assert dense.kept == csr.kept


def test_ties_of_rounds_go_to_the_earliest():
    path = SelectionPath(1.0, 10.0, [[0, 1], [1], [1, 0]], [2.0, 3.0, np.nextafter(2.0, 0.0)])
    assert path.best_round == 0
    lower = SelectionPath(1.0, 10.0, [[0, 1], [1], [1, 2]], [2.0, 3.0, 2.0 * (1.0 - 1e-9)])
    assert lower.best_round == 2
