"""The memory plan: no limit changes a bit, and what cannot fit is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.files.sizes import format_bytes
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out import dense as dense_state
from dranking.rankrls.leave_query_out import memory_plan as memory
from dranking.rankrls.leave_query_out.dense import add_features
from dranking.rankrls.leave_query_out.memory_plan import (
    Needs,
    SparseNeeds,
    needed_feature_blocks,
    needs_of,
    plan_memory,
)
from tests.data.store.blocks import counted_reads
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import assert_same_paths
from tests.rankrls.greedy.wrong_upcoming import WrongPredictor

LAMBDAS = [0.01, 1.0, 30.0]

SIZE = 6


@pytest.fixture
def stored(tmp_path):
    """Data of several blocks, in a dataset directory and in memory."""
    dataset = random_problem(3, n_queries=40, n_features=30).dataset(max_documents=15)
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dr.write_dataset(blocks, tmp_path / "data.zarr"), dataset


def limits(dataset):
    """A memory limit for every way to run a selection; the way with most memory comes first."""
    needs = Needs(dataset, SIZE, get_executor("threads"))
    ways = [
        (resident, keep, n, n_states)
        for keep in (True, False)
        for resident in ((True,) if dataset.in_memory else (True, False))
        for n in (3, 1)
        for n_states in (2, 1)
    ]
    return {way: needs.total(*way) for way in ways}


@pytest.mark.parametrize("where", [0, 1])
def test_no_memory_limit_changes_a_bit(stored, where):
    dataset = stored[where]
    expected = select_paths(dataset, LAMBDAS, SelectionRules(SIZE)).paths
    seen = set()
    for limit in limits(dataset).values():
        plan = plan_memory(dataset, len(LAMBDAS), SIZE, get_executor("threads"), limit)
        assert plan.n_bytes <= limit
        seen.add(plan[:4])
        found = select_paths(dataset, LAMBDAS, SelectionRules(SIZE), memory_limit=limit)
        assert_same_paths(found.paths, expected)
    assert len(seen) >= (6 if where == 0 else 3)  # some limits allow a better way than theirs
    assert {keep for _, keep, _, _ in seen} == {True, False}
    assert {n_states for _, _, _, n_states in seen} == {2, 1}


@pytest.mark.parametrize("n_states", [2, 1])
def test_with_room_for_one_state_updates_begin_with_none(stored, monkeypatch, n_states):
    dataset = stored[1]
    begun_with = set()

    def noted(block, *values):
        begun_with.add(len(block.state))
        return add_features(block, *values)

    expected = select_paths(dataset, LAMBDAS, SelectionRules(SIZE)).paths
    monkeypatch.setattr(dense_state, "add_features", noted)
    monkeypatch.setattr("dranking.rankrls.greedy.forward.PickPredictor", WrongPredictor)
    limit = limits(dataset)[True, False, 1, n_states]
    found = select_paths(dataset, LAMBDAS, SelectionRules(SIZE), memory_limit=limit).paths
    assert_same_paths(found, expected)
    assert (begun_with == {0}) == (n_states == 1)


def test_streaming_reads_storage_once_a_pass(stored, monkeypatch):
    dataset = stored[0]
    reads = counted_reads(dataset, monkeypatch)
    limit = limits(dataset)[False, True, 1, 2]
    found = select_paths(dataset, [1.0], SelectionRules(SIZE), memory_limit=limit)
    assert len(reads) == found.n_passes * dataset.n_blocks
    reads.clear()
    select_paths(dataset, [1.0], SelectionRules(SIZE))
    assert len(reads) == dataset.n_blocks


@pytest.mark.parametrize("rules", [{}, {"fitting": "back"}, {"search": "floating"}])
def test_passes_of_refits_and_of_a_measure_are_counted_as_they_read(stored, monkeypatch, rules):
    dataset, run = stored[0], get_executor("threads")
    reads, plan = counted_reads(dataset, monkeypatch), plan_memory(dataset, 1, SIZE, run, None)
    plan = plan._replace(resident=False)
    monkeypatch.setattr("dranking.rankrls.greedy.selection.plan_memory", lambda *a, **k: plan)
    found = select_paths(
        dataset, [1.0], SelectionRules(SIZE, **rules), measure=lambda block, scores: scores[:, 0]
    )
    assert len(reads) == found.n_passes * dataset.n_blocks


def test_what_cannot_fit_is_refused_before_anything_is_read(stored, monkeypatch):
    dataset = stored[0]
    monkeypatch.setattr(type(dataset), "read_blocks", None)
    with pytest.raises(dr.UsageError, match=r"needs at least .* but there is 1\.00 kiB"):
        select_paths(dataset, [1.0], SelectionRules(SIZE), memory_limit="1KiB")


def test_what_is_said_to_be_needed_is_the_least_that_suffices(stored):
    run = get_executor("threads")

    def suffices(limit):
        try:
            return bool(plan_memory(stored[0], len(LAMBDAS), SIZE, run, limit))
        except dr.UsageError:
            return False

    too_little, enough = 1, 2**30
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        too_little, enough = (too_little, middle) if suffices(middle) else (middle, enough)
    with pytest.raises(dr.UsageError, match=f"needs at least {format_bytes(enough)} of memory"):
        plan_memory(stored[0], len(LAMBDAS), SIZE, run, too_little // 2)


@pytest.mark.parametrize("limit", ["many", -5, 0, "0B"])
def test_a_limit_that_is_no_size(stored, limit):
    with pytest.raises(dr.UsageError, match="memory_limit"):
        select_paths(stored[0], [1.0], SelectionRules(SIZE), memory_limit=limit)


def test_features_are_split_where_a_block_is_too_large_for_a_tile(stored, monkeypatch):
    stored, in_memory = stored
    run = get_executor("threads")
    assert plan_memory(stored, 1, SIZE, run, "1GB").n_feature_blocks == 1
    x_bytes = 4 * max(block.n_values for block in stored.blocks)
    monkeypatch.setattr(memory, "MAX_TILE_BYTES", x_bytes // 3 + 1)
    assert plan_memory(stored, 1, SIZE, run, "1GB").n_feature_blocks == 3
    plan = plan_memory(in_memory, 1, SIZE, run, "1GB")
    assert plan.n_feature_blocks == 1  # nothing to gain in this process
    monkeypatch.setattr(memory, "MAX_TILE_BYTES", 1)
    assert plan_memory(stored, 1, SIZE, run, "1GB").n_feature_blocks == stored.n_features


def test_features_are_not_split_where_only_a_single_state_fits(tmp_path):
    dataset = random_problem(3, n_queries=10, n_features=30).dataset()
    stored = dr.write_dataset([dataset.block(0)], tmp_path / "d")
    run = get_executor("threads")
    needs = Needs(stored, SIZE, run)
    limit = needs.total(True, True, 1, 1)
    assert needed_feature_blocks(stored, needs, run, limit) > 1
    plan = plan_memory(stored, 1, SIZE, run, limit)
    assert (plan.n_feature_blocks, plan.n_states) == (1, 1)


def test_features_are_split_where_a_worker_could_not_hold_a_tile(stored):
    class Workers:
        n_slots, in_process, memory_limit = 4, False, None

    stored = stored[0]
    needs = Needs(stored, SIZE, Workers())
    largest = max(stored.blocks, key=lambda block: block.n_values)
    share = largest.n_queries / stored.n_queries
    kept = 4 * largest.n_values + share * (needs.total(False, True, 1) - needs.stream)
    for parts in (1, 2, 5):
        available = int(4 * kept / parts) + 8
        assert needed_feature_blocks(stored, needs, Workers(), available) == parts


def test_the_state_is_kept_where_it_is_smaller_than_the_data():
    run = get_executor("threads")
    sparser, denser = (
        from_arrays(sparse.csr_array(np.ones((4_000, 3), np.float32)), np.ones(4_000), qid)
        for qid in (np.arange(4_000), np.zeros(4_000, dtype=int))
    )
    assert type(needs_of(sparser, 2, run)) is SparseNeeds
    assert type(needs_of(denser, 2, run)) is Needs
    assert plan_memory(denser, 1, 2, run, None).n_states == 2
    assert plan_memory(sparser, 1, 2, run, None).n_states == 0
    assert plan_memory(sparser, 1, 2, run, None, refits=True).n_states == 2


def test_no_executor_changes_whether_the_state_is_kept():
    elsewhere = SimpleNamespace(in_process=False, n_slots=8)
    chosen = set()
    for density in np.geomspace(0.05, 1.0, 40):
        X = sparse.random_array((2_000, 40), density=density, rng=np.random.default_rng(0))
        dataset = from_arrays(
            sparse.csr_array(X.astype(np.float32)), np.zeros(2_000), np.arange(2_000) // 100
        )
        here = type(needs_of(dataset, 4, get_executor("threads")))
        assert here is type(needs_of(dataset, 4, elsewhere))
        chosen.add(here)
    assert chosen == {Needs, SparseNeeds}


def test_memory_does_not_grow_with_queries_times_features():
    run = get_executor("threads")
    X = sparse.random_array((20_000, 50_000), density=1e-4, rng=np.random.default_rng(0)).tocsr()
    dataset = from_arrays(X.astype(np.float32), np.zeros(20_000), np.arange(20_000) // 4)
    plan = plan_memory(dataset, 1, 10, run, None)
    assert plan.n_bytes < 10**8 < 8 * dataset.n_queries * dataset.n_features
    with pytest.raises(dr.UsageError, match="needs at least"):
        plan_memory(dataset, 1, 10, run, plan.n_bytes - 1)
