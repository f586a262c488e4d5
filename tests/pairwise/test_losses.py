"""Losses over all pairs against listing the pairs, and derivatives against differences."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.pairwise import losses
from dranking.pairwise.kernels.pair_sums import is_wide
from dranking.pairwise.losses import (
    SQUARED_HINGE,
    Logistic,
    curvature_of_model,
    empty_tangent,
    frozen_groups,
    hinge_of_pairs,
    loss_of_model,
    pair_targets,
    shortfalls_of,
    smoothed_hinge,
)
from tests.reference import pair_losses as reference

LOSSES = {
    "squared hinge": (SQUARED_HINGE, reference.squared_hinge),
    "smoothed hinge": (smoothed_hinge(0.25), reference.rounded_hinge(0.25)),
    "logistic": (Logistic(), reference.logistic),
}


@st.composite
def scored(draw):
    """Sizes, grades, query weights and scores, full of ties and of gaps of exactly the margin."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    n = sum(sizes)
    grades = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 0.5, -3.0]), min_size=n, max_size=n))
    weights = draw(
        st.lists(st.sampled_from([1.0, 0.0, 2.5]), min_size=len(sizes), max_size=len(sizes))
    )
    scores = draw(st.lists(st.integers(-12, 12).map(lambda v: v / 4), min_size=n, max_size=n))
    return sizes, np.array(grades), np.array(weights), np.array(scores)


def block_of(sizes, grades, weights, features):
    return QueryBlock(
        features=features,
        relevance=grades,
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=pa.array(range(len(sizes))),
        query_weights=weights,
    )


@given(scored(), st.sampled_from(sorted(LOSSES)))
def test_value_and_slopes(problem, name):
    sizes, grades, weights, scores = problem
    block = block_of(sizes, grades, weights, np.zeros((len(grades), 1), dtype=np.float32))
    loss, listed = LOSSES[name]
    at = loss.at(scores, frozen_groups(pair_targets(block)))
    expected = reference.loss_sum(listed, scores, grades, block.query_ptr, weights)
    assert at.value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    step = 1e-6
    for i in range(len(scores)):
        moved = [scores.copy(), scores.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        up, down = (reference.loss_sum(listed, s, grades, block.query_ptr, weights) for s in moved)
        assert at.slopes[i] == pytest.approx((up - down) / (2 * step), abs=1e-4)


@given(scored())
def test_number_of_pairs_and_plain_hinge(problem):
    sizes, grades, weights, scores = problem
    block = block_of(sizes, grades, weights, scores[:, None].astype(np.float32))
    targets = pair_targets(block)
    listed = list(reference.pairs_of(grades, block.query_ptr))
    assert targets.n_pairs == sum(weights[q] for q, _, _ in listed)
    expected = reference.loss_sum(reference.hinge, scores, grades, block.query_ptr, weights)
    assert hinge_of_pairs(block, targets, np.ones(1))[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("n_features", [1, 5, 8])
def test_derivatives_by_the_weights(name, layout, n_features):
    rng = np.random.default_rng(0)
    sizes = [4, 9, 1, 6]
    X = rng.normal(size=(20, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0
    grades = rng.integers(0, 3, 20).astype(float)
    block = block_of(sizes, grades, rng.random(4), layout(X))
    targets = pair_targets(block)
    loss, listed = LOSSES[name]
    w, direction = rng.normal(size=(2, n_features))
    value, gradient, tangent = loss_of_model(block, targets, w, loss)
    expected = reference.loss_sum(
        listed, X.astype(float) @ w, grades, block.query_ptr, block.weights
    )
    assert value == pytest.approx(expected, rel=1e-12)
    step = 1e-5

    def around(change):
        return loss_of_model(block, targets, w + change, loss)

    for j in range(n_features):
        e = step * np.eye(n_features)[j]
        assert gradient[j] == pytest.approx((around(e)[0] - around(-e)[0]) / (2 * step), abs=1e-5)
    ahead, behind = (around(sign * step * direction)[1] for sign in (1, -1))
    bend = curvature_of_model(block, targets, tangent, direction, loss)
    np.testing.assert_allclose(bend, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-4)


def test_a_tangent_has_room_for_every_document():
    tangent = empty_tangent(np.arange(5.0))
    assert [len(part) for part in tangent] == [5, 5, 5]


def corner(gap, width=0.5):
    x = max(0.0, 1.0 - gap)
    return x - x * x / width if x < width else 0.0


@given(scored(), st.sampled_from([0.25, 1e4]), st.sampled_from([0, 1, 64]))
def test_shortfalls(problem, unit, n_near):
    """In a large unit, scores differ by so many margins that all pairs are listed."""
    sizes, grades, weights, scores = problem
    block = block_of(sizes, grades, weights, np.zeros((len(grades), 1), dtype=np.float32))
    targets, scores = pair_targets(block), scores * unit
    tangent = smoothed_hinge(0.5).at(scores, frozen_groups(targets)).tangent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "N_NEAR", n_near)
        found = shortfalls_of(targets, tangent, 0.5)
    expected = [
        reference.loss_sum(of_gap, scores, grades, block.query_ptr, weights)
        for of_gap in (reference.hinge, corner)
    ]
    np.testing.assert_allclose(found[:2], expected, rtol=1e-12, atol=1e-11)
    if n_near == 64:
        assert found.squares == 0.0


def test_the_corner_of_a_hinge_does_not_have_all_pairs_listed():
    """Margins of 0, and below 0, as the rounded corner has them, say nothing of the scores."""
    scores, order = np.linspace(-50.0, 50.0, 300), np.arange(300)
    assert not is_wide(scores[order[0]], scores[order[-1]], len(scores))
    assert is_wide(8.0 * scores[order[0]], 8.0 * scores[order[-1]], len(scores))
