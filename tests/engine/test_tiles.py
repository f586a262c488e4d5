"""Tiles hold every block once and in order, and sum in one tree whatever their size."""

import numpy as np
import pytest

from dranking.data.store.write_dataset import write_dataset
from dranking.engine import tile_layout
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tile_tasks import ByFeature, Literal
from dranking.engine.tiles import Tiles
from tests.data.store.blocks import counted_reads
from tests.engine.small_data import dataset_of, reference_tree


def column_sums(block, *more):
    return block.features.sum(axis=0, dtype=np.float64), float(block.n_documents), *more


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 17, 40])
@pytest.mark.parametrize("tile_bytes", [1, 200, 2**28])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_sums_have_the_same_bits_for_any_tiles(n_blocks, tile_bytes, n_threads, monkeypatch):
    monkeypatch.setattr(tile_layout, "MAX_TILE_BYTES", tile_bytes)
    dataset = dataset_of(n_blocks)
    spread = Tiles(dataset, ThreadExecutor(n_threads))
    total, count = spread.sum(spread.map_blocks(column_sums, name="s"), tuple, "s")
    parts = [dataset.block(b).labelled() for b in range(n_blocks)]
    expected = reference_tree([p.features.sum(axis=0, dtype=np.float64) for p in parts])
    np.testing.assert_array_equal(total, expected)
    assert count == sum(p.n_documents for p in parts)


@pytest.mark.parametrize(("wide", "n_taken"), [(3, 1), (4, 3)])
@pytest.mark.parametrize("n_feature_blocks", [1, 3])
def test_the_driver_takes_one_sum_where_they_are_large(
    n_feature_blocks, wide, n_taken, monkeypatch
):
    """40 tiles of 3 features; the bits are the same."""
    monkeypatch.setattr(tile_layout, "MAX_TILE_BYTES", 1)
    monkeypatch.setattr("dranking.engine.tree_sum.WIDE", wide)
    executor, taken = ThreadExecutor(2), []
    executor.in_process = False
    gather = executor.gather
    monkeypatch.setattr(executor, "gather", lambda tasks: taken.append(len(tasks)) or gather(tasks))
    dataset = dataset_of(40)
    spread = Tiles(dataset, executor, n_feature_blocks=n_feature_blocks)
    total, count = spread.sum(spread.map_blocks(column_sums, name="s"), tuple, "s")
    parts = [dataset.block(b).labelled() for b in range(40)]
    expected = reference_tree([p.features.sum(axis=0, dtype=np.float64) for p in parts])
    np.testing.assert_array_equal(total, expected)
    assert count == sum(p.n_documents for p in parts)
    assert taken == [n_taken * n_feature_blocks]


@pytest.mark.parametrize("n_blocks", [1, 17, 40])
@pytest.mark.parametrize("parts", [1, 3])
def test_mapped_sums_and_least_numbers_are_those_of_all_blocks(n_blocks, parts, monkeypatch):
    monkeypatch.setattr(tile_layout, "MAX_TILE_BYTES", 200)
    dataset, executor = dataset_of(n_blocks), ThreadExecutor(3)
    executor.in_process = False
    spread = Tiles(dataset, executor, n_feature_blocks=parts)
    ids = spread.map_blocks(lambda block: float(block.query_ids[0].as_py()), name="ids")
    total, count, of_ids = spread.sum_map(column_sums, ids, name="s")
    blocks = [dataset.block(b).labelled() for b in range(n_blocks)]
    sums = [block.features.sum(axis=0, dtype=np.float64) for block in blocks]
    np.testing.assert_array_equal(total, reference_tree(sums))
    assert count == sum(block.n_documents for block in blocks)
    assert of_ids == sum(range(n_blocks))
    found = spread.least(
        lambda block, q: np.array([block.n_documents, -q]), spread.data, ids, name="l"
    )
    assert found.tolist() == [min(b.n_documents for b in blocks), 1 - n_blocks]


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
    reads = counted_reads(stored, monkeypatch)
    spread = Tiles(stored, ThreadExecutor(2), resident=resident)
    for _ in range(3):
        spread.gather(spread.map_blocks(lambda block: 0, name="pass"))
    assert sorted(reads) == sorted(list(range(9)) * (1 if resident else 3))
    assert spread.n_passes == 3
    spread.sum_map(column_sums, name="pass")
    spread.sum_blocks(column_sums, name="pass")
    spread.least(lambda block: np.zeros(1), spread.data, name="pass")
    assert spread.n_passes == 6
    assert sorted(reads) == sorted(list(range(9)) * (1 if resident else 6))


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("where", ["memory", "resident", "streamed"])
def test_feature_blocks_have_their_own_columns_and_those_shared(where, parts, tmp_path):
    dataset = dataset_of(9, n_features=7)
    if where != "memory":
        dataset = write_dataset((dataset.block(b) for b in range(9)), tmp_path / "d")
    spread = Tiles(dataset, ThreadExecutor(2), resident=where == "resident", n_feature_blocks=parts)
    wanted = np.array([6, 0, 3])

    def seen(block, columns):
        return block.features, block.features[:, wanted].T if columns is None else columns

    for c in range(parts):
        tasks = spread.map_blocks(seen, name="seen", columns=wanted, feature_block=c)
        for b, (features, columns) in enumerate(spread.gather(tasks)):
            block = dataset.block(b).labelled()
            np.testing.assert_array_equal(
                features, block.features[:, slice(*spread.borders[c : c + 2])]
            )
            np.testing.assert_array_equal(columns, block.features[:, wanted].T)
            assert columns.dtype == np.float32


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_feature_blocks_get_their_share_and_their_sums_are_joined(parts):
    dataset, executor = dataset_of(9, n_features=7), ThreadExecutor(2)
    spread = Tiles(dataset, executor, n_feature_blocks=parts)
    told = spread.map_blocks(lambda block: block.n_documents, name="n", feature_block=parts - 1)
    scaled = spread.map_blocks(
        lambda block, scale, factor, told: (scale * block.features.sum(axis=0), factor * told),
        ByFeature(np.arange(7.0)),
        Literal(2.0),
        spread.share(told, 1, "n"),
        name="scaled",
    )
    sums, count = spread.sum(scaled, tuple, "scaled")
    blocks = [dataset.block(b).labelled() for b in range(9)]
    expected = reference_tree([np.arange(7.0) * b.features.sum(axis=0) for b in blocks])
    np.testing.assert_array_equal(sums, expected)
    assert count == 2.0 * sum(block.n_documents for block in blocks)
    n_ranges = len(tile_layout.tile_ranges(dataset, 2, parts))
    assert spread.traffic["scaled"] == (1, n_ranges * parts, n_ranges * 8 * (7 + parts))
    assert spread.traffic["shared-n"] == (1, n_ranges * (parts - 1), 8 * 9 * (parts - 1))


def test_features_are_held_where_the_borders_say():
    spread = Tiles(dataset_of(2, n_features=7), ThreadExecutor(1), n_feature_blocks=3)
    for c in range(3):
        for position, feature in enumerate(range(*spread.borders[c : c + 2])):
            assert spread.feature_block_of(feature) == c
            assert spread.positions(np.array([feature]), c).tolist() == [position]
            assert spread.positions(np.array([feature]), (c + 1) % 3).tolist() == [-1]


def test_an_error_in_a_block_is_raised():
    spread = Tiles(dataset_of(5), ThreadExecutor(2))
    with pytest.raises(ZeroDivisionError):
        spread.gather(spread.map_blocks(lambda block: 1 / 0, name="bad"))
