"""Feature blocks change no bit of a selection, and tiles send each other little."""

from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tile_layout import tile_ranges
from dranking.engine.tile_tasks import Literal
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.greedy import selection
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.rescoring import Rescoring
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out import memory_plan as memory
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.greedy.selections import assert_greedy, assert_same_paths
from tests.reference.greedy import centred_queries

LAMBDAS = [0.01, 1.0, 30.0]
SIZE = 6
pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")


def squares(block, scores):
    return (scores**2).sum(axis=1)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Data of several blocks, in memory and in storage."""
    dataset = random_problem(3, n_queries=20, n_features=30).dataset(max_documents=15)
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dataset, dr.write_dataset(blocks, tmp_path_factory.mktemp("data") / "d")


RULES = SelectionRules(SIZE, prefetch=3)


@pytest.fixture(scope="module")
def expected(datasets):
    """The paths of a selection whose features are not split."""
    return select_paths(datasets[0], LAMBDAS, RULES, measure=squares).paths


@pytest.mark.parametrize("keep_rows", [True, False])
@pytest.mark.parametrize("where", ["memory", "stored", "streamed"])
def test_no_number_of_feature_blocks_changes_a_bit(datasets, expected, where, keep_rows):
    dataset = datasets[where != "memory"]
    for n_feature_blocks in (3, 30) if where == "memory" else (2, 7):
        needs = Needs(dataset, SIZE, get_executor("threads"), n_feature_blocks)
        found = select_paths(
            dataset,
            LAMBDAS,
            RULES,
            measure=squares,
            memory_limit=needs.total(where != "streamed", keep_rows, 2),
            feature_blocks=n_feature_blocks,
        )
        assert found.n_feature_blocks == n_feature_blocks
        assert_same_paths(found.paths, expected)
        for ours, theirs in zip(found.paths, expected, strict=True):
            np.testing.assert_array_equal(ours.measured, theirs.measured)


@given(problem=ranking_problems(), draw=st.data())
def test_feature_blocks_of_any_problem(problem, draw):
    X, y, query_ptr, weights = problem.labelled()
    if not len(y):
        return
    dataset = problem.dataset(max_documents=draw.draw(st.integers(1, 9)))
    rules = SelectionRules(dataset.n_features)
    n_feature_blocks = draw.draw(st.integers(1, dataset.n_features))
    whole, split = (
        select_paths(dataset, [0.5], rules, feature_blocks=number).paths
        for number in (1, n_feature_blocks)
    )
    assert_same_paths(split, whole)
    assert_greedy(split[0], centred_queries(X, y, query_ptr, weights))


def test_draws_starts_and_statistics_of_the_run(datasets):
    rules = SelectionRules(
        SIZE, start=[29, 4], forbidden=[7], candidates=5, random_state=3, patience=2
    )
    whole = select_paths(datasets[0], LAMBDAS, rules, feature_blocks=1)
    split = select_paths(datasets[0], LAMBDAS, rules, feature_blocks=4)
    assert_same_paths(split.paths, whole.paths)
    assert split.n_passes == whole.n_passes


def test_candidates_are_scored_again_from_all_feature_blocks(datasets):
    rules = SelectionRules(4, rescoring=Rescoring.of("ndcg@5", 6, "letor4"))
    expected = select_paths(datasets[0], [1.0], rules).paths
    for dataset in datasets:
        found = select_paths(dataset, [1.0], rules, feature_blocks=4)
        assert_same_paths(found.paths, expected)


@pytest.mark.parametrize("rules", [{"fitting": "back"}, {"search": "floating"}])
def test_searches_that_take_whole_queries_are_not_split(datasets, rules, monkeypatch):
    with pytest.raises(dr.UsageError, match="take all features of a query together"):
        select_paths(datasets[0], [1.0], SelectionRules(3, **rules), feature_blocks=2)
    monkeypatch.setattr(memory, "MAX_TILE_BYTES", 1)
    found = select_paths(datasets[1], [1.0], SelectionRules(3, **rules))
    assert found.n_feature_blocks == 1


def test_a_tie_between_feature_blocks_goes_to_the_lowest_index():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)).astype(np.float32)
    X[:, [1, 7]] = X[:, [4, 4]]
    dataset = from_arrays(X, 3 * X[:, 4] + rng.normal(size=60), np.repeat(np.arange(10), 6))
    for n_feature_blocks in (1, 2, 4, 8):
        ranker = dr.GreedyRankRLS(1, passes=dr.Passes(feature_blocks=n_feature_blocks)).fit(dataset)
        assert ranker.selected_ == [1]
        assert ranker.feature_blocks_ == n_feature_blocks


def test_a_killed_run_goes_on_with_other_feature_blocks(datasets, tmp_path, monkeypatch):
    file, rounds = tmp_path / "picks.json", []

    def killed(gram, searches, rules):
        if len(rounds) == 3:
            raise KeyboardInterrupt
        rounds.append(1)
        advance(gram, searches, rules)

    advance = selection._advance
    monkeypatch.setattr(selection, "_advance", killed)
    rules = SelectionRules(SIZE)
    with pytest.raises(KeyboardInterrupt):
        select_paths(datasets[1], LAMBDAS, rules, checkpoint=file, feature_blocks=3)
    monkeypatch.undo()
    found = select_paths(datasets[1], LAMBDAS, rules, checkpoint=file, feature_blocks=2)
    assert_same_paths(found.paths, select_paths(datasets[1], LAMBDAS, rules).paths)


class RecordingExecutor(ThreadExecutor):
    """Threads that remember the tasks that were submitted."""

    def __init__(self):
        super().__init__(2)
        self.asked = []

    def submit(self, function, /, *args, name, slot=None):
        self.asked.append((name, args))
        return super().submit(function, *args, name=name, slot=slot)

    def arguments(self, name):
        """The arguments of all tasks with a name; futures are replaced by their results."""
        return [
            [arg.result() if isinstance(arg, Future) else arg for arg in args]
            for asked, args in self.asked
            if asked == name
        ]


def array_bytes(args, kind):
    """Bytes of the arrays among arguments that the driver sent, or that other tiles sent."""
    if kind is Literal:
        values = [a.value for a in args if isinstance(a, Literal)]
        return sum(
            v.nbytes if isinstance(v, np.ndarray) else 8 * isinstance(v, float) for v in values
        )
    shared = [a for a in args if isinstance(a, list) and isinstance(a[0], np.ndarray)]
    return sum(array.nbytes for blocks in shared for array in blocks)


def test_a_round_sends_messages_of_the_sizes_that_the_theory_gives():
    """The complexity table of THEORY.md; every message is measured where it arrives."""
    n, per_query, n_queries, k, width = 24, 5, 30, 4, 3
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_queries * per_query, n)).astype(np.float32)
    y = X[:, :6].sum(axis=1) + rng.normal(size=len(X))
    dataset = from_arrays(X, y, np.repeat(np.arange(n_queries), per_query), max_documents=50)
    executor = RecordingExecutor()
    ranker = dr.GreedyRankRLS(k, passes=dr.Passes(prefetch=1, feature_blocks=width)).fit(
        dataset, executor=executor
    )
    traffic, n_ranges = ranker.traffic_, len(tile_ranges(dataset, executor.n_slots, width))
    n_tiles = n_ranges * width

    # The driver: f and its place, A[f, S] and A[f, f] to every tile, and each its slice of A[f, :].
    sent = sum(n_ranges * 8 * (n + width * (3 * t + 1)) for t in range(1, k + 1))
    assert traffic["update"] == (k, k * n_tiles, sent)
    # The tiles that hold f, to the others: A_q[f, S], A_q[f, f], r and u of every query.
    told = sum((width - 1) * 8 * n_queries * (t + 3) for t in range(k))
    assert traffic["shared-announce"] == (k, k * n_ranges * (width - 1), told)
    # A pass: one column of X, float32, to the other feature blocks; and the sums of its rows back.
    assert traffic["shared-columns"] == (
        k,
        k * n_ranges * (width - 1),
        k * 4 * len(X) * (width - 1),
    )
    assert traffic["sum-gram-rows"] == (k, k * n_tiles, k * n_ranges * 8 * n)
    # Scores, before the first round too: one n-vector, the present error of each tile, and lost
    # digits in float32.
    back = (k + 1) * n_ranges * (8 * (n + width) + 4 * n)
    assert traffic["sum-scores"] == (k + 1, (k + 1) * n_tiles, back)

    updates = executor.arguments("update")
    assert sum(array_bytes(args, Literal) for args in updates) == sent
    received = sum(array_bytes(args, list) for args in updates)
    assert received == told * width // (width - 1)  # by the owner too, which sends it nowhere
    rows = executor.arguments("gram-rows")
    assert sum(array_bytes(args, list) for args in rows) == k * 4 * len(X) * width


def test_one_feature_block_tells_nobody(datasets):
    found = select_paths(datasets[0], [1.0], SelectionRules(3), feature_blocks=1)
    assert not any(name.startswith("shared-") for name in found.traffic)


def test_blocks_of_one_feature_add_up_many_queries_in_the_same_order():
    dataset = random_problem(4, n_queries=60, n_features=6).dataset()
    assert dataset.n_blocks == 1
    expected = select_paths(dataset, LAMBDAS, SelectionRules(4)).paths
    found = select_paths(dataset, LAMBDAS, SelectionRules(4), feature_blocks=6).paths
    assert_same_paths(found, expected)


@pytest.mark.parametrize("wrong", [0, -1, 31, 2.5, True])
def test_a_number_of_feature_blocks_that_cannot_be(datasets, wrong):
    with pytest.raises(dr.UsageError, match="feature_blocks"):
        dr.GreedyRankRLS(2, passes=dr.Passes(feature_blocks=wrong)).fit(datasets[0])


def test_sparse_data_and_statistics_are_not_split(datasets, tmp_path):
    problem = random_problem(3, n_queries=10, n_features=8, zeros=0.5)
    with pytest.raises(dr.UsageError, match="sparse data is not split"):
        dr.GreedyRankRLS(2, passes=dr.Passes(feature_blocks=2)).fit(
            problem.dataset(sparse.csr_array)
        )
    store = build_statistics(problem.dataset(), tmp_path / "s")
    with pytest.raises(dr.UsageError, match="statistics of queries are not split"):
        dr.GreedyRankRLS(2, passes=dr.Passes(feature_blocks=2)).fit(store)
    assert dr.GreedyRankRLS(2, passes=dr.Passes(feature_blocks=1)).fit(store).feature_blocks_ == 1
