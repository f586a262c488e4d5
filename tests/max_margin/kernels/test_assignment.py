"""The assignment of product costs against SciPy's solver and all permutations."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from dranking.max_margin.kernels.assignment import Costs, assign, commonest
from tests.kernels.compiled import needs_compiled

VALUES = st.integers(-3, 3).map(float) | st.floats(-50, 50)


@st.composite
def costs(draw, most=12):
    """Scores, gains with many equal values, descending slopes, any discounts."""
    n = draw(st.integers(1, most))

    def some(values):
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    slopes = -np.sort(-some(VALUES))
    return Costs(some(VALUES), some(st.sampled_from([0.0, 0.0, 1.0, 3.0, -2.0])), slopes,
                 some(VALUES))  # fmt: skip


def listed(costs):
    return np.outer(costs.gains, costs.discounts) - np.outer(costs.scores, costs.slopes)


def check(costs, expected):
    columns = assign(costs)
    n = len(columns)
    assert sorted(columns) == list(range(n))
    found = listed(costs)[np.arange(n), columns].sum()
    scale = 1.0 + np.abs(listed(costs)).max()
    assert found == pytest.approx(expected, abs=1e-12 * n * scale)


@given(costs())
def test_least_sum_is_that_of_scipy(problem):
    matrix = listed(problem)
    check(problem, matrix[linear_sum_assignment(matrix)].sum())


@given(costs(most=5))
def test_least_sum_is_that_of_all_permutations(problem):
    matrix, n = listed(problem), len(problem.scores)
    check(problem, min(matrix[range(n), p].sum() for p in map(list, permutations(range(n)))))


@pytest.mark.parametrize("convention", ["log2", "letor"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("n", [40, pytest.param(150, marks=needs_compiled)])
def test_long_lists_of_ndcg(n, spread, convention):
    """Discounts that descend, and the discounts of LETOR, whose first two are equal."""
    rng = np.random.default_rng(n)
    for shares in ([0.8, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.0, 0.9, 0.1]):
        grades = rng.choice(len(shares), size=n, p=shares)
        gains = np.exp2(grades) - 1.0
        ranks = np.arange(1.0, n + 1.0)
        arguments = ranks + 1.0 if convention == "log2" else np.maximum(ranks, 2.0)
        discounts = 1.0 / np.log2(arguments)
        ideal = -np.sort(-gains) @ discounts
        scores = spread * (rng.normal(size=n) + 0.5 * grades)
        slopes = 2.0 * (n + 1 - 2 * ranks) / (n * (n - 1))
        problem = Costs(scores, gains / ideal, slopes, discounts)
        matrix = listed(problem)
        check(problem, matrix[linear_sum_assignment(matrix)].sum())


# As plain Python, where Numba is off, the kernel warns.
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_values_that_are_not_finite_terminate():
    broken = np.array([1.0, np.nan, np.inf, 0.0])
    costs = Costs(broken, np.array([0.0, 1.0, 0.0, 2.0]), -np.arange(4.0), np.arange(4.0))
    assert sorted(assign(costs)) == [0, 1, 2, 3]


def test_commonest():
    assert commonest(np.array([3.0, 1.0, 3.0, 2.0, 1.0, 3.0])) == 3.0
    assert commonest(np.array([2.0])) == 2.0
