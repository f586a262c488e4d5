"""Rankers on a statistics store give the same bits as on the data, without the data."""

import pickle
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.affine_scalings import MinMax, Standard
from dranking.data.tables.in_memory import MemoryDataset
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError, SelectionWarning, UsageError
from dranking.ingestion.open import open_dataset
from dranking.rankrls.gram.statistics_store import (
    append_queries,
    build_statistics,
    update_statistics,
)
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.memory_plan import Needs
from dranking.rankrls.statistics.write_append_expire import expire_statistics
from tests.engine.executors import Remote
from tests.models.problems import Problem, random_problem, ranking_problems
from tests.rankrls.greedy.selections import assert_same_paths
from tests.rankrls.statistics.stores import everything_of
from tests.reference.greedy import centred_queries, held_out_error, ridge_weights

LAYOUTS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": sparse.csr_array}
LAMBDAS = [0.01, 1.0, 30.0]
SIZE = 6


@pytest.fixture(autouse=True)
def _picks_without_gain_are_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        yield


@pytest.fixture(autouse=True)
def _a_state_is_kept(monkeypatch):
    """Keep a state for sparse data too, as for statistics: other scores are rounded differently."""
    monkeypatch.setattr("dranking.rankrls.leave_query_out.memory_plan.needs_of", Needs)


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return LAYOUTS[request.param]


class Weighing(Remote):
    """Threads like workers, which note the bytes of every answer that the driver receives."""

    def __init__(self, n_threads):
        super().__init__(n_threads)
        self.n_bytes = []

    def gather(self, tasks):
        answers = super().gather(tasks)
        self.n_bytes += map(len, map(pickle.dumps, answers))
        return answers


def test_workers_write_the_blocks_and_the_driver_gets_their_entries(tmp_path):
    """A block of 30 queries and 60 features has 864,000 bytes of statistics."""
    problem = random_problem(3, n_queries=120, n_features=60)
    data = problem.dataset(max_documents=400)
    expected = build_statistics(data, tmp_path / "threads", executor="threads")
    executor = Weighing(2)
    store = build_statistics(data, tmp_path / "workers", executor=executor)
    data = random_problem(4, n_queries=120, n_features=60).dataset(max_documents=400)
    grown = update_statistics(store.path, data, executor=executor)
    assert sum(executor.n_bytes) < 5_000 * store.n_blocks
    assert store.manifest.n_bytes > 100 * sum(executor.n_bytes)
    assert everything_of(store) == everything_of(expected)
    expected = build_statistics(data, tmp_path / "other", executor="threads")
    assert everything_of(grown) == everything_of(expected)


def problem_of(seed=3, n_queries=40):
    """A problem with missing labels, and a query without any label."""
    problem = random_problem(seed, n_queries=n_queries, n_features=14, zeros=0.4)
    problem.y[np.random.default_rng(seed).random(len(problem.y)) < 0.1] = np.nan
    problem.y[problem.qid == 4] = np.nan
    return problem


def selected(dataset, **options):
    return select_paths(dataset, LAMBDAS, SelectionRules(SIZE), **options).paths


# Selection


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=20)  # whose bits differ, if at all, in any problem of several queries
@given(problem=ranking_problems())
def test_selection_is_that_from_the_data_in_every_bit(tmp_path_factory, name, problem):
    """Unless digits are in doubt: documents and the rows of a store settle them each by itself."""
    dataset = problem.dataset(LAYOUTS[name], max_documents=6)
    if dataset.n_unlabelled == dataset.n_documents:
        return
    store = build_statistics(dataset, tmp_path_factory.mktemp("s") / "store")
    rules = SelectionRules(dataset.n_features)
    expected = select_paths(dataset, LAMBDAS, rules).paths
    found = select_paths(store, LAMBDAS, rules).paths
    if not any(doubt.was_checked for path in (*found, *expected) for doubt in path.doubts):
        assert_same_paths(found, expected)
        return
    for one, other in zip(found, expected, strict=True):
        known = one.relative_rounding + other.relative_rounding
        np.testing.assert_allclose(one.lqo_error, other.lqo_error, rtol=known)


def test_a_feature_that_equals_the_relevance_has_the_same_error_to_its_certificate(tmp_path):
    grades = np.array([0, 4, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0], dtype=np.float64)
    X, sizes = grades[:, None].astype(np.float32), np.array([1, 2, 1, 3, 5])
    dataset = Problem(X, grades, sizes, np.ones(5)).dataset(max_documents=6)
    store = build_statistics(dataset, tmp_path / "store")
    queries = [(X[i : i + n].astype(float), grades[i : i + n]) for i, n in ((1, 2), (4, 3))]
    centred = [(x[:, 0] - x.mean(), y - y.mean()) for x, y in queries]
    A, b = (sum(float(v @ u[k]) for v, u in ((c[0], c) for c in centred)) for k in (0, 1))
    expected = 0.0
    for x, y in centred:  # its residuals under the weight of all other queries
        weight = (b - x @ y) / (A - x @ x + 0.01)
        expected += float(np.square(y - weight * x).sum())
    for data in (dataset, store):
        [path] = select_paths(data, [0.01], SelectionRules(1)).paths
        assert path.lqo_error[0] == pytest.approx(expected, rel=path.relative_rounding)


def test_no_way_to_run_changes_a_bit(tmp_path, layout):
    dataset = problem_of().dataset(layout, max_documents=15)
    store = build_statistics(dataset, tmp_path / "store", executor=ThreadExecutor(3))
    expected = selected(dataset)
    for options in ({}, {"executor": ThreadExecutor(1)}, {"memory_limit": 400_000}):
        assert_same_paths(selected(store, **options), expected)


@pytest.mark.cluster
def test_workers_build_and_select(tmp_path, client):
    dataset = problem_of().dataset(max_documents=15)
    store = build_statistics(dataset, tmp_path / "store", executor=client)
    assert_same_paths(selected(store, executor=client), selected(dataset))


def test_the_model_and_a_checkpoint_are_those_of_the_data(tmp_path):
    dataset = problem_of().dataset(max_documents=15)
    store = build_statistics(dataset, tmp_path / "store")
    checkpoint = tmp_path / "picks.json"
    dr.GreedyRankRLS(3, checkpoint=checkpoint).fit(dataset)
    from_store = dr.GreedyRankRLS(6, checkpoint=checkpoint).fit(store)
    expected = dr.GreedyRankRLS(6).fit(dataset)
    np.testing.assert_array_equal(from_store.coef_, expected.coef_)
    one, other = (r.to_model().provenance["data"] for r in (from_store, expected))
    assert one == other
    np.testing.assert_array_equal(from_store.predict(dataset), expected.predict(dataset))


# Growing and shrinking


def parts_of(problem, layout, cuts):
    """Parts of the data set, of some blocks each, and all blocks together."""
    dataset = problem.dataset(layout, max_documents=30)
    blocks = [dataset.block(b) for b in range(dataset.n_blocks)]
    names = dataset.feature_names
    return [MemoryDataset(blocks[i:j], names) for i, j in cuts], dataset


def test_a_grown_store_selects_as_one_built_from_all_without_the_old_data(tmp_path, layout):
    (old, new), dataset = parts_of(problem_of(), layout, [(0, 4), (4, None)])
    path = tmp_path / "store"
    stored = dr.write_dataset((old.block(b) for b in range(old.n_blocks)), tmp_path / "old")
    build_statistics(stored, path)
    shutil.rmtree(stored.path)
    grown = append_queries(path, new)
    expected = build_statistics(dataset, tmp_path / "all")
    assert grown.fingerprint == expected.fingerprint == dataset.fingerprint
    assert_same_paths(selected(grown), selected(dataset))
    for ranker in (dr.RankRLS(2.0), dr.RankRLSCV(LAMBDAS)):
        coef = ranker.fit(grown).coef_
        np.testing.assert_array_equal(coef, ranker.fit(expected).coef_)


_OPENED: list[Path] | None = None


def _note_opened(event, arguments):
    if _OPENED is not None and event == "open" and isinstance(arguments[0], str | Path):
        _OPENED.append(Path(arguments[0]))


sys.addaudithook(_note_opened)  # cannot be removed; does nothing unless a test counts


@pytest.fixture
def opened(monkeypatch):
    """The names of all files that this process opens."""
    files: list[Path] = []
    monkeypatch.setattr(sys.modules[__name__], "_OPENED", files)
    return files


def test_growing_and_selecting_open_no_file_of_the_old_data(tmp_path, opened):
    (old, new), dataset = parts_of(problem_of(), np.asarray, [(0, 4), (4, None)])
    old = dr.write_dataset((old.block(b) for b in range(old.n_blocks)), tmp_path / "old")
    opened.clear()
    store = build_statistics(old, tmp_path / "store")
    assert any(file.is_relative_to(old.path / "segments") for file in opened)
    opened.clear()
    grown = append_queries(store.path, new)
    rows = {file.parent.name for file in opened if file.name == "statistics.rows"}
    written = {row.partition("-")[2].partition(".tmp")[0] for row in rows}  # under temporary names
    assert written == {f"{b:06d}" for b in range(old.n_blocks, grown.n_blocks)}
    found = selected(grown)
    dr.RankRLS().fit(grown)
    dr.GreedyRankRLSCV(3, LAMBDAS).fit(grown)
    expire_statistics(store.path, blocks=[0])
    assert opened
    assert not any(file.is_relative_to(old.path) for file in opened)
    assert_same_paths(found, selected(dataset))


def test_a_store_thinned_out_selects_as_the_rest_of_the_data(tmp_path, layout):
    problem = problem_of()
    dataset = problem.dataset(layout, max_documents=30)
    times = np.random.default_rng(0).integers(0, 4, dataset.n_queries)
    times[: dataset.blocks[0].n_queries] = 0  # a whole block goes, and parts of others
    store = build_statistics(dataset, tmp_path / "store", times=times)
    left = expire_statistics(store.path, before=2)
    view = dataset.select_queries(times >= 2)
    rest = dr.write_dataset((view.block(b) for b in range(view.n_blocks)), tmp_path / "rest")
    assert left.n_blocks == rest.n_blocks < dataset.n_blocks
    assert left.n_queries == (times >= 2).sum()
    assert_same_paths(selected(left), selected(rest))
    rebuilt = build_statistics(view, tmp_path / "rebuilt")
    assert rebuilt.fingerprint == rest.fingerprint
    np.testing.assert_array_equal(dr.RankRLS().fit(left).coef_, dr.RankRLS().fit(rebuilt).coef_)


def test_what_does_not_fit_is_not_appended(tmp_path):
    (old, new), dataset = parts_of(problem_of(), np.asarray, [(0, 4), (4, None)])
    store = build_statistics(old, tmp_path / "store")
    blocks = [new.block(b) for b in range(new.n_blocks)]
    others = {
        r"lacks 'f1', .*'f10', \.\.\. \(14 in all\) of the 14 .* that .*store has": MemoryDataset(
            blocks, [f"x{i}" for i in range(14)]
        ),
        "whose scaling differs": new.transformed([Standard(mean=(0.0,) * 14, scale=(2.0,) * 14)]),
        "rows of the new data are in .*store already": dataset,
    }
    for message, data in others.items():
        with pytest.raises(DataError, match=message):
            append_queries(store.path, data)
    assert append_queries(store.path, new).n_blocks == dataset.n_blocks


def test_statistics_beyond_memory_are_refused_before_they_are_made(tmp_path):
    executor = ThreadExecutor(1)
    executor.memory_limit = 50_000
    dataset = random_problem(n_queries=100, n_features=60).dataset()
    with pytest.raises(UsageError, match=r"statistics of 60 features take .* there is 48.83 kiB"):
        build_statistics(dataset, tmp_path / "store", executor=executor)
    assert list(tmp_path.iterdir()) == []


# Other rankers


@pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=15)
@given(problem=ranking_problems(max_queries=6), value=st.sampled_from([0.25, 1.0, 64.0]))
def test_rankrls_and_its_errors_are_those_of_refits(tmp_path_factory, name, problem, value):
    X, y, query_ptr, weights = problem.labelled()
    if not len(y):
        return
    queries = centred_queries(X, y, query_ptr, weights)
    everything = range(X.shape[1])
    dataset = problem.dataset(LAYOUTS[name], max_documents=6)
    store = build_statistics(dataset, tmp_path_factory.mktemp("s") / "store")
    ranker = dr.RankRLSCV([value]).fit(store)
    expected = ridge_weights(queries, everything, value)
    np.testing.assert_allclose(ranker.coef_, expected, rtol=1e-8, atol=1e-10)
    floor = 1e-11 * sum(weight * labels @ labels for _, labels, weight in queries)
    error = held_out_error(queries, everything, value)
    assert ranker.lqo_error_[0] == pytest.approx(error, rel=1e-9, abs=floor)
    single = dr.RankRLS(value).fit(store)
    np.testing.assert_allclose(single.coef_, expected, rtol=1e-8, atol=1e-10)
    assert single.objective_ == pytest.approx(
        dr.RankRLS(value).fit(dataset).objective_, rel=1e-10, abs=floor
    )


@pytest.mark.parametrize("kind", ["standard", "minmax"])
def test_scaling_by_numbers_needs_no_data(tmp_path, kind):
    """Scaled X is rounded to float32 and scaled statistics are not: equal up to that rounding."""
    dataset = random_problem(7, n_queries=60, n_features=8).dataset(max_documents=40)
    scale = tuple(np.random.default_rng(0).uniform(0.1, 9.0, 8))
    scaling: Standard | MinMax = Standard(mean=(0.3,) * 8, scale=scale)
    if kind == "minmax":
        scaling = MinMax(low=(0.3,) * 8, high=tuple(0.3 + size for size in scale))
    store = build_statistics(dataset, tmp_path / "store").transformed([scaling])
    for ranker in (dr.RankRLS(3.0), dr.GreedyRankRLS(4, 3.0)):
        expected = ranker.fit(dataset.transformed([scaling])).coef_
        actual = ranker.fit(store).coef_
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        assert ranker.to_model().transforms


def test_what_needs_documents_says_so(tmp_path):
    dataset = problem_of().dataset(max_documents=15)
    build_statistics(dataset, tmp_path / "store")
    store = open_dataset(tmp_path / "store")
    model = dr.RankRLS().fit(store).to_model()
    for ask in (
        lambda: dr.evaluate(model, store),
        lambda: model.predict(store),
        lambda: dr.RankSVM().fit(store),
        lambda: dr.RankRLS(solver="cg").fit(store),
        lambda: dr.tune(store, grid=[1.0], validation=2),
        lambda: dr.tune(store, grid=[1.0], validation="leave-query-out", max_features=2),
    ):
        with pytest.raises(DataError, match=r"hold no documents.*give the data itself"):
            ask()
