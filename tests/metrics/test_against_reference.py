"""Every measure against plain loops: file order, and averages over all permutations of ties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.metrics.evaluate import evaluate_queries
from tests.metrics.blocks import flat, make_block
from tests.reference import metrics as reference

MEASURES = [
    "map",
    "p@1",
    "p@3",
    "p@10",
    "recall@1",
    "recall@3",
    "recall@10",
    "dcg",
    "dcg@3",
    "dcg@10",
    "ndcg",
    "ndcg@1",
    "ndcg@3",
    "ndcg@10",
    "mean_ndcg",
    "mrr",
    "mrr@2",
    "err@1",
    "err@3",
    "err@10",
    "hit@1",
    "hit@3",
    "hit@10",
    "rbp",
    "rbp@3",
    "bpref",
    "judged@1",
    "judged@3",
    "judged@10",
    "pairwise_error",
    "auc",
]
GRADES = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, math.nan])


def queries(max_size):
    """Lists of (grade, score) lists; few distinct scores, so ties are common."""
    document = st.tuples(GRADES, st.integers(-1, 2).map(lambda x: x / 4))
    return st.lists(st.lists(document, min_size=1, max_size=max_size), min_size=1, max_size=4)


def check(drawn, convention):
    relevance = [[grade for grade, _ in query] for query in drawn]
    scores = [[score for _, score in query] for query in drawn]
    found = evaluate_queries(make_block(relevance), flat(scores), MEASURES, convention)
    assert list(found) == MEASURES
    for name in MEASURES:
        expected = [
            reference.evaluate(name, r, s, convention)
            for r, s in zip(relevance, scores, strict=True)
        ]
        wanted = [math.nan if value is None else value for value in expected]
        np.testing.assert_allclose(found[name], wanted, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("convention", ["letor3", "letor4", "mslr"])
@given(drawn=queries(max_size=14))
def test_file_order_conventions_equal_loops(convention, drawn):
    check(drawn, convention)


@given(drawn=queries(max_size=5))
def test_standard_equals_average_over_permutations(drawn):
    check(drawn, "standard")


@pytest.mark.parametrize("n_relevant", range(1, 6))
def test_standard_on_one_large_tie(n_relevant):
    grades = [2.0] + [1.0] * (n_relevant - 1) + [0.0] * (6 - n_relevant)
    check([[(grade, 0.5) for grade in grades]], "standard")


@pytest.mark.parametrize("convention", ["letor4", "standard"])
def test_long_random_lists(convention):
    rng = np.random.default_rng(3)
    drawn = []
    for size in (1, 2, 60, 300):
        grades = rng.integers(0, 5, size).astype(float)
        # Untied, so that the average over permutations is over one order.
        drawn.append(list(zip(grades, rng.permutation(size) / 8, strict=True)))
    check(drawn, convention)


@given(
    grades=st.lists(st.floats(-3, 3), min_size=1, max_size=40),
    seed=st.integers(0, 1000),
    n_scores=st.integers(1, 40),
)
def test_pairwise_error_of_real_grades(grades, seed, n_scores):
    scores = np.random.default_rng(seed).integers(0, n_scores, len(grades)).astype(float)
    found = evaluate_queries(make_block([grades]), scores, ["pairwise_error"])["pairwise_error"][0]
    expected = reference.pairwise_error(grades, scores)
    assert np.isnan(found) if expected is None else found == pytest.approx(expected, abs=1e-12)
