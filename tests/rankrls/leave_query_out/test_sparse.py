"""Selections over sparse data without a state, against selections with a state and refits."""

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

import dranking as dr
from dranking.data.scaling import fit_scaling
from dranking.data.tables.in_memory import from_arrays
from dranking.engine import tile_layout
from dranking.engine.executor import ThreadExecutor
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.memory_plan import Needs, SparseNeeds
from tests.data.store.blocks import counted_reads
from tests.models.problems import random_problem, sparse_problems
from tests.rankrls.greedy.selections import (
    assert_copies_follow_their_order,
    assert_greedy,
    assert_same_bits,
    assert_same_selection,
    select,
)
from tests.reference.greedy import centred_queries, naive_scores

GRID = [2.0**-3, 1.0, 2.0**6]


def without_state():
    """A context in which every selection computes its scores from the data."""
    return mock.patch("dranking.rankrls.leave_query_out.memory_plan.needs_of", SparseNeeds)


def with_state():
    """A context in which every selection keeps a state."""
    return mock.patch("dranking.rankrls.leave_query_out.memory_plan.needs_of", Needs)


def sparse_problem(seed, n_queries=60, n_features=40):
    return random_problem(seed, n_queries, n_features, zeros=0.85)


@pytest.fixture
def stored(tmp_path):
    """Sparse data of several blocks, in a dataset directory and in memory."""
    dataset = sparse_problem(3).dataset(sparse.csr_array, max_documents=10)
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dr.write_dataset(blocks, tmp_path / "data"), dataset


@given(
    problem=sparse_problems(),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    max_documents=st.integers(1, 12),
    prefetch=st.integers(1, 4),
)
def test_selection_is_that_of_refitting(problem, regularization, max_documents, prefetch):
    dataset = problem.dataset(sparse.csr_array, max_documents=max_documents)
    with without_state():
        path = select(dataset, problem.X.shape[1], regularization, prefetch=prefetch)
    assert sorted(path.selected) == list(range(problem.X.shape[1]))
    assert_greedy(path, centred_queries(*problem.labelled()), tolerance=1e-8)
    assert_copies_follow_their_order(path, problem.X)


@settings(max_examples=15)  # of 60 queries and 40 features each
@given(seed=st.integers(0, 2**32), regularization=st.sampled_from(GRID))
def test_selection_is_that_with_a_state(seed, regularization):
    problem = sparse_problem(seed)
    dataset = problem.dataset(sparse.csr_array, max_documents=100)
    with without_state():
        found = select(dataset, 12, regularization)
    with with_state():
        expected = [select(dataset, 12, regularization), select(problem.dataset(), 12)]
    assert_same_selection(found, expected[0])
    if regularization == 1.0:
        assert_same_selection(found, expected[1])
    for a, b in zip(found.weights, expected[0].weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_standard_scaling_on_the_way_equals_scaled_columns():
    problem = sparse_problem(5)
    dataset = problem.dataset(sparse.csr_array)
    scaled = dataset.transformed([fit_scaling(dataset, "standard")])
    with without_state():
        found = select(scaled, 10)
    X = scaled.block(0).features.toarray()
    assert not np.allclose(X, problem.X)
    assert_same_selection(found, select(problem._replace(X=X).dataset(), 10))


def test_unlabelled_documents_and_queries_change_no_bit():
    problem = sparse_problem(6)
    hidden = np.random.default_rng(0).random(len(problem.y)) < 0.3
    hidden |= problem.qid == 7
    y = np.where(hidden, np.nan, problem.y)
    X, labels, query_ptr, weights = problem._replace(y=y).labelled()
    qid = np.repeat(np.arange(len(weights)), np.diff(query_ptr))
    left = from_arrays(sparse.csr_array(X), labels, qid, query_weights=weights)
    with without_state():
        found = select(problem._replace(y=y).dataset(sparse.csr_array), 10)
        assert_same_bits(found, select(left, 10))


def test_lambdas_in_lockstep_equal_single_runs_in_every_bit_and_share_passes():
    dataset = sparse_problem(7).dataset(sparse.csr_array, max_documents=100)
    with without_state():
        found = select_paths(dataset, GRID, SelectionRules(8))
        for value, path in zip(GRID, found.paths, strict=True):
            assert_same_bits(path, select(dataset, 8, value))
    # Moments, then scores before the first and after each round, and fetches of rows.
    assert 1 + 9 < found.n_passes < 1 + 9 + 8


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("tile_bytes", [1, 2**30])
def test_threads_and_tiles_change_no_bit(n_threads, tile_bytes, monkeypatch):
    dataset = sparse_problem(8).dataset(sparse.csr_array, max_documents=20)
    with without_state():
        expected = select(dataset, 9)
        monkeypatch.setattr(tile_layout, "MAX_TILE_BYTES", tile_bytes)
        assert_same_bits(select(dataset, 9, executor=ThreadExecutor(n_threads)), expected)


def test_streaming_reads_storage_once_a_pass_and_changes_no_bit(stored, monkeypatch):
    dataset, in_memory = stored
    reads = counted_reads(dataset, monkeypatch)
    run = ThreadExecutor(1)
    needs = SparseNeeds(dataset, 6, run)
    limit = needs.total(False, True, 1)
    assert limit < needs.total(True, True, 1)
    with without_state():
        expected = select(in_memory, 6)
        rules = SelectionRules(6)
        found = select_paths(dataset, [1.0], rules, memory_limit=limit, executor=run)
    assert len(reads) == found.n_passes * dataset.n_blocks
    assert_same_bits(found.paths[0], expected)


def test_a_checkpoint_goes_on_to_the_identical_result(stored, tmp_path):
    dataset, _ = stored
    with without_state():
        expected = select_paths(dataset, GRID, SelectionRules(8)).paths
        for size in (3, 8):
            rules = SelectionRules(size)
            found = select_paths(dataset, GRID, rules, checkpoint=tmp_path / "rounds")
    for a, b in zip(found.paths, expected, strict=True):
        assert_same_bits(a, b)


def test_random_candidates_are_the_only_ones_scored():
    problem = sparse_problem(9, n_queries=25, n_features=20)
    rules = SelectionRules(6, candidates=5, random_state=3)
    with without_state():
        [path] = select_paths(problem.dataset(sparse.csr_array), [1.0], rules).paths
    queries = centred_queries(*problem.labelled())
    for t, pick in enumerate(path.selected):
        drawn = rules.drawn(np.setdiff1d(np.arange(20), path.selected[:t]), t)
        scores = naive_scores(queries, path.selected[:t], 1.0)
        assert pick == min(drawn, key=lambda i: scores[i])
    with with_state():
        [same] = select_paths(problem.dataset(sparse.csr_array), [1.0], rules).paths
    assert_same_selection(path, same)


def test_start_and_forbidden():
    problem = sparse_problem(10)
    rules = SelectionRules(7, start=[30, 2], forbidden=[0, 1], prefetch=3)
    dataset = problem.dataset(sparse.csr_array)
    with without_state():
        [path] = select_paths(dataset, [1.0], rules).paths
    with with_state():
        [expected] = select_paths(dataset, [1.0], rules).paths
    assert path.selected[:2] == [30, 2]
    assert not {0, 1} & set(path.selected)
    assert_same_selection(path, expected)


def test_leave_query_out_predictions_are_those_with_a_state():
    dataset = sparse_problem(11).dataset(sparse.csr_array, max_documents=50)

    def measure(block, scores):
        return np.concatenate([(scores**2).sum(axis=1), scores @ block.relevance])

    rules = SelectionRules(5)
    with without_state():
        [path] = select_paths(dataset, [0.5], rules, measure=measure).paths
    with with_state():
        [expected] = select_paths(dataset, [0.5], rules, measure=measure).paths
    np.testing.assert_allclose(path.measured, expected.measured, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_floating_search_goes_the_way_of_that_with_a_state(seed):
    problem = random_problem(seed, n_queries=25, n_features=6, zeros=0.4)
    rng = np.random.default_rng(seed)
    sums = [
        problem.X[:, rng.choice(6, 3, replace=False)].sum(axis=1)
        + rng.normal(0, 0.3, len(problem.y))
        for _ in range(4)
    ]
    X = np.column_stack([problem.X, *sums])
    X[rng.random(X.shape) < 0.2] = 0.0
    dataset = problem._replace(X=X.astype(np.float32)).dataset(sparse.csr_array, max_documents=40)
    with without_state():
        found = select(dataset, 7, 0.1, search="floating")
    with with_state():
        expected = select(dataset, 7, 0.1, search="floating")
    # A set that comes again in another order has the same error but for rounding: the one path may
    # end where it came first, the other where it came again.
    n = min(len(found.kept), len(expected.kept))
    assert found.kept[:n] == expected.kept[:n]
    np.testing.assert_allclose(found.lqo_error[:n], expected.lqo_error[:n], rtol=1e-9)
    assert set(found.selected) == set(expected.selected)
