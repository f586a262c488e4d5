"""The test by bets: exact capitals, a mean of at most 1, and what improvements cost."""

import re
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dranking.errors import DataError
from dranking.retrain.gate.bets import (
    detectable,
    difference_e_value,
    fewest_queries,
    queries_needed,
)
from tests.reference import bets as reference

COUNTS = st.lists(st.integers(-8, 8), min_size=1, max_size=30)


@given(COUNTS, st.data())
def test_the_e_value_is_the_exact_capital(eighths, data):
    weights = data.draw(st.lists(st.integers(1, 12), min_size=len(eighths), max_size=len(eighths)))
    differences = np.array(eighths) / 8
    exact = reference.final_capital([Fraction(k, 8) for k in eighths], weights, 12)
    found = difference_e_value(differences, np.array(weights) / 12)
    assert found == pytest.approx(float(exact), rel=1e-12)


MEAN_ZERO = [
    ([Fraction(-1), Fraction(1)], [Fraction(1, 2), Fraction(1, 2)]),
    ([Fraction(-1), Fraction(1, 9)], [Fraction(1, 10), Fraction(9, 10)]),
    ([Fraction(-1, 9), Fraction(1)], [Fraction(9, 10), Fraction(1, 10)]),
    (
        [Fraction(-1, 2), Fraction(0), Fraction(1, 4)],
        [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)],
    ),
    (
        [Fraction(-1), Fraction(-1, 3), Fraction(1)],
        [Fraction(1, 4), Fraction(3, 8), Fraction(3, 8)],
    ),
]


@pytest.mark.parametrize(("values", "chances"), MEAN_ZERO)
@pytest.mark.parametrize("n", range(1, 7))
def test_the_mean_of_the_e_value_is_one_where_the_mean_difference_is_zero(values, chances, n):
    """By all samples of n queries; the probability of a promotion is at most any level."""
    assert sum(chances) == 1
    assert sum(v * c for v, c in zip(values, chances, strict=True)) == 0
    mean, rejected = Fraction(0), dict.fromkeys((0.5, 0.125, 0.04), Fraction(0))
    for sample, chance in reference.samples(values, chances, n):
        e_value = difference_e_value(np.array(sample, dtype=float), np.ones(n))
        mean += chance * Fraction(e_value)
        for level in rejected:
            rejected[level] += chance * (e_value >= 1 / level)
    assert float(mean) == pytest.approx(1.0, rel=1e-12)
    assert all(probability <= level for level, probability in rejected.items())


def test_the_order_of_the_queries_does_not_matter_in_any_bit():
    differences = np.array([0.31, -0.12, 0.53, 0.0, 0.97])
    shares = np.array([1.0, 0.3, 0.7, 0.2, 0.9])
    found = {
        difference_e_value(differences[list(order)], shares[list(order)])
        for order in permutations(range(5))
    }
    assert len(found) == 1


def test_weights_scaled_by_the_largest_of_the_sample_would_break_the_level():
    """One query in 16 weighs 100 and loses: samples without it look like gains of weight 1."""
    values, chances = [Fraction(1), Fraction(-3, 20)], [Fraction(15, 16), Fraction(1, 16)]
    weights = {Fraction(1): 1, Fraction(-3, 20): 100}
    assert sum(v * weights[v] * c for v, c in zip(values, chances, strict=True)) == 0
    by_sample, by_configuration = Fraction(0), 0.0
    for sample, chance in reference.samples(values, chances, 4):
        own = [weights[value] for value in sample]
        by_sample += chance * reference.final_capital(sample, own, max(own))
        e_value = difference_e_value(np.array(sample, dtype=float), np.array(own) / 100)
        by_configuration += float(chance) * e_value
    assert by_configuration == pytest.approx(1.0)
    assert by_sample > 1.5


def test_rare_large_losses_do_not_deceive_the_bets():
    """95 % of the queries gain .026 and 5 % lose .5: a mean of 0. Student often sees no loser."""
    rng = np.random.default_rng(0)
    gain, n = 0.5 * 0.05 / 0.95, 100
    nights = np.where(rng.random((2000, n)) < 0.05, -0.5, gain)
    e_values = np.array([difference_e_value(night, np.ones(n)) for night in nights])
    assert e_values.mean() <= 1.0 + 4.0 * e_values.std() / np.sqrt(2000)
    assert 0.0 < (e_values >= 2.0).mean() <= 0.5  # the largest level that a test can have
    n_losers = (nights < 0).sum(axis=1)
    assert e_values[n_losers == 0].min() > e_values[n_losers > 0].max()


def test_differences_beyond_the_range_are_refused():
    with pytest.raises(DataError, match=r"only values in \[0, 1\]"):
        difference_e_value(np.array([1.5]), np.ones(1))


@pytest.mark.parametrize(
    ("every", "tests", "expected"), [("day", 365, 641), ("month", 12, 297), ("quarter", 4, 187)]
)
def test_the_queries_that_no_valid_test_can_do_without(every, tests, expected):
    level = 0.5 / tests
    assert fewest_queries(0.01, level) == expected
    assert reference.fewest_queries(0.01, level, 0.8) == expected


@pytest.mark.parametrize(
    ("n", "deviation", "level"), [(60, 0.15, 0.04), (400, 0.1, 0.04), (1000, 0.1, 0.5 / 365)]
)
def test_the_improvement_that_is_found_is_found_with_its_power(n, deviation, level):
    rng = np.random.default_rng(1)
    seen = rng.normal(0.0, deviation, n).clip(-1, 1)
    seen *= deviation / seen.std()
    improvement = detectable(seen, np.ones(n), level)
    nights = rng.normal(improvement, deviation, (1000, n)).clip(-1, 1)
    found = np.mean([difference_e_value(night, np.ones(n)) >= 1 / level for night in nights])
    assert 0.74 < found < 0.88
    assert queries_needed(seen, np.ones(n), level, improvement) == pytest.approx(n, rel=0.02)
    assert fewest_queries(improvement, level) < n


def test_the_bets_cost_what_a_simulation_has_found():
    """Deviation .10, improvement .01, a daily test: power .065 at 1,000 and .64 at 2,000."""
    rng = np.random.default_rng(2)
    for n, expected in ((1000, 0.065), (2000, 0.64)):
        nights = rng.normal(0.01, 0.1, (500, n)).clip(-1, 1)
        found = np.mean([difference_e_value(night, np.ones(n)) >= 730 for night in nights])
        assert found == pytest.approx(expected, abs=0.07)


def test_the_table_of_the_documentation_is_computed():
    page = (Path(__file__).parents[3] / "docs" / "nights.md").read_text()
    tests = {"day": 365, "week": 365 / 7, "month": 12, "quarter": 4}
    rows = re.findall(r'(?m)^\| `"(\w+)"` \| (.*) \|$', page)
    assert [every for every, _ in rows] == list(tests)
    normal = {n: 0.1 * stats.norm.ppf((np.arange(n) + 0.5) / n) for n in (200, 20_000)}
    for every, row in rows:
        level = 0.5 / tests[every]
        needed = queries_needed(normal[20_000], np.ones(20_000), level, 0.01)
        found = detectable(normal[200], np.ones(200), level)
        assert row == f"{level:.2g} | {fewest_queries(0.01, level)} | {needed:,} | {found:.3f}"


def test_too_few_queries_find_nothing():
    assert detectable(np.array([0.1, -0.1] * 3), np.ones(6), 0.5 / 365) is None
    assert queries_needed(np.array([0.1, -0.1]), np.full(2, 1e-9), 0.001, 0.001) is None
