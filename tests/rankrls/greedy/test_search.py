"""Floating search and backward elimination against refits, and against themselves."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.greedy import selection
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out import memory_plan as memory
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.greedy.selections import LAYOUTS, assert_same_bits, select
from tests.reference.greedy import centred_queries, ridge_weights
from tests.reference.search import Refits, backward_search, floating_search

LAMBDAS = [0.01, 0.3, 30.0]


def nested_problem(seed, n_queries=10, n_copies=4, max_documents=6):
    """Features, and noisy sums of feature pairs, which are picked first and superfluous later."""
    problem = random_problem(seed, n_queries, n_features=4, max_documents=max_documents)
    rng = np.random.default_rng(seed)
    sums = [
        problem.X[:, rng.permutation(4)[:2]].sum(axis=1) + 0.3 * rng.normal(size=len(problem.X))
        for _ in range(n_copies)
    ]
    return problem._replace(X=np.column_stack([problem.X, *sums]).astype(np.float32))


def n_drops(path):
    return sum(len(after) < len(before) for before, after in pairwise(path.kept))


@given(
    problem=ranking_problems(max_features=6),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    layout=st.sampled_from(sorted(LAYOUTS)),
    max_documents=st.integers(1, 12),
    data=st.data(),
)
def test_every_round_of_a_floating_search_is_that_of_refits(
    problem, regularization, layout, max_documents, data
):
    X, y, query_ptr, weights = problem.labelled()
    assume(len(y))
    n = X.shape[1]
    size = data.draw(st.integers(1, n))
    dataset = problem.dataset(LAYOUTS[layout], max_documents=max_documents)
    path = select(dataset, size, regularization, search="floating")
    refits = Refits(X, y, query_ptr, weights, regularization)
    near = 2e-10 * (1.0 + path.initial_error)
    best = {0: path.initial_error}
    for before, after in pairwise([[], *path.kept]):
        if len(after) > len(before):
            errors = {i: refits.error([*before, i]) for i in set(range(n)) - set(before)}
            assert errors[after[-1]] <= min(errors.values()) + near
        else:
            errors = {i: refits.error(set(before) - {i}) for i in before}
            [dropped] = set(before) - set(after)
            assert errors[dropped] <= min(errors.values()) + near
            assert errors[dropped] < best[len(after)]
        best[len(after)] = min(best.get(len(after), np.inf), refits.error(after))
    # Nothing that should have been dropped was kept.
    for before, after in pairwise(path.kept):
        if len(after) > len(before):
            others = [i for i in before if i != before[-1]]
            errors = [refits.error(set(before) - {i}) for i in others]
            assert all(error > best[len(before) - 1] - near for error in errors)
    np.testing.assert_allclose(path.lqo_error, [refits.error(k) for k in path.kept], atol=near)
    assert len(path.selected) == size


@pytest.mark.parametrize("seed", range(6))
def test_floating_and_backward_search_go_the_way_of_refits(seed):
    problem = nested_problem(seed)
    refits = Refits(*problem.labelled(), 0.1)
    dataset = problem.dataset(max_documents=20)
    floating = select(dataset, 6, 0.1, search="floating")
    assert floating.kept == floating_search(refits, 6)[: len(floating.kept)]
    backward = select(dataset, 2, 0.1, search="backward")
    assert backward.kept == backward_search(refits, 2, range(8))
    queries = centred_queries(*problem.labelled())
    for path in (floating, backward):
        errors = [refits.error(kept) for kept in path.kept]
        np.testing.assert_allclose(path.lqo_error, errors, rtol=1e-9)
        assert path.initial_error == pytest.approx(refits.error([]), rel=1e-12)
        for kept, found in zip(path.kept, path.weights, strict=True):
            expected = ridge_weights(queries, kept, 0.1)
            np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_the_problems_above_make_features_go_again():
    paths = [select(nested_problem(s).dataset(), 6, 0.1, search="floating") for s in range(6)]
    assert sum(map(n_drops, paths)) > 4


@given(problem=ranking_problems(max_features=6), data=st.data())
def test_every_removal_is_that_of_refits(problem, data):
    X, y, query_ptr, weights = problem.labelled()
    assume(len(y))
    n = X.shape[1]
    regularization = data.draw(st.sampled_from([2.0**-4, 1.0, 2.0**5]))
    start = data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=2))
    size = data.draw(st.integers(max(1, len(start)), n))
    path = select(problem.dataset(), size, regularization, search="backward", start=start)
    refits = Refits(X, y, query_ptr, weights, regularization)
    near = 1e-10 * (1.0 + path.initial_error)
    assert path.kept[0] == list(range(n))
    for before, after in pairwise(path.kept):
        [dropped] = set(before) - set(after)
        errors = {i: refits.error(set(before) - {i}) for i in before if i not in start}
        assert errors[dropped] <= min(errors.values()) + near
    np.testing.assert_allclose(path.lqo_error, [refits.error(k) for k in path.kept], atol=near)
    assert len(path.selected) == size
    assert set(start) <= set(path.selected)


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_what_begins_stays_and_what_is_forbidden_never_comes(search):
    for seed in range(6):
        problem = nested_problem(seed)
        refits = Refits(*problem.labelled(), 0.1)
        rules = {"start": [6, 3], "forbidden": [0, 5]}
        path = select(problem.dataset(), 5, 0.1, search=search, **rules)
        if search == "backward":
            assert path.kept == backward_search(refits, 5, [1, 2, 3, 4, 6, 7], {6, 3})
        for kept in path.kept[1:]:
            assert {6, 3} <= set(kept)
            assert not {0, 5} & set(kept)


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_nothing_about_the_run_changes_a_bit(search, monkeypatch):
    monkeypatch.setattr(memory, "SURPLUS_ROWS", 0)  # rows of dropped features take the room
    dataset = nested_problem(2, n_queries=20, n_copies=8).dataset(max_documents=20)
    rules = SelectionRules(7, search=search)
    expected = [select(dataset, 7, value, search=search) for value in LAMBDAS]
    if search == "floating":
        assert max(len(set(chain(*path.kept))) for path in expected) > 7
    needs = Needs(dataset, 12 if search == "backward" else 7, get_executor("threads"))
    for way in ((True, True, 3), (True, True, 1), (True, False, 1)):
        found = select_paths(dataset, LAMBDAS, rules, memory_limit=needs.total(*way)).paths
        for left, right in zip(found, expected, strict=True):
            assert_same_search(left, right)
    for executor in (ThreadExecutor(1), ThreadExecutor(3)):
        found = select_paths(dataset, LAMBDAS, rules, executor=executor).paths
        for left, right in zip(found, expected, strict=True):
            assert_same_search(left, right)
    [alone] = select_paths(dataset, [0.3], SelectionRules(7, search=search, prefetch=1)).paths
    assert_same_search(alone, expected[1])


def assert_same_search(left, right):
    assert left.kept == right.kept
    assert_same_bits(left, right)


@pytest.mark.parametrize(
    ("search", "fitting"),
    [
        ("floating", "pre"),
        pytest.param("floating", "back", marks=pytest.mark.exhaustive),
        ("backward", "pre"),
    ],
)
def test_a_search_killed_after_any_round_goes_on(search, fitting, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "SURPLUS_ROWS", 0)
    dataset = nested_problem(2, n_queries=20, n_copies=8).dataset(max_documents=30)
    size = {"pre": 4, "back": 6}[fitting] if search == "floating" else 8
    lambdas = LAMBDAS[:2]
    rules = SelectionRules(size, search=search, fitting=fitting, prefetch=2)
    expected = select_paths(dataset, lambdas, rules).paths
    assert all(map(n_drops, expected))
    advance, file = selection._advance, tmp_path / "rounds.json"
    n_rounds = max(len(path.kept) for path in expected)

    def killed(*arguments):
        advance(*arguments)
        raise KeyboardInterrupt

    def saved_after(*arguments):
        advance(*arguments)
        monkeypatch.setattr(selection, "_advance", killed)

    for _ in range(n_rounds - 1):
        monkeypatch.setattr(selection, "_advance", saved_after)
        with pytest.raises(KeyboardInterrupt):
            select_paths(dataset, lambdas, rules, checkpoint=file)
    monkeypatch.setattr(selection, "_advance", advance)
    found = select_paths(dataset, lambdas, rules, checkpoint=file).paths
    for left, right in zip(found, expected, strict=True):
        assert_same_search(left, right)


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_a_checkpoint_serves_other_sizes(search, tmp_path):
    dataset = nested_problem(2, n_queries=20, n_copies=8).dataset()
    file = tmp_path / "rounds.json"
    for size in (4, 8, 3, 6):
        rules = SelectionRules(size, search=search)
        found = select_paths(dataset, LAMBDAS, rules, checkpoint=file).paths
        for left, right in zip(found, select_paths(dataset, LAMBDAS, rules).paths, strict=True):
            assert_same_search(left, right)
    other = {"floating": "backward", "backward": "forward"}[search]
    with pytest.raises(dr.UsageError, match="other search"):
        select_paths(dataset, LAMBDAS, SelectionRules(3, search=other), checkpoint=file)


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_a_checkpoint_serves_any_patience(search, tmp_path):
    dataset = random_problem(6, n_queries=12, n_features=20).dataset()
    file = tmp_path / "rounds.json"
    size = {"floating": 20, "backward": 1}[search]
    whole, *others = (
        SelectionRules(size, search=search, patience=patience) for patience in (None, 1, 3)
    )
    for rules in others:
        select_paths(dataset, LAMBDAS, whole, checkpoint=file)
        # Where patience ends there are features that the last round saved has not.
        found = select_paths(dataset, LAMBDAS, rules, checkpoint=file).paths
        for left, right in zip(found, select_paths(dataset, LAMBDAS, rules).paths, strict=True):
            assert_same_search(left, right)


def test_patience_of_a_backward_search_takes_the_smallest_error():
    dataset = random_problem(6, n_queries=12, n_features=20).dataset()
    whole = select(dataset, 1, 0.01, search="backward")
    smallest = int(np.argmin(whole.lqo_error))
    assert 2 < smallest < 18, "the problem should have an error that falls and rises again"
    path = select(dataset, 1, 0.01, search="backward", patience=19)
    assert path.kept == whole.kept[: smallest + 1]
    short = select(dataset, 1, 0.01, search="backward", patience=1)
    falls = [r for r in range(19) if whole.lqo_error[r + 1] > whole.lqo_error[r]]
    assert short.kept == whole.kept[: falls[0] + 1]


def test_patience_of_a_floating_search_takes_the_smallest_error():
    dataset = random_problem(6, n_queries=12, n_features=20).dataset()
    whole = select(dataset, 20, 0.01, search="floating")
    path = select(dataset, 20, 0.01, search="floating", patience=4)
    best = path.lqo_error[-1]
    assert best == min(path.lqo_error)
    reached = [r for r, kept in enumerate(whole.kept) if len(kept) == len(path.selected) + 4]
    assert path.kept == whole.kept[: len(path.kept)]
    assert best == pytest.approx(min(whole.lqo_error[: reached[0] + 1]), rel=1e-10)


def test_copies_and_constants_go_the_highest_index_first():
    problem = random_problem(4, n_features=3)
    X = np.column_stack([problem.X, problem.X, np.full(len(problem.X), 2.0)]).astype(np.float32)
    path = select(problem._replace(X=X).dataset(), 2, search="backward", regularization=1.0)
    dropped = [(set(a) - set(b)).pop() for a, b in pairwise(path.kept)]
    assert set(dropped) & {3, 4, 5}
    for low in set(dropped) & {0, 1, 2}:
        assert low + 3 in dropped[: dropped.index(low)]


@pytest.mark.parametrize("copy_noise", [1e-3, 1e-7])
# The smaller lambda is some hundred thousand roundings of A, which is never formed.
@pytest.mark.parametrize(("regularization", "tolerance"), [(2.0**-10, 1e-10), (1e-8, 1e-8)])
def test_removals_among_near_copies_stay_close_to_refits(copy_noise, regularization, tolerance):
    problem = random_problem(5, n_queries=20, n_features=5)
    rng = np.random.default_rng(0)
    near = problem.X * (1.0 + copy_noise * rng.normal(size=problem.X.shape))
    problem = problem._replace(X=np.column_stack([problem.X, near]).astype(np.float32))
    path = select(problem.dataset(), 3, regularization, search="backward")
    refits = Refits(*problem.labelled(), regularization)
    for before, after, error in zip(path.kept, path.kept[1:], path.lqo_error[1:], strict=False):
        errors = {i: refits.error(set(before) - {i}) for i in before}
        [dropped] = set(before) - set(after)
        assert errors[dropped] <= min(errors.values()) * (1.0 + tolerance)
        assert error == pytest.approx(errors[dropped], rel=tolerance)


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_leave_query_out_predictions_of_every_round(search):
    problem = nested_problem(1)
    dataset = problem.dataset(max_documents=20)
    seen = []

    def measure(block, scores):
        seen.append(scores)
        return scores.sum(axis=1)

    rules = SelectionRules(4, search=search)
    [path] = select_paths(dataset, [0.1], rules, measure=measure, executor=ThreadExecutor(1)).paths
    X, y, query_ptr, weights = problem.labelled()
    scores = np.concatenate(seen, axis=1)
    queries = centred_queries(X, y, query_ptr, weights)
    assert path.measured.shape == (len(path.kept),)
    for row, kept in zip(scores, path.kept, strict=True):
        for q, (first, last) in enumerate(pairwise(query_ptr)):
            w = ridge_weights(queries[:q] + queries[q + 1 :], kept, 0.1)
            np.testing.assert_allclose(
                row[first:last], X[first:last][:, kept] @ w, rtol=1e-8, atol=1e-10
            )


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_random_candidates_float_too_but_are_not_dropped(search):
    dataset = nested_problem(3).dataset()
    rules = {"search": search, "candidates": 3, "random_state": 1}
    if search == "backward":
        with pytest.raises(dr.UsageError, match="candidates applies to features to add"):
            select(dataset, 5, 0.1, **rules)
    else:
        path = select(dataset, 5, 0.1, **rules)
        assert len(path.selected) == 5
        assert path.kept == select(dataset, 5, 0.1, **rules).kept
        assert (
            path.kept != select(dataset, 5, 0.1, search=search, candidates=3, random_state=2).kept
        )


@pytest.mark.parametrize("search", ["floating", "backward"])
def test_the_ranker_has_the_weights_of_what_is_left(search):
    problem = nested_problem(2)
    model = dr.GreedyRankRLS(4, 0.1, search=search).fit(problem.dataset())
    queries = centred_queries(*problem.labelled())
    np.testing.assert_allclose(
        model.coef_[model.selected_], ridge_weights(queries, model.selected_, 0.1), rtol=1e-9
    )
    assert np.count_nonzero(model.coef_) == 4
    assert len(model.lqo_error_) == len(model.path_.kept)


def test_a_backward_search_that_keeps_everything():
    problem = random_problem(1, n_features=3)
    model = dr.GreedyRankRLS(3, search="backward").fit(problem.dataset())
    assert model.selected_ == [0, 1, 2]
    assert len(model.lqo_error_) == 1


@pytest.mark.parametrize(
    "how", [{"search": "floating"}, {"search": "backward"}, {"fitting": "back"}]
)
def test_a_statistics_store_takes_the_same_steps(how, tmp_path):
    dataset = nested_problem(2, n_queries=30).dataset(max_documents=30)
    store = build_statistics(dataset, tmp_path / "store")
    found, expected = select(store, 5, 0.1, **how), select(dataset, 5, 0.1, **how)
    assert found.kept == expected.kept
    np.testing.assert_allclose(found.lqo_error, expected.lqo_error, rtol=1e-12)


def test_statistics_have_no_documents_to_measure(tmp_path):
    store = build_statistics(nested_problem(2).dataset(), tmp_path / "store")
    with pytest.raises(dr.DataError, match="ranking measures"):
        dr.GreedyRankRLS(2, rescore="map").fit(store)


@pytest.fixture(scope="module")
def mq2008_fold_1(mq2008):
    """(X, y, query sizes) of the training part of fold 1."""
    folder = [mq2008 / f"S{number}.txt" for number in (1, 2, 3)]
    blocks = [dr.open_dataset(path).block(0) for path in folder]
    X = np.concatenate([block.features for block in blocks])
    y = np.concatenate([block.relevance for block in blocks])
    sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
    return X, y, sizes


def test_searches_of_mq2008(mq2008_fold_1):
    """The errors of every search are those of refits, and floating search finds smaller errors."""
    X, y, sizes = mq2008_fold_1
    dataset = from_arrays(X, y, qid=np.repeat(np.arange(len(sizes)), sizes))
    queries = centred_queries(X, y, np.concatenate(([0], np.cumsum(sizes))))
    forward = select(dataset, 12, 1.0)
    floating = select(dataset, 12, 1.0, search="floating")
    backward = select(dataset, 12, 1.0, search="backward")
    assert floating.lqo_error[-1] <= forward.lqo_error[-1]
    for path in (floating, backward):
        assert len(path.selected) == 12
        error = error_by_normal_equations(queries, path.selected, 1.0)
        assert path.lqo_error[-1] == pytest.approx(error, rel=1e-9)
    error = error_by_normal_equations(queries, range(46), 1.0)
    assert backward.lqo_error[0] == pytest.approx(error, rel=1e-9)


def error_by_normal_equations(queries, subset, regularization):
    """Leave-query-out error from a solve for every query; refits by least squares take too long."""
    parts = [(X[:, list(subset)], y) for X, y, _ in queries]
    A, b = sum(X.T @ X for X, _ in parts), sum(X.T @ y for X, y in parts)
    error = 0.0
    for X, y in parts:
        others = A - X.T @ X + regularization * np.eye(len(A))
        residual = y - X @ np.linalg.solve(others, b - X.T @ y)
        error += residual @ residual
    return error
