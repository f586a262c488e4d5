"""The memory plan: no limit changes a bit, and what cannot fit is refused."""

import numpy as np
import pytest

import dranking as dr
from dranking.engine.executor import get_executor
from dranking.engine.memory import format_bytes
from dranking.rankers.greedy import search
from dranking.rankers.greedy.path import SelectionRules
from dranking.rankers.greedy.selection import select_paths
from dranking.rankers.leave_query_out import dense as dense_state
from dranking.rankers.leave_query_out.dense import add_features
from dranking.rankers.leave_query_out.memory_plan import Needs, plan_memory
from tests.rankers.greedy.wrong_upcoming import WrongPredictor
from tests.rankers.problems import random_problem

LAMBDAS = [0.01, 1.0, 30.0]


SIZE = 6


@pytest.fixture
def stored(tmp_path):
    """A dataset directory of several blocks, and the same data in memory."""
    dataset = random_problem(3, n_queries=40, n_features=30).dataset(max_documents=15)
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dr.write_dataset(blocks, tmp_path / "data.zarr"), dataset


def assert_same_paths(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        assert a.selected == b.selected
        assert a.lqo_error == b.lqo_error
        assert a.initial_error == b.initial_error
        for x, y in zip(a.weights, b.weights, strict=True):
            np.testing.assert_array_equal(x, y)


def limits(dataset):
    """A memory limit for every way to run, the most memory first."""
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
    monkeypatch.setattr(search, "PickPredictor", WrongPredictor)
    limit = limits(dataset)[True, False, 1, n_states]
    found = select_paths(dataset, LAMBDAS, SelectionRules(SIZE), memory_limit=limit).paths
    assert_same_paths(found, expected)
    assert (begun_with == {0}) == (n_states == 1)


def test_streaming_reads_storage_once_a_pass(stored, monkeypatch):
    dataset = stored[0]
    reads = []
    block = type(dataset).block

    def counted(self, index, columns=None):
        reads.append(index)
        return block(self, index, columns)

    monkeypatch.setattr(type(dataset), "block", counted)
    limit = limits(dataset)[False, True, 1, 2]
    found = select_paths(dataset, [1.0], SelectionRules(SIZE), memory_limit=limit)
    assert len(reads) == found.n_passes * dataset.n_blocks
    reads.clear()
    select_paths(dataset, [1.0], SelectionRules(SIZE))
    assert len(reads) == dataset.n_blocks


def test_what_cannot_fit_is_refused_before_anything_is_read(stored, monkeypatch):
    dataset = stored[0]
    monkeypatch.setattr(type(dataset), "block", None)
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
