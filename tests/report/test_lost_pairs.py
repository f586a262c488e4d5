"""Pairs in the wrong order, against the NDCG of every list with two documents exchanged."""

import numpy as np
import pytest

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.metrics.conventions import get_convention
from dranking.models.linear.model import LinearModel
from dranking.report.lost_pairs import N_FIRST, N_PAIRS, costliest_swap, lost_pairs
from tests.reference.lost_pairs import largest_gain


@pytest.mark.parametrize("convention", ["standard", "trec", "letor4"])
def test_the_costliest_swap_is_that_of_all_exchanges(convention):
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 16))
        grades = rng.integers(0, 4, n).astype(float)
        scores = rng.integers(0, 8, n) / 4
        found = costliest_swap(grades, scores, get_convention(convention))
        expected = largest_gain(grades.tolist(), scores.tolist(), convention, N_FIRST)
        assert (0.0 if found is None else found.cost) == pytest.approx(expected, abs=1e-12)


def test_pairs_name_documents_ranks_and_the_features_to_blame():
    X = np.array([[1, 0, 0], [0, 3, 1], [9, 9, 9], [0, 0, 0], [2, 0, 0], [1, 0, 0]], float)
    grades = [2, 0, np.nan, 1, 1, 0]  # the third document is not judged
    data = dr.from_arrays(X, grades, qid=[7, 7, 7, 7, 8, 8])
    model = LinearModel(feature_names=data.feature_names, weights=(1.0, 1.0, -0.5))
    [pair] = lost_pairs(model, data, get_convention(), get_executor("threads"))
    assert (pair.query, *pair.better, *pair.worse) == ("7", "7-0", 2, 2, "7-1", 0, 1)
    assert pair.blamed == [(data.feature_names[1], -3.0)]
    assert pair.cost == pytest.approx(3 * (1 - 1 / np.log2(3)) / (3 + 1 / np.log2(3)))


def test_the_queries_that_lose_most_are_shown_first():
    n = 3 * N_PAIRS
    grades = np.zeros((n, n))
    grades[np.arange(n), np.arange(n)] = 1  # query i has its only relevant document at rank i + 1
    data = dr.from_arrays(
        np.tile(-np.arange(n), n)[:, None], grades.ravel(), qid=np.repeat(np.arange(n), n)
    )
    model = LinearModel(feature_names=data.feature_names, weights=(1.0,))
    pairs = lost_pairs(model, data, get_convention(), get_executor("threads"))
    assert [pair.query for pair in pairs] == [str(n - i) for i in range(1, N_PAIRS + 1)]
