"""Shards: every block in its share and order, whatever the workers."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from dranking.data.store.write_dataset import write_dataset
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import ThreadExecutor
from dranking.pairwise.lcra import LCRA
from dranking.pairwise.mixing import MAX_ROUNDS, Shards, Source, apportion
from dranking.pairwise.spd import SPD
from tests.data.store.blocks import counted_reads
from tests.models.problems import random_problem


def dataset_of(n_blocks):
    X = np.arange(4.0 * n_blocks)[:, None]
    return from_arrays(X, np.ones(len(X)), np.repeat(np.arange(n_blocks), 4), max_documents=4)


def query(block):
    return block.query_ids[0].as_py()


def visits(segments, *args):
    return [(s.indices, s.blocks, s.n_steps) for s in segments], *args


def shards_of(masses, n_shards, executor=None, resident=True):
    sources = [Source(dataset_of(len(m)), query, np.array(m, dtype=float)) for m in masses]
    return Shards(sources, n_shards, executor or ThreadExecutor(2), resident=resident)


positive_masses = st.lists(st.sampled_from([0.0, 0.5, 1.0, 7.0]), min_size=1, max_size=12).filter(
    any
)


@given(masses=positive_masses, total=st.integers(0, 1000))
def test_apportion_is_off_by_less_than_one(masses, total):
    masses = np.array(masses)
    parts = apportion(masses, total)
    assert parts.sum() == total
    assert (np.abs(parts - total * masses / masses.sum()) <= 1 + 1e-9).all()
    assert not parts[masses == 0].any()


@given(
    masses=st.lists(positive_masses, min_size=1, max_size=2),
    n_shards=st.integers(1, 5),
    n_steps=st.integers(0, 300),
)
def test_every_block_gets_its_steps(masses, n_shards, n_steps):
    shards = shards_of(masses, n_shards)
    results = [found for (found,) in shards.run(visits, n_steps, (3, 0), name="visit")]
    n_blocks = np.count_nonzero(masses[0])
    assert len(results) == len(shards.shares) == min(n_shards, n_blocks)
    assert shards.shares.sum() == pytest.approx(1.0)
    assert sum(n for found in results for _, _, n in found) == n_steps
    for source, mass in enumerate(masses):
        taken = np.zeros(len(mass))
        for found in results:
            for indices, blocks, n in found:
                assert blocks[source] == indices[source]
                assert n > 0
                taken[indices[source]] += n
        assert not taken[np.array(mass) == 0].any()
        if source == 0 or len(results) == 1:  # elsewhere shards differ in density
            # A step of rounding for the shard, and one for the block.
            expected = n_steps * np.array(mass) / sum(mass)
            assert (np.abs(taken - expected) <= 2 + 1e-9).all()


@given(masses=positive_masses, n_shards=st.integers(1, 4))
def test_a_block_is_visited_once_an_epoch_by_one_shard(masses, n_shards):
    n_steps = 50 * len(masses)  # too few for more than one round
    results = shards_of([masses], n_shards).run(visits, n_steps, (0, 1), name="visit")
    seen = [indices[0] for (found,) in results for indices, _, _ in found]
    assert sorted(seen) == np.flatnonzero(masses).tolist()


def test_small_data_is_gone_through_in_many_rounds_and_other_data_in_one(tmp_path, monkeypatch):
    mass = np.array([3.0, 0.0, 1.0])
    monkeypatch.setattr("dranking.pairwise.mixing.VISIT_STEPS", 1_000)
    [(found,)] = shards_of([mass], 1).run(visits, 10_000, (0, 1), name="visit")
    assert len(found) == 10  # 5 rounds of 2 blocks
    for i in range(0, 10, 2):
        (a, _, n_a), (b, _, n_b) = sorted(found[i : i + 2])
        assert (a, b, n_a, n_b) == ((0,), (2,), 1_500, 500)
    stored = write_dataset(map(dataset_of(3).block, range(3)), tmp_path / "d")
    shards = Shards([Source(stored, query, mass)], 1, ThreadExecutor(1), resident=False)
    [(streamed,)] = shards.run(visits, 10_000, (0, 1), name="visit")
    assert sorted(n for _, _, n in streamed) == [2_500, 7_500]
    monkeypatch.setattr("dranking.pairwise.mixing.SMALL_BYTES", 47)  # 12 values
    [(found,)] = shards_of([mass], 1).run(visits, 10_000, (0, 1), name="visit")
    assert sorted(n for _, _, n in found) == [2_500, 7_500]


def test_orders_differ_from_epoch_to_epoch_and_by_seed():
    shards = shards_of([np.ones(12)], 2)
    orders = {
        tuple(s[0][0] for (found,) in shards.run(visits, 120, key, name="visit") for s in found)
        for key in [(0, 0), (0, 1), (1, 0), (0, 0)]
    }
    assert len(orders) == 3


def test_visits_whose_number_is_given_pass_over_no_block():
    shards = shards_of([np.array([1e9, 1.0, 1.0])], 1)
    [(found,)] = shards.run(visits, 100, (0, 0), n_rounds=1, name="visit")
    assert sorted((indices[0], n) for indices, _, n in found) == [(0, 100), (1, 1), (2, 1)]
    [(found,)] = shards.run(visits, 100, (0, 0), name="visit")
    assert {indices[0] for indices, _, _ in found} == {0}


def test_rounds_are_not_without_number(monkeypatch):
    monkeypatch.setattr("dranking.pairwise.mixing.VISIT_STEPS", 1)
    [(found,)] = shards_of([np.ones(2)], 1).run(visits, 10_000, (0, 1), name="visit")
    assert len(found) == 2 * MAX_ROUNDS


def test_the_second_source_and_other_shards_go_in_orders_of_their_own():
    shards = shards_of([np.ones(24), np.ones(24)], 2)
    results = shards.run(visits, 240, (0, 0), n_rounds=1, name="visit")
    labelled, unlabelled = (
        [[indices[i] for indices, _, _ in found] for (found,) in results] for i in (0, 1)
    )
    assert labelled != unlabelled
    first, second = labelled
    assert [b + 1 for b in first] != second


def test_blocks_in_memory_are_prepared_once():
    prepared = []
    source = Source(dataset_of(3), lambda block: prepared.append(query(block)), np.ones(3))
    shards = Shards([source], 1, ThreadExecutor(1), resident=False)
    for epoch in range(3):
        shards.run(visits, 30, (0, epoch), name="visit")
    assert prepared == [0, 1, 2]


def test_arguments_and_tasks_reach_the_function():
    executor = ThreadExecutor(2)
    shards = shards_of([np.ones(3)], 2, executor)
    task = executor.submit(np.asarray, [1.0, 2.0], name="array")
    for _, array, text in shards.run(visits, 6, (0,), task, "text", name="visit"):
        np.testing.assert_array_equal(array, [1.0, 2.0])
        assert text == "text"


def test_only_the_first_sources_when_asked():
    shards = shards_of([np.ones(3), np.ones(5)], 2)
    for (found,) in shards.run(visits, 30, (0, 0), n_sources=1, name="visit"):
        assert all(len(indices) == 1 for indices, _, _ in found)


def test_fewer_blocks_than_shards_are_shared():
    results = shards_of([np.ones(4), [0, 1]], 3).run(visits, 40, (0, 0), name="visit")
    assert all(indices[1] == 1 for (found,) in results for indices, _, _ in found)


def check_visits(executor, way, folder):
    """Assert that shards on an executor visit what they visit on two threads, from memory."""
    mass = np.array([3.0, 1.0, 0.0, 2.0, 5.0])
    expected = shards_of([mass], 2).run(visits, 99, (7, 2), name="visit")
    dataset = dataset_of(5)
    if way != "memory":
        dataset = write_dataset((dataset.block(b) for b in range(5)), folder / "d")
    source = Source(dataset, query, mass)
    shards = Shards([source], 2, executor, resident=way == "resident")
    assert shards.run(visits, 99, (7, 2), name="visit") == expected


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("way", ["memory", "resident", "streamed"])
def test_workers_and_storage_change_nothing(n_threads, way, tmp_path):
    check_visits(ThreadExecutor(n_threads), way, tmp_path)


@pytest.mark.cluster
@pytest.mark.parametrize("way", ["memory", "resident", "streamed"])
def test_a_cluster_changes_nothing(way, tmp_path, client):
    check_visits(get_executor(client), way, tmp_path)


@pytest.mark.parametrize(("resident", "times"), [(True, 1), (False, 3)])
def test_blocks_are_read_once_or_once_an_epoch(resident, times, tmp_path, monkeypatch):
    dataset = dataset_of(4)
    stored = write_dataset((dataset.block(b) for b in range(4)), tmp_path / "d")
    read = counted_reads(stored, monkeypatch)
    shards = Shards([Source(stored, query, np.ones(4))], 2, ThreadExecutor(2), resident=resident)
    for epoch in range(3):
        shards.run(visits, 40, (0, epoch), name="visit")
    assert sorted(read) == sorted(list(range(4)) * times)


@pytest.mark.cluster
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("ranker", [SPD, LCRA])
def test_rankers_have_the_same_bits_on_a_cluster(ranker, layout, tmp_path, client):
    problem = random_problem(2, n_queries=80, n_features=6, zeros=0.5)
    y = np.where(problem.qid < 40, problem.y, np.nan)
    data = problem._replace(y=y).dataset(layout, max_documents=40)
    stored = write_dataset(map(data.block, range(data.n_blocks)), tmp_path / "d")
    steps = {"n_shards": 3, "n_epochs": 3, "steps_per_epoch": 2_000}
    fits = [
        ranker(0.01, sgd=steps).fit(dataset, executor=executor)
        for dataset, executor in ((data, "threads"), (data, client), (stored, client))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
        assert fit.objective_ == fits[0].objective_
