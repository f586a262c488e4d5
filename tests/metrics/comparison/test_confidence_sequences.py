"""Confidence sequences against capital processes by loops, and their promise by enumeration."""

import itertools
import math

import numpy as np
import pytest

from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.confidence_sequences import (
    confidence_sequence,
    expected_half_width,
    lower_ends,
    mean_e_value,
)
from tests.reference import confidence_sequences as reference

SAMPLES = {
    "clicks": lambda rng: (rng.random(40) < 0.5) * 1.0,
    "uniform": lambda rng: rng.random(40),
    "mostly one": lambda rng: np.r_[np.ones(30), rng.random(10)],
    "constant": lambda rng: np.full(30, 0.5),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_lower_ends__are_the_means_that_no_capital_rules_out(name, alpha):
    values = SAMPLES[name](np.random.default_rng(1))
    expected = reference.lower_ends_on_grid(values.tolist(), alpha, 50)
    found = lower_ends(values, alpha)
    # The grid's first mean that is not ruled out is the next one above the exact end.
    np.testing.assert_array_less(np.array(expected) - 0.02 - 1e-9, found + 1e-12)
    np.testing.assert_array_less(found, np.array(expected) + 1e-9)
    assert np.any(found > 0)


def test_confidence_sequence__is_two_one_sided_ones_at_half_of_alpha():
    values = np.random.default_rng(0).random(500) ** 2
    lower, upper = confidence_sequence(values, 0.1)
    np.testing.assert_array_equal(lower, lower_ends(values, 0.05))
    np.testing.assert_array_equal(upper, 1 - lower_ends(1 - values, 0.05))
    assert np.all(np.diff(lower) >= 0)
    assert np.all(np.diff(upper) <= 0)
    assert lower[-1] < values.mean() < upper[-1]


@pytest.mark.parametrize("mean", [0.25, 0.75])
def test_promise__over_every_possible_sequence_of_clicks(mean):
    """Of all 2^10 sequences those with an end above the mean at any look have little probability.

    Alpha is large, so that the promise is nearly used up.
    """
    alpha, missed = 0.9, 0.0
    for clicks in itertools.product([0.0, 1.0], repeat=10):
        probability = math.prod(mean if click else 1 - mean for click in clicks)
        missed += probability * bool(np.any(lower_ends(clicks, alpha) > mean))
    assert 0.01 < missed <= alpha


@pytest.mark.parametrize("mean", [0.2, 0.5])
def test_mean_e_value__has_the_mean_one_and_is_the_capital_of_gamblers(mean):
    expectation = 0.0
    for clicks in itertools.product([0.0, 1.0], repeat=10):
        e_value = mean_e_value(clicks, mean)
        assert e_value == pytest.approx(reference.betting_capital(clicks, mean))
        expectation += e_value * math.prod(mean if click else 1 - mean for click in clicks)
    assert expectation == pytest.approx(1.0)


def test_no_factor_wins_on_average():
    """The factors of the reference have a mean of at most 1 for every mean, guess and bet.

    The factors are not convex in the value, so that the ends 0 and 1 need not be the worst values:
    all distributions on two points of a grid are tried.
    """
    for guess in (0.01, 0.3, 0.5, 0.99):
        for low, high in itertools.combinations(np.linspace(0, 1, 11).tolist(), 2):
            for weight in (0.1, 0.5, 0.9):
                mean = weight * low + (1 - weight) * high
                capitals = [reference.capital_of_first(x, mean, guess) for x in (low, high)]
                expected = [weight * a + (1 - weight) * b for a, b in zip(*capitals, strict=True)]
                assert max(expected) <= 1 + 1e-12


def test_mean_e_value__of_overwhelming_evidence_is_finite():
    assert 1e300 < mean_e_value(np.ones(5000), 0.5) < np.inf
    assert mean_e_value(np.zeros(5000), 0.5) < 1


def test_width__expected_is_that_of_values_with_the_variance():
    values = (np.random.default_rng(0).random(20_000) < 0.3) * 1.0
    lower, upper = confidence_sequence(values)
    expected = 2 * expected_half_width(20_000, 0.3, 0.21)
    # Ends of earlier looks stay valid, so that luck makes the interval narrower, never wider.
    assert 0.75 * expected < upper[-1] - lower[-1] <= 1.01 * expected
    assert expected < 2 * 2 * 1.96 * math.sqrt(0.21 / 20_000)


@pytest.mark.parametrize("n", [1, 5])
def test_width__is_at_most_that_of_all_means(n):
    lower, upper = confidence_sequence([0.5] * n)
    assert expected_half_width(n, 0.5, 0.0) == pytest.approx((upper[-1] - lower[-1]) / 2, abs=0.01)


def test_parts_of_long_sequences_are_joined():
    values = np.tile([0.0, 1.0, 0.25], 30_000)
    whole = lower_ends(values)
    np.testing.assert_array_equal(whole[:70_000], lower_ends(values[:70_000]))
    assert len(lower_ends([])) == 0


@pytest.mark.parametrize(
    ("values", "position", "shown"),
    [
        ([0.5, 1.5], 1, "1.5"),
        ([-0.1], 0, "-0.1"),
        ([0.1, 0.2, np.nan], 2, "nan"),
        ([np.inf], 0, "inf"),
    ],
)
def test_values_without_the_bound_are_refused(values, position, shown):
    with pytest.raises(DataError, match=rf"value {position} is {shown}; only values in \[0, 1\]"):
        confidence_sequence(values)
    with pytest.raises(DataError, match="self-normalised"):
        mean_e_value(values, 0.5)


def test_wrong_calls_are_refused():
    with pytest.raises(UsageError, match="alpha is 1;"):
        lower_ends([0.5], 1.0)
    with pytest.raises(UsageError, match=r"alpha is 1\.5;"):
        confidence_sequence([0.5], 1.5)
    with pytest.raises(UsageError, match=r"shape \(1, 2\)"):
        confidence_sequence([[0.5, 0.5]])
    with pytest.raises(UsageError, match="null is 0;"):
        mean_e_value([0.5], 0.0)
    with pytest.raises(UsageError, match=r"variance is 0\.3;"):
        expected_half_width(5, 0.5, 0.3)
