"""Searches by refits on raw features, against fixed-point arithmetic of hundreds of digits."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from tests.rankers.raw_problems import raw_problem
from tests.reference.exact_selection import ExactRefits, to_float

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")

LAMBDAS = [2.0**-15, 2.0**-5, 1.0, 2.0**15]


def drawn(seed, n_features=6):
    """A raw problem of some of its features, its layout and a lambda."""
    problem = raw_problem(
        seed,
        scale=[1.0, 2.0**-40, 2.0**40][seed % 3],
        weighted=seed % 2 == 1,
        dominant=seed % 5 == 0,
    )
    features = np.sort(np.random.default_rng(seed).permutation(12)[:n_features])
    problem = problem._replace(X=np.ascontiguousarray(problem.X[:, features]))
    layout = sparse.csr_array if seed % 4 == 3 else np.asarray
    data = problem.dataset(layout, max_documents=[9, 60, 1_000][seed % 3])
    return problem, data, LAMBDAS[seed // 3 % 4]


def assert_backward(seed):
    problem, data, regularization = drawn(seed)
    path = dr.GreedyRankRLS(1, regularization, search="backward").fit(data).path_
    refits = ExactRefits(*problem.labelled(), regularization)
    for kept, error in zip(path.kept, path.lqo_error, strict=True):
        assert error == pytest.approx(to_float(refits.error(kept)), rel=1e-6)
    for before, after in pairwise(path.kept):
        errors = {i: to_float(refits.error(set(before) - {i})) for i in before}
        [dropped] = set(before) - set(after)
        assert errors[dropped] <= min(errors.values()) * (1.0 + 1e-6)


def assert_back_fitting(seed):
    problem, data, regularization = drawn(seed)
    path = dr.GreedyRankRLS(4, regularization, fitting="back").fit(data).path_
    refits = ExactRefits(*problem.labelled(), regularization)
    for kept, error in zip(path.kept, path.lqo_error, strict=True):
        assert error == pytest.approx(to_float(refits.error(kept)), rel=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_backward_search_on_raw_features(seed):
    assert_backward(seed)


@pytest.mark.parametrize("seed", range(25))
def test_back_fitting_on_raw_features(seed):
    assert_back_fitting(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(25, 2_025, 50))
def test_refits_of_many_raw_data_sets(first):
    for seed in range(first, first + 50):
        assert_backward(seed)
        assert_back_fitting(seed)
