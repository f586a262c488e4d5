"""Folds of queries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.errors import UsageError
from dranking.tuning.folds import QueryKFold


@given(st.integers(2, 9), st.integers(0, 40), st.integers(0, 5))
def test_every_query_is_held_out_once_and_sizes_differ_by_one_at_most(n_folds, more, seed):
    n_queries = n_folds + more
    splits = list(QueryKFold(n_folds, seed).split(n_queries))
    assert len(splits) == n_folds
    for training, held_out in splits:
        assert training.dtype == held_out.dtype == bool
        np.testing.assert_array_equal(training, ~held_out)
    held_out = np.array([mask for _, mask in splits])
    np.testing.assert_array_equal(held_out.sum(axis=0), 1)
    assert np.ptp(held_out.sum(axis=1)) <= 1


def test_folds_depend_on_the_number_of_queries_and_the_seed_alone():
    fold = QueryKFold(5, seed=3).assign(100)
    np.testing.assert_array_equal(fold, QueryKFold(5, seed=3).assign(100))
    assert (fold != QueryKFold(5, seed=4).assign(100)).any()


def test_folds_are_random():
    # Neighbours of a file, often alike, are not dealt in turn or in runs.
    fold = QueryKFold(2).assign(1_000)
    assert 400 < (fold[1:] == fold[:-1]).sum() < 600


@pytest.mark.parametrize(("n_folds", "n_queries"), [(1, 10), (0, 10), (-2, 10), (4, 3), (2, 0)])
def test_folds_that_cannot_be_made(n_folds, n_queries):
    with pytest.raises(UsageError, match=f"{n_folds} folds cannot be made of {n_queries} queries"):
        QueryKFold(n_folds).assign(n_queries)


def test_a_negative_seed():
    with pytest.raises(UsageError, match="seed of the folds is -1"):
        list(QueryKFold(2, seed=-1).split(4))
