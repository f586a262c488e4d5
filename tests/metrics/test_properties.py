"""Measures do not depend on document order, query names, scale of the scores or block borders."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.metrics.conventions import CONVENTIONS
from dranking.metrics.evaluate import aggregate, evaluate_queries
from tests.metrics.blocks import make_block

MEASURES = [
    "map",
    "p@3",
    "recall@3",
    "ndcg",
    "ndcg@5",
    "mean_ndcg",
    "mrr",
    "mrr@2",
    "err@3",
    "hit@3",
    "rbp",
    "bpref",
    "judged@3",
    "pairwise_error",
    "auc",
]


@st.composite
def scored_queries(draw):
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    relevance = [rng.integers(0, 4, n).astype(float) for n in sizes]
    return relevance, [rng.integers(-4, 5, n) / 4 for n in sizes]


def same(found, expected):
    for name in MEASURES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=name)


@given(scored_queries(), st.randoms(use_true_random=False))
def test_document_order_does_not_matter_when_ties_are_averaged(drawn, random):
    relevance, scores = drawn
    orders = [random.sample(range(len(s)), len(s)) for s in scores]
    shuffled = [r[o] for r, o in zip(relevance, orders, strict=True)]
    shuffled_scores = np.concatenate([s[o] for s, o in zip(scores, orders, strict=True)])
    same(
        evaluate_queries(make_block(shuffled), shuffled_scores, MEASURES),
        evaluate_queries(make_block(relevance), np.concatenate(scores), MEASURES),
    )


@pytest.mark.parametrize("convention", CONVENTIONS)
@given(drawn=scored_queries())
def test_query_names_and_increasing_transforms_do_not_matter(convention, drawn):
    relevance, scores = drawn
    block = make_block(relevance)
    renamed = make_block(relevance, query_ids=[f"query {q}" for q in range(len(relevance))])
    values = np.concatenate(scores)
    expected = evaluate_queries(block, values, MEASURES, convention)
    same(evaluate_queries(renamed, np.exp(3 * values) - 2, MEASURES, convention), expected)


@pytest.mark.parametrize("convention", CONVENTIONS)
@given(drawn=scored_queries())
def test_each_query_stands_alone(convention, drawn):
    relevance, scores = drawn
    together = evaluate_queries(make_block(relevance), np.concatenate(scores), MEASURES, convention)
    alone = [
        evaluate_queries(make_block([r]), s, MEASURES, convention)
        for r, s in zip(relevance, scores, strict=True)
    ]
    for name in MEASURES:
        np.testing.assert_array_equal(together[name], [part[name][0] for part in alone])


@given(drawn=scored_queries())
def test_values_lie_between_0_and_1_and_the_ideal_order_is_best(drawn):
    relevance, scores = drawn
    block = make_block(relevance)
    for convention in ("standard", "trec"):
        for values in evaluate_queries(
            block, np.concatenate(scores), MEASURES, convention
        ).values():
            kept = values[~np.isnan(values)]
            assert np.all((kept >= 0) & (kept <= 1 + 1e-12))
    best = aggregate(evaluate_queries(block, np.concatenate(relevance), MEASURES)).metrics
    for name in ("map", "ndcg", "ndcg@5", "mean_ndcg", "mrr"):
        assert np.isnan(best[name]) or best[name] == pytest.approx(1.0)


@given(drawn=scored_queries())
def test_auc_of_two_grades_is_one_minus_the_pairwise_error(drawn):
    relevance, scores = drawn
    block = make_block([np.minimum(r, 1.0) for r in relevance])
    found = evaluate_queries(block, np.concatenate(scores), ["auc", "pairwise_error"])
    np.testing.assert_allclose(found["auc"], 1 - found["pairwise_error"], rtol=1e-12)
