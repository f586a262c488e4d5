"""Listwise hinges against definitions 3 and 4 by plain loops, and their subgradients."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.losses.listwise import ArgmaxHinge, SumHinge, lists_of, listwise_of_model, n_lists
from tests.reference import max_margin as reference

FORMS = {
    "argmax": (ArgmaxHinge(), reference.argmax_hinge),
    "all": (SumHinge(by_class=False), reference.sum_hinge),
    "classes": (SumHinge(by_class=True), reference.class_sum_hinge),
}


def block_of(sizes, grades, features, weights=None):
    return QueryBlock(
        features=features,
        relevance=np.array(grades, dtype=float),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=pa.array(range(len(sizes))),
        query_weights=weights,
    )


def lists_for(block, measure):
    grades = block.relevance
    gains = np.exp2(grades) - 1 if measure == "ndcg" else (grades > 0).astype(float)
    return lists_of(block, measure, gains, 1.0 / np.log2(np.arange(2.0, 12.0)))


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    n = sum(sizes)
    grades = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(-12, 12).map(lambda v: v / 4), min_size=n, max_size=n))
    weights = draw(st.lists(st.sampled_from([1, 0, 2.5]), min_size=len(sizes), max_size=len(sizes)))
    return sizes, grades, np.array(scores), np.array(weights, dtype=float)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("measure", ["ap", "ndcg"])
@given(problems())
def test_values_are_those_of_the_definitions(form, measure, problem):
    sizes, grades, scores, weights = problem
    block = block_of(sizes, grades, np.zeros((len(grades), 1), dtype=np.float32), weights)
    lists = lists_for(block, measure)
    loss, definition = FORMS[form]
    expected = useful = 0.0
    for q, (start, end) in enumerate(zip(block.query_ptr, block.query_ptr[1:], strict=False)):
        gains = lists.gains[start:end]
        expected += weights[q] * definition(measure, scores[start:end].tolist(), gains.tolist())
        useful += weights[q] * (len(set(gains)) > 1)
    value, slopes = loss.at(scores, lists)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert n_lists(lists) == useful
    # A subgradient: the hinge at any other scores is above the plane through here.
    moved = scores + np.random.default_rng(0).normal(size=len(scores))
    assert loss.at(moved, lists)[0] >= value + slopes @ (moved - scores) - 1e-9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("measure", ["ap", "ndcg"])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
def test_slopes_are_derivatives_where_there_are_any(form, measure, layout):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(16, 3)).astype(np.float32)
    block = block_of([6, 1, 5, 4], rng.integers(0, 3, 16), layout(X), rng.random(4))
    lists = lists_for(block, measure)
    loss, _ = FORMS[form]
    w = rng.normal(size=3)
    value, gradient = listwise_of_model(block, lists, w, loss)
    assert value > 0
    step = 1e-6
    for j in range(3):
        e = step * np.eye(3)[j]
        up, down = (listwise_of_model(block, lists, w + s * e, loss)[0] for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-5)


def test_with_all_documents_ranked_the_classes_are_the_rankings():
    rng = np.random.default_rng(1)
    block = block_of([5], [0, 3, 1, 2, 4], np.zeros((5, 1), dtype=np.float32))
    lists = lists_for(block, "ndcg")
    scores = rng.normal(size=5)
    assert SumHinge(True).at(scores, lists)[0] == pytest.approx(
        SumHinge(False).at(scores, lists)[0]
    )


@pytest.mark.parametrize("measure", ["ap", "ndcg"])
@given(problems())
def test_loss_of_the_predicted_ranking_is_at_most_the_hinge(measure, problem):
    sizes, grades, scores, _ = problem
    block = block_of(sizes, grades, np.zeros((len(grades), 1), dtype=np.float32))
    lists = lists_for(block, measure)
    predicted = 0.0
    for start, end in zip(block.query_ptr, block.query_ptr[1:], strict=False):
        gains = lists.gains[start:end]
        if gains.min() < gains.max():
            places = np.empty(end - start, dtype=int)
            places[np.argsort(-scores[start:end])] = np.arange(1, end - start + 1)
            predicted += reference.LOSSES[measure](gains, places)
    values = [loss.at(scores, lists)[0] for loss, _ in FORMS.values()]
    assert predicted <= values[0] + 1e-9
    assert values[0] <= values[2] + 1e-9 <= values[1] + 2e-9


def test_a_list_too_long_to_enumerate():
    block = block_of([3, 9], [0, 1, 0] + [0, 1, 2] * 3, np.zeros((12, 1), dtype=np.float32))
    for by_class, n_rankings in ((False, "12.8"), (True, None)):
        lists = lists_for(block, "ap")
        if n_rankings is None:
            assert SumHinge(by_class).at(np.zeros(12), lists)[0] > 0
        else:
            with pytest.raises(UsageError, match=r"9 documents and about e\^12.8 rankings"):
                SumHinge(by_class).at(np.zeros(12), lists)
