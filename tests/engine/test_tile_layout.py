"""Tiles and feature blocks cover the data evenly."""

import functools

import numpy as np
import pytest

from dranking.engine.tile_layout import feature_borders, tile_ranges
from dranking.engine.tree_sum import n_subtrees
from pipelines.forecast import Sketch


@functools.cache
def billion():
    """A sketch of a billion documents, whose blocks take most of a second to list."""
    return Sketch(10**9, 1000, 10**7)


@pytest.mark.parametrize(
    ("n_features", "parts"), [(1, 1), (7, 3), (7, 7), (64, 2), (128, 2), (1000, 3), (1000, 16)]
)
def test_feature_blocks_cover_all_features_evenly(n_features, parts):
    borders = feature_borders(n_features, parts)
    assert (borders[0], borders[-1], len(borders)) == (0, n_features, parts + 1)
    widths = np.diff(borders)
    stored = n_features >= 64 * parts  # then they begin where a stored chunk of 32 begins
    assert widths.min() > 0
    assert widths.max() - widths.min() <= (64 if stored else 1)
    assert not stored or (borders[:-1] % 32 == 0).all()


@pytest.mark.parametrize("n_workers", [1, 2, 7, 100, 300, 512, 700, 1000, 4000, 10**6])
def test_tiles_of_much_data_are_few_even_and_equally_many_for_every_worker(n_workers):
    tiles, n_blocks = tile_ranges(billion(), n_workers), billion().n_blocks
    assert [start for start, _ in tiles] == [0, *(end for _, end in tiles[:-1])]
    assert tiles[-1][1] == n_blocks
    assert len(tiles) == n_blocks or len(tiles) % n_workers == 0
    assert len(tiles) <= max(512, n_workers)
    sizes = np.array([end - start for start, end in tiles])
    assert sizes.max() <= max(1.1 * sizes.mean(), np.ceil(sizes.mean()))
    assert sum(n_subtrees(*tile) for tile in tiles) <= 4 * len(tiles)


@pytest.mark.parametrize(("n_workers", "per_worker"), [(1, 8), (2, 4), (4, 2), (100, 2), (400, 1)])
def test_a_worker_has_two_tiles_or_as_many_as_hold_512_mib(n_workers, per_worker):
    """Data of 4 GB, as long as there are so many blocks."""
    data = Sketch(10**6, 1000, 10**5)
    tiles = tile_ranges(data, n_workers)
    assert len(tiles) == min(data.n_blocks, per_worker * n_workers)
