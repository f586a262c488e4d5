"""Listwise hinges against definitions 3 and 4 by plain loops, and their subgradients."""

from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.max_margin.losses.listwise import (
    ArgmaxHinge,
    ListTargets,
    SumHinge,
    lists_of,
    listwise_of_model,
    n_lists,
    stated_losses,
)
from dranking.rankrls.kernels.far_columns import far_columns
from tests.kernels.compiled import COMPILED
from tests.reference import max_margin as reference
from tests.reference.exact_hinges import hinges_of_lists

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
    lists = ListTargets(lists_for(block, measure))
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


@cache
def copied_columns(seed):
    """Copied columns with weights of opposite signs, up to 1e12; one column is far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(13, 5)).astype(np.float32)
    X[:, 1], X[:, 3] = X[:, 0], 1.6e7 + rng.integers(0, 4, 13)
    block = block_of([4, 1, 5, 3], rng.integers(0, 3, 13), X, rng.random(4))
    w, size = rng.normal(size=5), 10.0 ** (0.63 * (-seed % 20))
    w[0] += size
    w[1] -= size
    return block, w, size


@cache
def exact_hinges(seed, measure):
    block, _, _ = copied_columns(seed)
    ptr = block.query_ptr
    return hinges_of_lists(block.features, block.relevance, ptr, block.weights, measure)


@cache
def exact_losses(seed, measure, by_ranking):
    """Weighted sum over lists of the largest hinge, or of all hinges above 0, in 600 bits."""
    _, w, _ = copied_columns(seed)
    with mpmath.workprec(600):
        weights, total = [mpmath.mpf(v) for v in w], mpmath.mpf(0)
        for weight, planes in exact_hinges(seed, measure):
            heights = [c - mpmath.fdot(d, weights) for c, d in planes]
            total += weight * (sum(h for h in heights if h > 0) if by_ranking else max(heights))
        return total


@pytest.mark.parametrize("form", ["argmax", "all"])
@pytest.mark.parametrize("measure", ["ap", "ndcg"])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
def test_the_bound_of_the_rounding_of_losses_holds(form, measure, layout):
    largest = 0.0
    for seed in range(20 if COMPILED else 3):
        block, w, size = copied_columns(seed)
        block = replace(block, features=layout(block.features))
        lists = lists_for(block, measure)
        far = far_columns(block.features, block.query_ptr)
        assert 3 in far.moving
        loss, _ = FORMS[form]
        value, zeros, rounding = stated_losses(block, ListTargets(lists, far), w, loss)
        assert value == listwise_of_model(block, ListTargets(lists, far), w, loss)[0]
        assert zeros == loss.at(np.zeros(13), lists)[0]
        off = float(abs(value - exact_losses(seed, measure, form == "all")))
        assert off <= rounding
        assert size > 10.0 or rounding <= (1e-12 if form == "argmax" else 1e-10) * (1.0 + value)
        largest = max(largest, off)
    assert largest > 1e-6


def test_every_list_of_a_block_of_no_more_than_16_counts_in_the_bound():
    rng = np.random.default_rng(0)
    X, grades = rng.normal(size=(64, 3)).astype(np.float32), np.tile([0, 1, 2, 0], 16)
    w, weights, loss = 1e3 * rng.normal(size=3), rng.random(16), ArgmaxHinge()

    def bound_of(first, last):
        rows = slice(4 * first, 4 * last)
        sizes = [4] * (last - first)
        block = block_of(sizes, grades[rows], X[rows], weights[first:last])
        targets = ListTargets(lists_for(block, "ndcg"))
        value, _, rounding = stated_losses(block, targets, w, loss)
        return rounding - len(sizes) * 2.0**-52 * value

    alone = sum(bound_of(q, q + 1) for q in range(16))
    assert bound_of(0, 16) == pytest.approx(alone, rel=1e-9)


def test_no_rounding_where_all_lists_are_ranked_well():
    block = block_of([3], [0, 1, 2], np.float32([[1e6], [2e6], [3e6]]))
    targets = ListTargets(lists_for(block, "ndcg"))
    value, zeros, rounding = stated_losses(block, targets, np.array([1.0]), ArgmaxHinge())
    assert (value, rounding) == (0.0, 0.0)
    assert zeros > 0.0


def test_some_lists_stand_for_all_in_the_bound(monkeypatch):
    """16 of 200 lists, by which the sum of the bounds of all lists is estimated."""
    rng = np.random.default_rng(0)
    X, grades = 1e3 * rng.normal(size=(1000, 3)), rng.integers(0, 3, 1000)
    block = block_of([5] * 200, grades, X.astype(np.float32), rng.uniform(0.5, 1.5, 200))
    targets, w = ListTargets(lists_for(block, "ndcg")), rng.normal(size=3)
    value, _, some = stated_losses(block, targets, w, ArgmaxHinge())
    monkeypatch.setattr("dranking.max_margin.losses.listwise.BOUNDED_LISTS", 1_000)
    _, _, every = stated_losses(block, targets, w, ArgmaxHinge())
    of_sums = 200 * 2.0**-52 * value
    assert some != every
    assert some - of_sums == pytest.approx(every - of_sums, rel=0.5)


def test_a_list_too_long_to_enumerate():
    block = block_of([3, 9], [0, 1, 0] + [0, 1, 2] * 3, np.zeros((12, 1), dtype=np.float32))
    for by_class, n_rankings in ((False, "12.8"), (True, None)):
        lists = lists_for(block, "ap")
        if n_rankings is None:
            assert SumHinge(by_class).at(np.zeros(12), lists)[0] > 0
        else:
            with pytest.raises(UsageError, match=r"9 documents and about e\^12.8 rankings"):
                SumHinge(by_class).at(np.zeros(12), lists)
