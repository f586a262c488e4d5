"""Gram rows that a task writes: a task that runs again undoes no later work."""

import numpy as np
import pytest

from dranking.rankrls.gram.moments import block_moments
from dranking.rankrls.gram.rows import fetch_rows, room_for_rows
from dranking.rankrls.kernels.gram import dense
from tests.models.problems import random_problem


@pytest.fixture(scope="module")
def dataset():
    """Features that nearly copy each other."""
    problem = random_problem(5, n_queries=60, n_features=20)
    rng = np.random.default_rng(0)
    copies = problem.X + 0.1 * rng.normal(size=problem.X.shape).astype(np.float32)
    X = np.hstack([problem.X, copies, 3.0 * problem.X + copies]).astype(np.float32)
    return problem._replace(X=X).dataset(max_documents=30)


def test_a_fetch_that_runs_again_undoes_no_later_one(dataset):
    """As after the loss of a worker, when a later fetch has written to the same slots."""
    block = dataset.block(0)
    moments = block_moments(block)
    start = room_for_rows(moments, 3)
    first = fetch_rows(block, None, moments, start, np.array([4, 5]), np.array([0, 1]), 1)
    totals = first.totals.copy()
    second = fetch_rows(block, None, moments, first, np.array([6, 7]), np.array([1, 2]), 2)
    rows = second.rows.copy()
    again = fetch_rows(block, None, moments, start, np.array([4, 5]), np.array([0, 1]), 1)
    np.testing.assert_array_equal(again.totals, totals)
    np.testing.assert_array_equal(second.rows, rows)
    np.testing.assert_array_equal(again.rows[0], rows[0])


def test_a_fetch_that_broke_off_runs_again(dataset, monkeypatch):
    block = dataset.block(0)
    moments = block_moments(block)
    start, where = room_for_rows(moments, 2), (np.array([4, 5]), np.array([0, 1]))
    whole = fetch_rows(block, None, moments, room_for_rows(moments, 2), *where, 1)
    compute = dense.gram_rows

    def break_off(*arguments):
        compute(*arguments)
        start.rows[:] = -1.0
        raise MemoryError

    monkeypatch.setattr(dense, "gram_rows", break_off)
    with pytest.raises(MemoryError):
        fetch_rows(block, None, moments, start, *where, 1)
    monkeypatch.setattr(dense, "gram_rows", compute)
    again = fetch_rows(block, None, moments, start, *where, 1)
    np.testing.assert_array_equal(again.rows, whole.rows)
    np.testing.assert_array_equal(again.totals, whole.totals)
