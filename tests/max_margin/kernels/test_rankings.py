"""Loss-augmented inference against all permutations of a list."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.kernels.machine.compile import frozen
from dranking.max_margin.kernels import rankings as listwise
from tests.reference import max_margin as reference

SCORES = st.integers(-12, 12).map(lambda v: v / 4) | st.floats(-30, 30)


@st.composite
def lists(draw, grades):
    """Scores and gains of a list in which some document is better than another."""
    n = draw(st.integers(2, 6))
    gains = draw(st.lists(grades, min_size=n, max_size=n).filter(lambda g: min(g) < max(g)))
    scores = draw(st.lists(SCORES, min_size=n, max_size=n))
    return np.array(scores), np.array(gains, dtype=float)


def discounts(n):
    return 1.0 / np.log2(np.arange(2.0, n + 2.0))


def placed(measure, scores, gains):
    places = np.empty(len(scores), dtype=np.int64)
    if measure == "ndcg":
        listwise.most_violated_by_ndcg(
            frozen(scores), frozen(gains), frozen(discounts(len(scores))), places
        )
    else:
        listwise.most_violated_by_ap(frozen(scores), frozen(gains), places)
    return places


def check_is_most_violated(measure, scores, gains):
    places = placed(measure, scores, gains).tolist()
    assert sorted(places) == list(range(1, len(scores) + 1))
    problem = measure, scores.tolist(), gains.tolist()
    largest = reference.argmax_hinge(*problem)
    assert reference.hinge(*problem, places) == pytest.approx(largest, abs=1e-9)


@given(lists(st.integers(0, 1)))
def test_ranking_by_ap_is_most_violated(problem):
    check_is_most_violated("ap", *problem)


@given(lists(st.integers(0, 1) | st.integers(0, 4).map(lambda g: 2**g - 1)))
def test_ranking_by_ndcg_is_most_violated(problem):
    check_is_most_violated("ndcg", *problem)


@pytest.mark.parametrize("measure", ["ap", "ndcg"])
def test_no_score_at_all_gives_the_worst_ranking(measure):
    gains = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    places = placed(measure, np.zeros(5), gains)
    assert sorted(places[gains > 0]) == [4, 5]


@pytest.mark.parametrize("measure", ["ap", "ndcg"])
def test_large_gaps_leave_the_true_ranking(measure):
    gains = np.array([0.0, 1.0, 0.0, 1.0])
    assert placed(measure, 100 * gains + [3, 2, 1, 0], gains).tolist() == [3, 1, 4, 2]


def test_a_list_too_long_to_enumerate_has_no_better_neighbour():
    rng = np.random.default_rng(0)
    n = 40
    gains = (rng.random(n) < 0.3).astype(float)
    scores = rng.normal(size=n) * 3 + gains
    places = placed("ap", scores, gains).tolist()
    problem = "ap", scores.tolist(), gains.tolist()
    best, slopes = reference.hinge(*problem, places), np.empty(n)
    own = (gains, discounts(n), np.array([0, n]), np.ones(1))
    lists = listwise.Lists(listwise.AP, *map(frozen, own))
    value = listwise.largest_hinges(lists, frozen(scores), slopes)
    assert value == pytest.approx(best, abs=1e-12)
    order = np.argsort(places)
    for k in range(n - 1):
        other = places.copy()
        a, b = order[k : k + 2]
        other[a], other[b] = other[b], other[a]
        assert reference.hinge(*problem, other) <= best + 1e-12


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_all_permutations_once_each(symbols):
    permutation = np.sort(np.array(symbols, dtype=np.int64))
    seen = {tuple(permutation)}
    while listwise.next_permutation(permutation):
        assert tuple(permutation) not in seen
        seen.add(tuple(permutation))
    counts = np.unique(symbols, return_counts=True)[1]
    assert len(seen) == math.factorial(len(symbols)) / math.prod(map(math.factorial, counts))
