"""Steps on pairs: equal to plain loops, step for step, for dense and sparse rows."""

from functools import cache
from itertools import pairwise

import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from scipy.optimize import approx_fprime

from dranking.kernels.machine.compile import frozen
from dranking.pairwise.kernels.coregularised import Views, coregularised_steps
from dranking.pairwise.kernels.differences import as_rows, subtract
from dranking.pairwise.kernels.sgd import (
    Batch,
    Iterate,
    Steps,
    largest_norms,
    loss_and_slope,
    pair_losses,
    pair_steps,
)
from tests.kernels.compiled import COMPILED
from tests.reference import lcra as reference_lcra
from tests.reference import spd as reference

LOSSES = ["hinge", "squared-hinge", "logistic", "squared"]
LAYOUTS = {"dense": np.ascontiguousarray, "sparse": sparse.csr_array}


def random_rows(rng, n_rows=12, n_features=9, zeros=0.4):
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < zeros] = 0.0
    return X


def random_batch(rng, n_rows, n_pairs, graded):
    pairs = rng.integers(n_rows, size=(n_pairs, 2))
    labels = rng.integers(1, 4, n_pairs) * 1.0 if graded else np.ones(n_pairs)
    return Batch(pairs[:, 0].copy(), pairs[:, 1].copy(), labels)


def losses_of(rows, batch, masses, code, w):
    """`pair_losses`, with weights read-only as in a ranker, for which it is compiled."""
    return pair_losses(rows, batch, masses, code, frozen(w), frozen(abs(w)))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.5, 0.95]))
def test_differences(layout, seed, zeros):
    rng = np.random.default_rng(seed)
    X = random_rows(rng, zeros=zeros)
    rows = as_rows(LAYOUTS[layout](X))
    a, b = rng.integers(len(X), size=2)
    n = subtract(rows, a, b)
    found = np.zeros(X.shape[1])
    columns = rows.columns[:n] if rows.columns is not None else np.arange(n)
    assert (np.diff(columns) > 0).all()
    found[columns] = rows.values[:n]
    np.testing.assert_array_equal(found, X[a].astype(float) - X[b].astype(float))


@pytest.mark.parametrize("code", range(4), ids=LOSSES)
@given(y=st.sampled_from([1.0, -1.0, 2.0, 0.5]), f=st.floats(-40, 40))
def test_losses_and_slopes(code, y, f):
    value, slope = loss_and_slope(code, y, f)
    assert value == pytest.approx(reference.loss(LOSSES[code], y, f), rel=1e-12, abs=1e-14)
    assert slope == pytest.approx(reference.descent(LOSSES[code], y, f), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("code", range(4), ids=LOSSES)
@pytest.mark.parametrize("f", [-2.3, -0.2, 0.3, 0.45, 3.1])
@pytest.mark.parametrize("y", [1.0, 2.0, -1.0])
def test_slopes_are_numerical_derivatives(code, f, y):
    numerical = approx_fprime([f], lambda x: loss_and_slope(code, y, x[0])[0], 1e-7)[0]
    assert -loss_and_slope(code, y, f)[1] == pytest.approx(numerical, abs=1e-5)


def test_logistic_of_very_large_scores():
    assert loss_and_slope(2, 1.0, 1e4) == (0.0, 0.0)
    assert loss_and_slope(2, 1.0, -1e4) == (1e4, 1.0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", range(4), ids=LOSSES)
@pytest.mark.parametrize(
    ("t0", "radius", "average_from"),
    [(0.0, np.inf, 0), (5.5, np.inf, 100), (0.0, 0.8, 40), (30.0, 0.1, 0), (0.25, np.inf, 10**9)],
)
def test_spd_steps_equal_the_loop(layout, code, t0, radius, average_from):
    rng = np.random.default_rng(code)
    X = random_rows(rng)
    batch = random_batch(rng, len(X), 200, graded=True)
    regularization = 0.9
    expected, expected_total, losses = reference.spd(
        X.tolist(),
        list(zip(batch.better, batch.worse, strict=True)),
        batch.labels,
        regularization,
        LOSSES[code],
        t0,
        radius,
        average_from,
    )
    steps = Steps(code, regularization, regularization * t0, radius, average_from)
    rows = as_rows(LAYOUTS[layout](X))
    w, total = np.zeros(9), np.zeros(9)
    found = 0.0
    for part in (slice(0, 70), slice(70, 71), slice(71, 200)):  # batches change next to nothing
        piece = Batch(*(array[part] for array in batch))
        found += pair_steps(rows, piece, steps, part.start, Iterate(w, total))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(w, expected, rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(total, expected_total, rtol=1e-8, atol=1e-10 * scale)
    assert found == pytest.approx(losses, rel=1e-10)


def test_a_tiny_scale_is_worked_into_the_weights():
    """A small ball shrinks the scale at each step until it would underflow."""
    rng = np.random.default_rng(0)
    X = random_rows(rng)
    batch = random_batch(rng, len(X), 3_000, graded=False)
    arguments = (0.01, "squared-hinge", 0.0, 1e-3, 1_000)
    expected, total, _ = reference.spd(
        X.tolist(), list(zip(batch.better, batch.worse, strict=True)), batch.labels, *arguments
    )
    w, found = np.zeros(9), np.zeros(9)
    pair_steps(as_rows(X), batch, Steps(1, 0.01, 0.0, 1e-3, 1_000), 0, Iterate(w, found))
    np.testing.assert_allclose(w, expected, rtol=1e-8)
    np.testing.assert_allclose(found, total, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where kernels are interpreted
def test_steps_that_diverge_say_so():
    rng = np.random.default_rng(0)
    X = 100 * random_rows(rng)
    batch = random_batch(rng, len(X), 2_000, graded=False)
    steps = Steps(3, 1e-6, 0.0, np.inf, 10**9)
    start = Iterate(np.zeros(9), np.zeros(9))
    assert np.isnan(pair_steps(as_rows(X), batch, steps, 0, start))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", range(4), ids=LOSSES)
def test_losses_of_a_batch(layout, code):
    rng = np.random.default_rng(code)
    X, w, masses = random_rows(rng), rng.normal(size=9), rng.random(50)
    batch = random_batch(rng, len(X), 50, graded=True)
    losses, without, rounding, squares = losses_of(
        as_rows(LAYOUTS[layout](X)), batch, masses, code, w
    )
    scores = X.astype(float) @ w
    listed = list(
        zip(masses, batch.labels, scores[batch.better] - scores[batch.worse], strict=True)
    )
    name = LOSSES[code]
    assert losses == pytest.approx(sum(m * reference.loss(name, y, f) for m, y, f in listed))
    assert without == pytest.approx(sum(m * reference.loss(name, y, 0) for m, y, _ in listed))
    assert 0.0 < rounding <= 1e-13 * losses
    assert squares == pytest.approx(sum(m * reference.loss(name, y, f) ** 2 for m, y, f in listed))


def exact_loss(name, y, f):
    """The loss of exact numbers, in 200 bits."""
    if name == "margin-hinge":
        return max(mpmath.mpf(0), y - f)
    if name == "logistic":
        return mpmath.log1p(mpmath.exp(-y * f))
    return reference.loss(name, y, f)


@cache
def copied_columns(seed):
    """Copied columns with weights of opposite signs, up to 1e12: scores lose up to all digits.

    Rows, weights, and 50 pairs with their masses and, in 200 bits, their differences of scores.
    """
    rng = np.random.default_rng(seed)
    X = random_rows(rng)
    X[:, 1], X[:, 5] = X[:, 0], 3.0 * X[:, 4]
    w, size = rng.normal(size=9), 10.0 ** (0.3 * (-seed % 40))
    w[0] += size
    w[1] -= size
    w[4] += 3.0 * size / 7.0
    w[5] -= size / 7.0
    batch, masses = random_batch(rng, len(X), 50, graded=True), rng.random(50)
    with mpmath.workprec(200):
        weights = [*map(mpmath.mpf, w)]
        scores = [mpmath.fdot(map(mpmath.mpf, row.tolist()), weights) for row in X]
        exact = [scores[a] - scores[b] for a, b in zip(batch.better, batch.worse, strict=True)]
    return X, w, batch, masses, exact


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", range(5), ids=[*LOSSES, "margin-hinge"])
def test_the_bound_of_the_rounding_of_losses_holds(layout, code):
    name = [*LOSSES, "margin-hinge"][code]
    largest = 0.0
    for seed in range(40 if COMPILED else 3):
        X, w, batch, masses, differences = copied_columns(seed)
        losses, _, rounding, _ = losses_of(as_rows(LAYOUTS[layout](X)), batch, masses, code, w)
        with mpmath.workprec(200):
            exact = mpmath.mpf(0)
            for f, y, m in zip(differences, batch.labels, masses, strict=True):
                exact += mpmath.mpf(m) * exact_loss(name, mpmath.mpf(y), f)
            off = float(abs(mpmath.mpf(losses) - exact))
        assert off <= rounding
        largest = max(largest, off)
    assert largest > 1e-6


def test_no_rounding_where_no_hinge_is_near_its_corner():
    X = np.float32([[1e9], [2e9], [4e9]])
    batch = Batch(np.array([1, 2, 2]), np.array([0, 0, 1]), np.ones(3))
    w = np.array([1e-3])
    assert losses_of(as_rows(X), batch, np.ones(3), 0, w) == (0.0, 3.0, 0.0, 0.0)


def test_every_pair_of_a_batch_of_no_more_than_256_counts_in_the_bound():
    rng = np.random.default_rng(0)
    rows, w, masses = as_rows(random_rows(rng, 60)), 1e3 * rng.normal(size=9), rng.random(256)
    batch = random_batch(rng, 60, 256, graded=False)
    alone = 0.0
    for i in range(256):
        pair = Batch(*(array[i : i + 1].copy() for array in batch))
        loss, _, bound, _ = losses_of(rows, pair, masses[i : i + 1].copy(), 2, w)
        alone += bound - 2.0**-52 * loss
    losses, _, rounding, _ = losses_of(rows, batch, masses, 2, w)
    assert rounding - 256 * 2.0**-52 * losses == pytest.approx(alone, rel=1e-9)


def test_some_pairs_stand_for_all_in_the_bound():
    """Of 5,000 pairs the bound is within a fifth of the sum of the bounds of 25 batches."""
    rng = np.random.default_rng(0)
    rows, w, masses = as_rows(random_rows(rng, 60)), 1e3 * rng.normal(size=9), rng.random(5_000)
    batch = random_batch(rng, 60, 5_000, graded=False)
    sums = []
    for i in range(0, 5_000, 200):
        own = slice(i, i + 200)
        part = Batch(*(array[own].copy() for array in batch))
        sums.append(losses_of(rows, part, masses[own].copy(), 2, w)[2])
    losses, _, rounding, _ = losses_of(rows, batch, masses, 2, w)
    of_sums = 2.0**-52 * losses * np.array([5_000, 200])
    assert rounding - of_sums[0] == pytest.approx(sum(sums) - of_sums[1], rel=0.2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_largest_norms_of_groups_of_columns(layout):
    rng = np.random.default_rng(0)
    X = random_rows(rng)
    batch = random_batch(rng, len(X), 50, graded=False)
    differences = X[batch.better].astype(float) - X[batch.worse]
    expected = [(differences[:, a:b] ** 2).sum(axis=1).max() for a, b in ((0, 2), (2, 7), (7, 9))]
    found = largest_norms(as_rows(LAYOUTS[layout](X)), batch, np.array([0, 2, 7, 9]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


VIEWS = [np.array([0, 4, 9]), np.array([0, 1, 5, 9]), np.array([0, 9])]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", range(4), ids=LOSSES)
@pytest.mark.parametrize("view_ptr", VIEWS, ids=str)
@pytest.mark.parametrize(("k", "l"), [(1, 1), (3, 2), (2, 5), (1, 0)])
def test_lcra_steps_equal_the_loop(layout, code, view_ptr, k, l):  # noqa: E741 - the paper's
    rng = np.random.default_rng(k + l)
    X, Z = random_rows(rng), random_rows(rng, n_rows=20)
    n_steps, regularization, mu, t0, average_from = 40, 0.7, 0.3, 2.0, 15
    batch = random_batch(rng, len(X), k * n_steps, graded=True)
    others = random_batch(rng, len(Z), l * n_steps, graded=False)
    expected = reference_lcra.lcra(
        X,
        Z,
        np.stack(batch[:2], axis=1).reshape(n_steps, k, 2),
        np.stack(others[:2], axis=1).reshape(n_steps, l, 2),
        batch.labels.reshape(n_steps, k),
        [range(a, b) for a, b in pairwise(view_ptr)],
        regularization,
        mu,
        LOSSES[code],
        t0,
        average_from,
    )
    labelled, unlabelled = (as_rows(LAYOUTS[layout](rows)) for rows in (X, Z))
    w, total = np.zeros(9), np.zeros(9)
    steps = Steps(code, regularization, regularization * t0, np.inf, average_from)
    views = Views(frozen(view_ptr), k, 4 * mu * (len(view_ptr) - 1))
    losses = coregularised_steps(
        labelled, unlabelled, batch, others, views, steps, 0, Iterate(w, total)
    )
    np.testing.assert_allclose(w, expected[0], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(total, expected[1], rtol=1e-7, atol=1e-11)
    assert losses == pytest.approx(expected[2], rel=1e-10)


def test_for_small_steps_the_implicit_step_is_the_explicit_one():
    rng = np.random.default_rng(0)
    w, p = rng.normal(size=(2, 9))
    views = [range(0, 4), range(4, 7), range(7, 9)]
    implicit, explicit = (
        step(w, p, views, 1e-7) - w
        for step in (reference_lcra.implicit_step, reference_lcra.explicit_step)
    )
    np.testing.assert_allclose(implicit, explicit, rtol=1e-4)
