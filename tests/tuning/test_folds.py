"""Folds of queries."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.engine.choose_executor import get_executor
from dranking.errors import UsageError
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.tuning.folds import QueryKFold, split_queries
from tests.models.problems import random_problem

IDS = st.lists(st.integers(-(10**12), 10**12) | st.text(max_size=8), unique_by=str, max_size=60)


def digest_of(query_id, seed):
    """The digest that the documentation describes."""
    salt = bytes([seed]) + bytes(15)
    text = str(query_id).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, salt=salt).digest(), "little")


@given(IDS, st.integers(2, 5), st.integers(0, 9))
def test_the_fold_of_a_query_follows_from_its_id_and_the_seed(query_ids, n_folds, seed):
    wanted = [digest_of(query_id, seed) % n_folds for query_id in query_ids]
    folds = QueryKFold(n_folds, seed)
    if len(query_ids) < n_folds:
        with pytest.raises(UsageError, match="cannot be made"):
            folds.assign(query_ids)
    elif len(set(wanted)) == n_folds:
        assert folds.assign(query_ids).tolist() == wanted
        assert folds.assign([str(i) for i in query_ids]).tolist() == wanted
    else:  # in the order of the digests, no fold is empty
        sizes = np.bincount(folds.assign(query_ids), minlength=n_folds)
        assert sizes.min() >= 1
        assert np.ptp(sizes) <= 1


def test_a_new_query_moves_no_other_query():
    before = QueryKFold(5).assign(range(100))
    after = QueryKFold(5).assign([*range(50), "new", *range(50, 100)])
    np.testing.assert_array_equal(np.delete(after, 50), before)


def test_folds_are_random():
    # Neighbours of a file, often alike, are not dealt in turn or in runs.
    fold = QueryKFold(2).assign(range(1_000))
    assert 400 < (fold[1:] == fold[:-1]).sum() < 600
    assert 400 < fold.sum() < 600
    assert (fold != QueryKFold(2, seed=1).assign(range(1_000))).any()


@pytest.mark.parametrize("form", ["documents", "statistics"])
def test_every_labelled_query_is_held_out_once_and_the_others_never(form, tmp_path):
    problem = random_problem(3, n_queries=30)
    unlabelled = np.isin(problem.qid, [2, 11])
    problem = problem._replace(y=np.where(unlabelled, np.nan, problem.y))
    data, threads = problem.dataset(max_documents=9), get_executor(None)
    if form == "statistics":
        data = build_statistics(data, tmp_path / "statistics")
    wanted = sorted(set(range(30)) - {2, 11})
    fold = QueryKFold(4).assign(wanted)
    for index, parts in enumerate(split_queries(data, QueryKFold(4), threads)):
        trained, validation = (
            [int(i) for block in part.read_blocks() for i in block.query_ids.to_pylist()]
            for part in parts
        )
        assert validation == [wanted[i] for i in np.flatnonzero(fold == index)]
        assert trained == [i for i in range(30) if i not in validation]
    assert index == 3


@pytest.mark.parametrize(("n_folds", "n_queries"), [(1, 10), (0, 10), (-2, 10), (4, 3), (2, 0)])
def test_folds_that_cannot_be_made(n_folds, n_queries):
    with pytest.raises(UsageError, match=f"{n_folds} folds cannot be made of {n_queries} queries"):
        QueryKFold(n_folds).assign(range(n_queries))


def test_a_negative_seed():
    with pytest.raises(UsageError, match="seed of the folds is -1"):
        QueryKFold(2, seed=-1).assign(range(4))
