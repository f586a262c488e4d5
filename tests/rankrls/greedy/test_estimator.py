"""Greedy RankRLS against refits, against the published selections, and against itself."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import ThreadExecutor
from dranking.errors import SelectionWarning
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from pipelines.benchmarks.algorithm_1 import algorithm_1, algorithm_1_blocked
from tests.models.problems import Problem, random_problem, ranking_problems
from tests.rankrls.greedy.selections import (
    LAYOUTS,
    assert_copies_follow_their_order,
    assert_greedy,
    assert_same_bits,
    assert_same_selection,
    select,
)
from tests.reference.greedy import (
    centred_queries,
    held_out_error,
    naive_scores,
    naive_selection,
    ridge_weights,
)


@given(
    problem=ranking_problems(),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    layout=st.sampled_from(sorted(LAYOUTS)),
    max_documents=st.integers(1, 12),
    prefetch=st.integers(1, 4),
)
def test_selection_is_that_of_refitting(problem, regularization, layout, max_documents, prefetch):
    X, y, query_ptr, weights = problem.labelled()
    assume(len(y))
    queries = centred_queries(X, y, query_ptr, weights)
    path = select(
        problem.dataset(LAYOUTS[layout], max_documents=max_documents),
        X.shape[1],
        regularization,
        prefetch=prefetch,
    )
    assert sorted(path.selected) == list(range(X.shape[1]))
    assert_greedy(path, queries)
    assert_copies_follow_their_order(path, X)
    assert path.initial_error == pytest.approx(held_out_error(queries, [], 1.0), rel=1e-12)
    for t, found in enumerate(path.weights):
        expected = ridge_weights(queries, path.selected[: t + 1], regularization)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("regularization", [2.0**-15, 2.0**-5, 1.0, 2.0**10])
def test_order_is_that_of_refitting_where_nothing_ties(regularization):
    problem = random_problem(3, n_queries=15, n_features=9, zeros=0.3)
    path = select(problem.dataset(), 9, regularization)
    expected = naive_selection(*problem.labelled()[:3], 9, regularization, problem.weights)
    assert path.selected == expected.selected
    np.testing.assert_allclose(path.lqo_error, expected.errors, rtol=1e-9)


@pytest.mark.parametrize("algorithm", [algorithm_1, algorithm_1_blocked])
def test_order_is_that_of_the_papers_algorithm(algorithm):
    problem = random_problem(4, n_queries=150, n_features=30)
    path = select(problem.dataset(), 30, 4.0)
    expected = algorithm(*problem.labelled()[:3], 30, 4.0, query_weights=problem.weights)
    assert path.selected == expected.selected
    np.testing.assert_allclose(path.lqo_error, expected.errors, rtol=1e-11)


@pytest.mark.parametrize("max_documents", [1, 13, 64, 200, 10**6])
def test_block_layout_changes_no_selection(max_documents):
    problem = random_problem(5)
    assert_same_selection(
        select(problem.dataset(max_documents=max_documents), 12),
        select(problem.dataset(max_documents=50), 12),
    )


@given(st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_order_of_queries_and_documents_changes_no_selection(random):
    problem = random_problem(6)
    borders = np.concatenate(([0], np.cumsum(problem.sizes)))
    queries = list(range(len(problem.sizes)))
    random.shuffle(queries)
    rows = []
    for q in queries:
        documents = list(range(borders[q], borders[q + 1]))
        random.shuffle(documents)
        rows += documents
    shuffled = Problem(
        problem.X[rows], problem.y[rows], problem.sizes[queries], problem.weights[queries]
    )
    assert_same_selection(
        select(shuffled.dataset(max_documents=64), 12),
        select(problem.dataset(max_documents=64), 12),
    )


@pytest.mark.parametrize("relabel", [lambda q: 10**9 - q, lambda q: 2**40 + 7 * q, str])
def test_query_ids_change_no_bit(relabel):
    problem = random_problem(7)
    names = np.array([relabel(int(q)) for q in problem.qid])
    renamed = from_arrays(problem.X, problem.y, qid=names, query_weights=problem.weights)
    assert_same_bits(select(renamed, 12), select(problem.dataset(), 12))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("tile_bytes", [1, 4_000, 2**28])
def test_threads_and_tiles_change_no_bit(n_threads, tile_bytes, monkeypatch):
    dataset = random_problem(8, n_queries=90).dataset(max_documents=20)
    expected = select(dataset, 12, executor=ThreadExecutor(2))
    monkeypatch.setattr("dranking.engine.tile_layout.MAX_TILE_BYTES", tile_bytes)
    monkeypatch.setattr("dranking.engine.tile_layout.TILES_PER_SLOT", 1)
    assert_same_bits(select(dataset, 12, executor=ThreadExecutor(n_threads)), expected)


@pytest.mark.parametrize("prefetch", range(1, 17))
def test_prefetch_changes_no_bit(prefetch):
    dataset = random_problem(9, n_features=16).dataset(max_documents=30)
    assert_same_bits(select(dataset, 6, prefetch=prefetch), select(dataset, 6, prefetch=8))


BEST_PICKS: dict[tuple[float, ...], int] = {}


@pytest.mark.parametrize("prefetch", [1, 3, 64])
def test_rows_kept_stay_within_their_bound(prefetch):
    """Even if the upcoming picks are wrong, every pick finds a slot for its row."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(300, 1))
    X = np.hstack([base + 0.01 * rng.normal(size=(300, 40)), rng.normal(size=(300, 20))])
    y = base[:, 0] + X[:, 40:].sum(axis=1)
    dataset = from_arrays(X.astype(np.float32), y, qid=np.repeat(np.arange(30), 10))
    queries = centred_queries(X.astype(np.float32), y, np.arange(0, 301, 10))
    found = select_paths(dataset, [0.5, 2.0], SelectionRules(20, prefetch=prefetch))
    for path in found.paths:
        assert len(set(path.selected)) == 20
        t = 8
        wanted = (*path.selected[:t], path.regularization)
        if wanted not in BEST_PICKS:  # which does not depend on the rows that are fetched
            scores = naive_scores(queries, path.selected[:t], path.regularization)
            BEST_PICKS[wanted] = min(scores, key=lambda i: scores[i])
        assert path.selected[t] == BEST_PICKS[wanted]
    assert found.n_passes <= 1 + 40


def test_one_pass_fetches_all_rows_when_prefetch_allows():
    dataset = random_problem(10, n_features=8).dataset()
    for prefetch, n_passes in ((8, 2), (1, 9)):
        rules = SelectionRules(8, prefetch=prefetch)
        assert select_paths(dataset, [1.0], rules).n_passes == n_passes


def test_layouts_agree():
    problem = random_problem(11, zeros=0.6)
    paths = {name: select(problem.dataset(layout), 12) for name, layout in LAYOUTS.items()}
    assert_same_bits(paths["C"], paths["F"])
    assert_same_selection(paths["C"], paths["CSR"])


def test_many_lambdas_at_once_equal_single_runs_in_every_bit():
    dataset = random_problem(12, n_features=16).dataset(max_documents=40)
    grid = [2.0**e for e in (-5, 10, 0, 3, 0)]
    found = select_paths(dataset, grid, SelectionRules(7, prefetch=4))
    for value, path in zip(grid, found.paths, strict=True):
        assert path.regularization == value
        assert_same_bits(path, select(dataset, 7, value, prefetch=4))
    assert found.n_passes < 1 + 7 * len(grid)


@pytest.mark.parametrize("kind", [int, np.int64, np.float32])
def test_the_type_of_lambda_changes_no_bit(kind):
    dataset = random_problem(25).dataset()
    found = select(dataset, 12, kind(3))
    assert type(found.regularization) is float
    assert_same_bits(found, select(dataset, 12, 3.0))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tie_goes_to_the_lowest_index(layout):
    problem = random_problem(13, n_features=5)
    doubled = problem._replace(X=np.hstack([problem.X[:, 2:3], problem.X, problem.X[:, :3]]))
    path = select(doubled.dataset(LAYOUTS[layout]), 9, prefetch=2)
    # Columns 1 to 3 stand again at 6 to 8, and column 3 at 0 too.
    for group in ((1, 6), (2, 7), (0, 3, 8)):
        places = [path.selected.index(i) for i in group]
        assert places == sorted(places)


def noise_that_raises_the_error():
    """Two noise features that raise the leave-query-out error, and two features without effect."""
    rng = np.random.default_rng(2)
    sizes = np.full(6, 4)
    X = rng.normal(size=(24, 4)).astype(np.float32)
    X[:, 1] = 3.5
    X[:, 3] = np.repeat(rng.normal(size=6), 4)
    y = rng.integers(0, 2, 24).astype(np.float64)
    return Problem(X, y, sizes, np.ones(6))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_constant_feature_precedes_those_that_raise_the_error(layout):
    problem = noise_that_raises_the_error()
    scores = naive_scores(centred_queries(*problem.labelled()), [], 1.0)
    initial = held_out_error(centred_queries(*problem.labelled()), [], 1.0)
    assert min(scores[0], scores[2]) > initial
    with pytest.warns(SelectionWarning, match="4 of 4 features .* round 1"):
        model = dr.GreedyRankRLS(n_features=4).fit(problem.dataset(LAYOUTS[layout]))
    assert model.selected_[:2] == [1, 3]
    path = model.path_
    assert path.lqo_error[0] == path.lqo_error[1] == path.initial_error
    assert path.lqo_error[2] > path.initial_error
    assert path.without_gain == [0, 1, 2, 3]
    np.testing.assert_array_equal(model.coef_[[1, 3]], 0.0)


def test_a_gain_behind_a_pick_without_gain_is_not_denied():
    """Two features that help together but hardly alone: the warning names the best size."""
    rng = np.random.default_rng(5)
    common, signal = rng.normal(size=(2, 80))
    X = np.stack([common + 0.01 * signal, common], axis=1).astype(np.float32)
    y = 50.0 * signal
    expected = naive_selection(X, y, np.arange(0, 81, 10), 2, 1e-3)
    initial = held_out_error(centred_queries(X, y, np.arange(0, 81, 10)), [], 1.0)
    assert expected.errors[1] < initial < expected.errors[0]
    model = dr.GreedyRankRLS(n_features=2, regularization=1e-3)
    with pytest.warns(SelectionWarning, match="1 of 2 .* in round 1; .* smallest with 2 of them"):
        model.fit(X, y, qid=np.repeat(np.arange(8), 10))
    assert model.selected_ == expected.selected
    assert model.path_.without_gain == [0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_constant_data_select_in_order_and_weigh_nothing(layout):
    problem = random_problem(14, n_features=4)
    flat = problem._replace(X=np.full_like(problem.X, -2.5))
    with pytest.warns(SelectionWarning, match="3 of 3"):
        model = dr.GreedyRankRLS(n_features=3).fit(flat.dataset(LAYOUTS[layout]))
    assert model.selected_ == [0, 1, 2]
    assert set(model.lqo_error_) == {model.path_.initial_error}
    np.testing.assert_array_equal(model.coef_, 0.0)


def test_a_single_query_has_nothing_to_learn_from():
    """The fit without the only query has no data, so every candidate ties the initial error."""
    problem = random_problem(15, n_queries=1, n_features=3, max_documents=9)
    with pytest.warns(SelectionWarning):
        model = dr.GreedyRankRLS(n_features=3).fit(problem.dataset())
    assert model.selected_ == [0, 1, 2]
    assert set(model.lqo_error_) == {model.path_.initial_error}


def test_queries_of_weight_zero_change_no_bit():
    problem = random_problem(16)
    rng = np.random.default_rng(0)
    more = rng.normal(size=(5, 12)).astype(np.float32)
    padded = Problem(
        np.vstack([problem.X, more]),
        np.concatenate([problem.y, rng.normal(size=5)]),
        np.concatenate([problem.sizes, [5]]),
        np.concatenate([problem.weights, [0.0]]),
    )
    assert_same_bits(select(padded.dataset(), 12), select(problem.dataset(), 12))


def test_a_weight_is_a_repetition_for_all_other_queries():
    """A weight of 2 counts a query twice in the fits without other queries; against refits."""
    problem = random_problem(17, n_queries=12, n_features=6)
    problem = problem._replace(weights=np.where(np.arange(12) < 4, 2.0, 1.0))
    path = select(problem.dataset(), 6)
    assert_greedy(path, centred_queries(*problem.labelled()))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weight_two_is_every_document_of_the_query_twice(layout):
    problem = random_problem(24)
    problem = problem._replace(weights=np.where(np.arange(40) % 3 == 0, 2.0, 1.0))
    times = problem.weights.astype(int)
    rows = np.repeat(times, problem.sizes)
    twice = Problem(
        np.repeat(problem.X, rows, axis=0),
        np.repeat(problem.y, rows),
        problem.sizes * times,
        np.ones(40),
    )
    assert_same_selection(
        select(twice.dataset(LAYOUTS[layout]), 12), select(problem.dataset(LAYOUTS[layout]), 12)
    )


def test_unlabelled_documents_change_no_bit():
    problem = random_problem(18)
    rng = np.random.default_rng(1)
    X, y = [], []
    for q, size in enumerate(problem.sizes):
        rows = problem.qid == q
        X.append(np.vstack([problem.X[rows], rng.normal(size=(2, 12))]))
        y.append(np.concatenate([problem.y[rows], [np.nan, np.nan]]))
        assert size == rows.sum()
    more = Problem(
        np.vstack(X).astype(np.float32), np.concatenate(y), problem.sizes + 2, problem.weights
    )
    assert_same_bits(
        select(more.dataset(max_documents=10**6), 12),
        select(problem.dataset(max_documents=10**6), 12),
    )


def test_coefficients_are_those_of_the_selected_features():
    problem = random_problem(22)
    model = dr.GreedyRankRLS(n_features=4, regularization=2.0).fit(problem.dataset())
    queries = centred_queries(*problem.labelled())
    np.testing.assert_allclose(
        model.coef_[model.selected_], ridge_weights(queries, model.selected_, 2.0), rtol=1e-10
    )
    assert not model.coef_[np.setdiff1d(np.arange(12), model.selected_)].any()
    np.testing.assert_array_equal(model.lqo_error_, model.path_.lqo_error)
    np.testing.assert_array_equal(model.coef_[model.selected_], model.path_.weights[-1])


# The published selections: fold -> lambda and the features, 1-based, in order.
MQ2008_SELECTIONS = {
    1: (2.0**0, [39]),
    2: (2.0**10, [39, 23, 37, 32]),
    3: (2.0**3, [39, 29, 25, 23, 46, 37, 19]),
    4: (2.0**6, [39, 29, 25, 23]),
    5: (2.0**0, [39]),
}


@pytest.fixture(scope="module")
def mq2008_parts(mq2008):
    """The five parts as (X, y, qid), read by a parser that the package does not have."""
    parts = []
    for number in range(1, 6):
        X, y, qid = [], [], []
        for line in (mq2008 / f"S{number}.txt").read_text().splitlines():
            grade, query, *features = line.partition("#")[0].split()
            y.append(float(grade))
            qid.append(int(query.removeprefix("qid:")))
            X.append([float(token.partition(":")[2]) for token in features])
        parts.append((np.array(X, dtype=np.float32), np.array(y), np.array(qid)))
    return parts


@pytest.mark.parametrize("fold", MQ2008_SELECTIONS)
def test_selection_on_mq2008_is_the_published_one(fold, mq2008_parts):
    regularization, published = MQ2008_SELECTIONS[fold]
    X, y, qid = (
        np.concatenate(arrays)
        for arrays in zip(*(mq2008_parts[(fold - 1 + i) % 5] for i in range(3)), strict=True)
    )
    for layout in (np.asarray, sparse.csr_array):
        model = dr.GreedyRankRLS(len(published), regularization).fit(layout(X), y, qid=qid)
        assert [i + 1 for i in model.selected_] == published


def test_data_without_any_label_is_refused():
    problem = random_problem(23)
    unlabelled = problem._replace(y=np.full_like(problem.y, np.nan))
    for ranker in (dr.GreedyRankRLS(n_features=2), dr.RankRLS()):
        with pytest.raises(dr.DataError, match="no labelled document"):
            ranker.fit(unlabelled.dataset())


SELECT_IN_A_NEW_PROCESS = """
import numpy as np, dranking as dr
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5)).astype(np.float32)
y = X[:, 3] - 0.5 * X[:, 1]
print(dr.GreedyRankRLS(n_features=2).fit(X, y, qid=np.repeat(np.arange(10), 6)).selected_)
"""


@pytest.mark.exhaustive
def test_two_processes_that_compile_at_once(tmp_path):
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "PYTHONPATH": str(Path(dr.__file__).parents[1]),
    }
    for _ in ("cold", "warm"):
        processes = [
            subprocess.Popen(
                [sys.executable, "-W", "error", "-c", SELECT_IN_A_NEW_PROCESS],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for process in processes:
            output, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            assert output == "[3, 1]\n"
