"""Leave-query-out scores of raw features: exact within each query, or a warning is given."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import AccuracyWarning
from tests.models.problems import random_problem
from tests.rankrls.raw_problems import drawn_problem
from tests.reference.exact_selection import ExactRefits, to_float


def scored(ranker, data):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        scores = dr.leave_query_out_scores(ranker, data)
    return scores, any(issubclass(each.category, AccuracyWarning) for each in seen)


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 9, 20, 34])
def test_scores_are_exact_within_queries_or_warned_of(seed):
    problem, data, regularization = drawn_problem(seed, 5 + seed % 8)
    ranker = dr.RankRLSCV([regularization]).fit(data)
    scores, is_warned = scored(ranker, data)
    _, _, ptr, _ = problem.labelled()
    exact = ExactRefits(*problem.labelled(), regularization).held_out_scores(range(data.n_features))
    off = 0.0
    for (start, end), own in zip(pairwise(ptr), exact, strict=True):
        centred = np.array([to_float(value - sum(own) // len(own)) for value in own])
        found = scores[start:end] - scores[start:end].mean()
        if np.linalg.norm(centred):
            off = max(off, np.linalg.norm(found - centred) / np.linalg.norm(centred))
    assert is_warned or off <= 1e-6
    if seed == 20:
        assert off > 1.0
        assert is_warned


def test_scores_of_features_without_dependence_come_without_a_warning():
    data = random_problem(3, n_queries=30, n_features=6).dataset()
    assert not scored(dr.RankRLS(0.7).fit(data), data)[1]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_query_of_equal_documents_is_in_no_doubt(layout):
    """Its scores have no spread, of which rounding could be a share: they are equal in any case."""
    problem = random_problem(3, n_queries=30, n_features=6)
    start, end = np.cumsum([0, *problem.sizes])[[4, 5]]
    assert end - start > 1
    problem.X[start:end] = problem.X[start]
    data = problem.dataset(layout)
    scores, is_warned = scored(dr.RankRLS(0.7).fit(data), data)
    assert np.ptp(scores[start:end]) == 0.0
    assert not is_warned
