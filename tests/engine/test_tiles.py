"""Tiles: every block once and in order, sums in one tree whatever the tiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.memory import from_arrays
from dranking.data.store import write_dataset
from dranking.engine import stream, tiles
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tiles import Literal, Tiles, tree_sum


def dataset_of(n_blocks, n_features=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4 * n_blocks, n_features)).astype(np.float32)
    y = rng.integers(0, 2, len(X)).astype(float)
    y[::7] = np.nan
    return from_arrays(X, y, np.repeat(np.arange(n_blocks), 4), max_documents=4)


def column_sums(block, *more):
    return block.features.sum(axis=0, dtype=np.float64), float(block.n_documents), *more


def reference_tree(values):
    """Neighbours are added until one is left; what has no neighbour waits."""
    values = list(values)
    while len(values) > 1:
        values = [sum(values[i : i + 2][1:], values[i]) for i in range(0, len(values), 2)]
    return values[0]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70))
def test_tree_sum_adds_neighbours(values):
    arrays = [np.array([v, -v]) for v in values]
    np.testing.assert_array_equal(tree_sum(arrays), reference_tree(arrays))


def test_tree_sum_of_tuples_sums_each_part():
    left, right = tree_sum([(np.ones(2), 1.0), (np.ones(2), 2.0), (np.ones(2), 4.0)])
    np.testing.assert_array_equal(left, [3.0, 3.0])
    assert right == 7.0


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 17, 40])
@pytest.mark.parametrize("tile_bytes", [1, 200, 2**28])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_sums_have_the_same_bits_for_any_tiles(n_blocks, tile_bytes, n_threads, monkeypatch):
    monkeypatch.setattr(tiles, "MAX_TILE_BYTES", tile_bytes)
    dataset = dataset_of(n_blocks)
    spread = Tiles(dataset, ThreadExecutor(n_threads))
    total, count = spread.sum(spread.map_blocks(column_sums, name="s"), tuple, "s")
    parts = [dataset.block(b).labelled() for b in range(n_blocks)]
    expected = reference_tree([p.features.sum(axis=0, dtype=np.float64) for p in parts])
    np.testing.assert_array_equal(total, expected)
    assert count == sum(p.n_documents for p in parts)


@pytest.mark.parametrize("resident", [True, False])
def test_maps_pair_each_block_with_its_own_value(resident, tmp_path):
    dataset = dataset_of(11)
    stored = write_dataset((dataset.block(b) for b in range(11)), tmp_path / "d")
    spread = Tiles(stored, ThreadExecutor(2), resident=resident)
    ids = spread.map_blocks(lambda block: block.query_ids[0].as_py(), name="ids")
    again = spread.map_blocks(
        lambda block, q, text: (block.query_ids[0].as_py(), q, text), ids, Literal("x"), name="a"
    )
    assert spread.gather(again) == [(q, q, "x") for q in range(11)]
    doubled = spread.map_values(lambda q, factor: q * factor, ids, Literal(2), name="double")
    assert spread.gather(doubled) == [2 * q for q in range(11)]


@pytest.mark.parametrize("resident", [True, False])
def test_blocks_are_read_once_when_resident_and_once_a_pass_when_not(
    resident, tmp_path, monkeypatch
):
    dataset = dataset_of(9)
    stored = write_dataset((dataset.block(b) for b in range(9)), tmp_path / "d")
    reads = []
    read = type(stored).block
    monkeypatch.setattr(
        type(stored), "block", lambda self, b, columns=None: reads.append(b) or read(self, b)
    )
    spread = Tiles(stored, ThreadExecutor(2), resident=resident)
    for _ in range(3):
        spread.gather(spread.map_blocks(lambda block: 0, name="pass"))
    assert sorted(reads) == sorted(list(range(9)) * (1 if resident else 3))


def test_an_error_in_a_block_is_raised():
    spread = Tiles(dataset_of(5), ThreadExecutor(2))
    with pytest.raises(ZeroDivisionError):
        spread.gather(spread.map_blocks(lambda block: 1 / 0, name="bad"))


def test_streaming_keeps_order_and_looks_a_bounded_way_ahead():
    dataset, executor = dataset_of(30), ThreadExecutor(2)
    submitted = []
    submit = executor.submit
    executor.submit = lambda *a, **k: submitted.append(1) or submit(*a, **k)
    seen = 0
    for query in stream.map_blocks(lambda b: b.query_ids[0].as_py(), dataset, executor, name="q"):
        assert query == seen
        seen += 1
        assert len(submitted) <= seen + 2 * executor.n_slots
    assert seen == 30


def test_streaming_reads_only_the_columns_wanted(tmp_path):
    dataset = dataset_of(3)
    shapes = list(
        stream.map_blocks(
            lambda b, extra: (b.features.shape, extra),
            dataset,
            ThreadExecutor(1),
            "more",
            columns=np.array([2, 0]),
            name="shape",
        )
    )
    assert shapes == [((4, 2), "more")] * 3
