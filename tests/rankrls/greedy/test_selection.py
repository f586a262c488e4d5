"""Rules of a selection: start, forbidden features, patience, random candidates, measures."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import ThreadExecutor
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import assert_same_paths
from tests.reference.greedy import centred_queries, naive_scores, ridge_weights

LAMBDAS = [0.01, 1.0, 30.0]
SIZE = 6


@pytest.fixture
def stored(tmp_path):
    """Data of several blocks, in a dataset directory and in memory."""
    dataset = random_problem(3, n_queries=40, n_features=30).dataset(max_documents=15)
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dr.write_dataset(blocks, tmp_path / "data.zarr"), dataset


def test_start_and_forbidden_against_refits():
    problem = random_problem(5, n_features=10)
    dataset = problem.dataset()
    rules = SelectionRules(6, start=[7, 2], forbidden=[0, 4, 4])
    [path] = select_paths(dataset, [1.0], rules).paths
    assert path.selected[:2] == [7, 2]
    assert not {0, 4} & set(path.selected)
    X, y, query_ptr, weights = problem.labelled()
    queries = centred_queries(X, y, query_ptr, weights)
    for t in range(2, 6):
        scores = naive_scores(queries, path.selected[:t], 1.0)
        allowed = {i: e for i, e in scores.items() if i not in (0, 4)}
        assert path.selected[t] == min(allowed, key=lambda i: allowed[i])
        assert path.lqo_error[t] == pytest.approx(min(allowed.values()), rel=1e-9)


def test_patience_ends_a_path_at_its_smallest_error():
    dataset = random_problem(6, n_queries=12, n_features=20).dataset()
    [whole] = select_paths(dataset, [0.01], SelectionRules(20)).paths
    best = int(np.argmin(whole.lqo_error)) + 1
    assert 1 < best < 15, "the problem should have an error that rises again"
    [path] = select_paths(dataset, [0.01], SelectionRules(20, patience=5)).paths
    smallest = np.minimum.accumulate(whole.lqo_error)
    waits = [t - int(np.argmin(whole.lqo_error[:t])) - 1 for t in range(1, 21)]
    stop = next(t for t, wait in enumerate(waits, start=1) if wait == 5)
    size = int(np.argmin(whole.lqo_error[:stop])) + 1
    assert path.lqo_error[-1] == smallest[stop - 1]
    assert_same_paths([path], [whole.first(size)])


def test_patience_leaves_what_begins():
    dataset = random_problem(6, n_queries=12, n_features=20).dataset()
    [whole] = select_paths(dataset, [0.01], SelectionRules(20)).paths
    start = whole.selected[:12]
    rules = SelectionRules(20, start=start, patience=1)
    [path] = select_paths(dataset, [0.01], rules).paths
    assert path.best_size < 12, "the problem should have an error that rises while it begins"
    assert path.selected == start


def test_patience_on_paths_of_different_length():
    dataset = random_problem(6, n_queries=12, n_features=20).dataset()
    rules = SelectionRules(20, patience=2)
    paths = select_paths(dataset, LAMBDAS, rules).paths
    alone = [select_paths(dataset, [value], rules).paths[0] for value in LAMBDAS]
    assert_same_paths(paths, alone)
    assert len({len(path.selected) for path in paths}) > 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"start": [99]}, "feature 99 is not there"),
        ({"forbidden": [-1]}, "feature -1 is not there"),
        ({"start": [1, 1]}, "twice"),
        ({"start": [1], "forbidden": [1]}, "forbidden"),
        ({"start": [1, 2, 3]}, "choose 3 to"),
        ({"forbidden": range(29)}, "choose 1 to 1"),
        ({"patience": 0}, "patience is 0"),
        ({"prefetch": 0}, "prefetch is 0"),
        ({"candidates": 0}, "candidates is 0"),
        ({"candidates": 2.5}, "candidates is 2.5"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
def test_rules_that_cannot_be(stored, rules, message):
    with pytest.raises(dr.UsageError, match=message):
        select_paths(stored[1], [1.0], SelectionRules(2, **rules))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_leave_query_out_predictions_are_those_of_refits(layout):
    problem = random_problem(7, n_queries=15, n_features=6)
    dataset = problem.dataset(layout, max_documents=30)
    seen = []

    def measure(block, scores):
        seen.append((block, scores))
        return np.array([block.n_documents])

    rules = SelectionRules(4)
    [path] = select_paths(dataset, [0.5], rules, measure=measure, executor=ThreadExecutor(1)).paths
    X, y, query_ptr, weights = problem.labelled()
    assert path.measured.tolist() == [len(y)]
    scores = np.concatenate([scores for _, scores in seen], axis=1)
    queries = centred_queries(X, y, query_ptr, weights)
    for size in range(1, 5):
        S = path.selected[:size]
        for q, (first, last) in enumerate(pairwise(query_ptr)):
            others = queries[:q] + queries[q + 1 :]
            expected = X[first:last][:, S] @ ridge_weights(others, S, 0.5)
            np.testing.assert_allclose(
                scores[size - 1, first:last], expected, rtol=1e-9, atol=1e-12
            )


def test_equal_documents_tie_exactly_while_held_out():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(60, 9)), 2, axis=0).astype(np.float32)
    y = rng.integers(0, 3, len(X)).astype(float)
    dataset = from_arrays(X, y, qid=np.repeat(np.arange(12), 10))

    def measure(block, scores):
        np.testing.assert_array_equal(scores[:, ::2], scores[:, 1::2])
        return np.ones(1)

    select_paths(dataset, [1.0], SelectionRules(7), measure=measure)


@pytest.mark.parametrize("kappa", [1, 3, 7])
def test_random_candidates_are_the_only_ones_scored(kappa):
    problem = random_problem(8, n_features=10)
    rules = SelectionRules(6, candidates=kappa, random_state=5)
    [path] = select_paths(problem.dataset(), [1.0], rules).paths
    X, y, query_ptr, weights = problem.labelled()
    queries = centred_queries(X, y, query_ptr, weights)
    for t, pick in enumerate(path.selected):
        left = np.setdiff1d(np.arange(10), path.selected[:t])
        drawn = rules.drawn(left, t)
        assert len(drawn) == len(set(drawn)) == min(kappa, len(left))
        assert set(drawn) <= set(left)
        scores = naive_scores(queries, path.selected[:t], 1.0)
        assert pick == min(drawn, key=lambda i: scores[i])


def test_draws_differ_from_round_to_round_and_seed_to_seed():
    features = np.arange(100)
    draws = {
        tuple(SelectionRules(1, candidates=5, random_state=seed).drawn(features, round_))
        for seed in range(4)
        for round_ in range(4)
    }
    assert len(draws) == 16
    many = [
        SelectionRules(1, candidates=5, random_state=s).drawn(features, 0) for s in range(2_000)
    ]
    counts = np.bincount(np.concatenate(many), minlength=100)
    assert counts.min() > 60  # 100 expected, standard deviation about 10
    assert counts.max() < 140


def test_as_many_candidates_as_features_is_the_whole_search():
    dataset = random_problem(9, n_features=10).dataset()
    whole = select_paths(dataset, [1.0], SelectionRules(6)).paths
    drawn = select_paths(dataset, [1.0], SelectionRules(6, candidates=10, random_state=3)).paths
    assert_same_paths(drawn, whole)


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_nothing_depends_on_what_memory_held_before(layout, monkeypatch):
    dataset = random_problem(3, n_features=20).dataset(layout, max_documents=100)
    expected = select_paths(dataset, LAMBDAS, SelectionRules(SIZE)).paths
    uninitialised = np.empty

    def never_initialised(shape, dtype=np.float64, **options):
        array = uninitialised(shape, dtype, **options)
        if np.issubdtype(array.dtype, np.floating):
            array.fill(np.nan)
        return array

    monkeypatch.setattr(np, "empty", never_initialised)
    found = select_paths(dataset, LAMBDAS, SelectionRules(SIZE)).paths
    assert_same_paths(found, expected)
