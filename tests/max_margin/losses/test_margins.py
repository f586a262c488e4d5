"""Position-sensitive margins against definitions 1 and 2 by plain loops; counterexamples."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError
from dranking.max_margin.losses.margins import MarginRule, margin_targets, pair_risks
from dranking.pairwise.losses import frozen_groups, hinge_of_pairs, loss_of_model, smoothed_hinge
from tests.reference import max_margin as reference


def block_of(sizes, grades, scores, weights=None):
    return QueryBlock(
        features=np.array(scores, dtype=np.float32)[:, None],
        relevance=np.array(grades, dtype=float),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=pa.array(range(len(sizes))),
        query_weights=weights,
    )


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    n = sum(sizes)
    grades = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(-12, 12).map(lambda v: v / 4), min_size=n, max_size=n))
    return sizes, grades, scores


@pytest.mark.parametrize("margins", ["levels", "ranks"])
@given(problems())
def test_losses_of_each_query_are_those_of_the_definitions(margins, problem):
    sizes, grades, scores = problem
    weights = np.arange(len(sizes), dtype=float)
    block = block_of(sizes, grades, scores, weights)
    targets = margin_targets(block, MarginRule(margins, 4))
    found = pair_risks(targets, np.array(scores))
    expected = []
    for start, end in zip(block.query_ptr, block.query_ptr[1:], strict=False):
        of_query = scores[start:end], grades[start:end]
        expected.append(reference.pairwise_losses(*of_query, margins, 4))
    np.testing.assert_allclose(np.transpose(found), expected, atol=1e-9)
    assert (found.inverted_margins <= found.hinge + 1e-9).all()
    value, gradient = hinge_of_pairs(block, targets, np.ones(1))
    assert value == pytest.approx(weights @ found.hinge, abs=1e-9)
    other = hinge_of_pairs(block, targets, np.array([1.75]))[0]
    assert other >= value + 0.75 * gradient[0] - 1e-9


@pytest.mark.parametrize("margins", ["levels", "ranks"])
def test_a_rounded_corner_is_below_the_hinge_by_half_its_width_at_most(margins):
    rng = np.random.default_rng(0)
    grades, scores = rng.integers(0, 3, 20), rng.normal(size=20)
    block = block_of([12, 8], grades, scores)
    targets = margin_targets(block, MarginRule(margins, 3))
    hinge = hinge_of_pairs(block, targets, np.ones(1))[0]
    for width in (1.0, 0.1):
        rounded = loss_of_model(block, targets, np.ones(1), smoothed_hinge(width, 0.0))[0]
        assert hinge - targets.n_pairs * width / 2 <= rounded <= hinge


def test_two_levels_have_margin_one():
    """The bipartite case, in which 0-1 <= hinge holds without weights."""
    block = block_of([4], [1, 0, 0, 1], [0.5, 1.0, 0.0, 2.0])
    found = pair_risks(margin_targets(block, MarginRule("levels", 2)), block.features[:, 0])
    assert found.n_inverted == found.inverted_margins == [1.0]
    assert found.hinge == [0.5 + 1.5]


@pytest.mark.parametrize(
    ("margins", "grades"), [("levels", [1, 0]), ("ranks", [2, 1, 0])], ids=["levels", "ranks"]
)
def test_counterexample_to_the_unweighted_claim(margins, grades):
    """Theorem 3 and corollary 1 as printed: one pair inverted, and a hinge of 0.51."""
    scores = [10.0, 0.0, 0.01][-len(grades) :]
    block = block_of([len(grades)], grades, scores)
    targets = margin_targets(block, MarginRule(margins, 3))
    found = pair_risks(targets, np.array(scores))
    assert found.n_inverted == [1.0]
    assert found.hinge == pytest.approx([0.51])
    assert found.inverted_margins == pytest.approx([0.5])
    # What the corrected right side is multiplied by: r - 1, or m - 1.
    assert found.n_inverted <= 2 * found.hinge


@pytest.mark.parametrize("grade", [-1.0, 3.0])
def test_a_grade_beyond_the_levels(grade):
    block = block_of([2, 2], [0, 1, 2, grade], np.zeros(4))
    with pytest.raises(DataError, match=r"query 1 has relevance -?\d; with 3 levels it must"):
        margin_targets(block, MarginRule("levels", 3))


def test_groups_are_those_of_relevance():
    block = block_of([3], [2, 0, 1], np.zeros(3))
    assert frozen_groups(margin_targets(block, MarginRule("ranks", 1))).ranks.tolist() == [2, 0, 1]
