"""The tiles of a data set: ranges of blocks, and borders of feature blocks."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.data.store.segment_layout import FEATURES_PER_CHUNK
from dranking.engine.block_source import BlockSource

MAX_TILE_BYTES = 512 * 2**20
"""Up to this mean size in bytes, more data makes tiles larger; beyond it, more numerous."""

TILES_PER_SLOT = 2
"""Least number of tiles per slot, so that workers that join later find tiles to take, and the tiles
of a lost worker go to several others."""

MANY_TILES = 512
"""With more tiles, Dask takes about a second for an operation on all of them. Tiles are then as
large as the share of a slot allows."""

UNEVEN = 1.1
"""Largest ratio of the number of blocks of a tile to an even share."""


class Tile(NamedTuple):
    """A part of the data.

    Attributes
    ----------
    number
        Position of the tile among all tiles; the tiles of the same blocks are next to each other.
    query_range
        Number of the range of blocks.
    feature_block, features
        Number of the feature block, and its features.
    source
        Reads the blocks, or the columns of the feature block.
    slot
        The worker that runs the tasks of the tile; if None, the executor chooses. Tiles of feature
        blocks have a slot, since Dask would take a worker that holds columns of another tile to be
        as good as the worker that holds the tile.
    """

    number: int
    query_range: int
    feature_block: int
    features: slice
    source: BlockSource
    slot: int | None


class TileLayout:
    """A data set cut into tiles: ranges of blocks times feature blocks.

    Parameters
    ----------
    dataset
        The data set.
    n_slots
        Number of tasks that can run at the same time.
    n_feature_blocks
        Number of feature blocks into which dense features are split, at most `n_features`.

    Attributes
    ----------
    dataset, n_feature_blocks
        The parameters.
    n_features
        Number of features of the data set.
    borders
        (n_feature_blocks + 1,) first feature of each feature block, then the number of features.
    """

    def __init__(self, dataset: Dataset, n_slots: int, n_feature_blocks: int = 1) -> None:
        self.dataset, self.n_features = dataset, dataset.n_features
        self.n_feature_blocks = n_feature_blocks
        self.borders = feature_borders(dataset.n_features, n_feature_blocks)
        self._ranges = tile_ranges(dataset, n_slots, n_feature_blocks)
        places = product(range(len(self._ranges)), range(n_feature_blocks))
        self._tiles = [self._tile(number, *place, n_slots) for number, place in enumerate(places)]

    def _tile(self, number: int, query_range: int, feature_block: int, n_slots: int) -> Tile:
        begin, end = self.borders[feature_block : feature_block + 2]
        columns, slot = None, None
        if self.n_feature_blocks > 1:
            columns = np.arange(begin, end)
            n_tiles = len(self._ranges) * self.n_feature_blocks
            slot = number * n_slots // n_tiles  # same queries, same slot
        source = BlockSource(self.dataset, *self._ranges[query_range], columns)
        return Tile(number, query_range, feature_block, slice(begin, end), source, slot)

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return len(self._tiles)

    @property
    def first_blocks(self) -> list[int]:
        """The first block of each range of blocks."""
        return [start for start, _ in self._ranges]

    def feature_block_of(self, features: Any) -> Any:
        """The feature block that holds a feature, or (n,) feature blocks of n features."""
        return np.searchsorted(self.borders, features, side="right") - 1

    def positions(self, features: NDArray[np.int64], feature_block: int) -> NDArray[np.int64]:
        """(len(features),) columns within a feature block; -1 for features of other blocks."""
        here = self.feature_block_of(features) == feature_block
        return np.where(here, features - self.borders[feature_block], -1)


def tile_ranges(dataset: Dataset, n_slots: int, n_feature_blocks: int = 1) -> list[tuple[int, int]]:
    """Ranges [start, end) of the blocks of each tile.

    There are equally many tiles for every slot: at least `TILES_PER_SLOT`, and as many as keep
    tiles below `MAX_TILE_BYTES`, unless there would be more than `MANY_TILES` tiles; then only as
    many as that, and one tile for every slot if there are more slots. All tiles have the same
    number of blocks, within a tenth. Their borders are multiples of the largest 2^j with which this
    is possible, so that few sums of subtrees are sent for each tile (`tree_sum.run_sum`).
    """
    n_blocks = dataset.n_blocks
    n_bytes = 4 * sum(block.n_values for block in dataset.blocks)
    per_slot = max(TILES_PER_SLOT, math.ceil(n_bytes / (MAX_TILE_BYTES * n_slots)))
    per_slot = min(per_slot, max(1, MANY_TILES // n_slots))
    n_ranges = min(n_blocks, math.ceil(per_slot * n_slots / n_feature_blocks))
    most = max(UNEVEN * n_blocks / n_ranges, math.ceil(n_blocks / n_ranges))
    for height in range(n_blocks.bit_length(), -1, -1):
        borders = _even_borders(n_blocks, n_ranges, 2**height)
        largest = max(end - start for start, end in pairwise(borders))
        if len(borders) > n_ranges and largest <= most:
            break
    return list(pairwise(borders))


def _even_borders(n_blocks: int, n_ranges: int, unit: int) -> list[int]:
    """Borders of ranges of blocks as equal as multiples of `unit` can be; fewer if some vanish."""
    n_units = math.ceil(n_blocks / unit)
    multiples = {min(unit * (i * n_units // n_ranges), n_blocks) for i in range(n_ranges + 1)}
    return sorted(multiples)


def feature_borders(n_features: int, n_feature_blocks: int) -> NDArray[np.intp]:
    """(n_feature_blocks + 1,) first feature of each feature block, then the number of features.

    Feature blocks are as equal in width as possible. Each feature block begins where a stored chunk
    of features begins, if feature blocks have at least two chunks.
    """
    unit = FEATURES_PER_CHUNK if n_features >= 2 * FEATURES_PER_CHUNK * n_feature_blocks else 1
    even = np.linspace(0, n_features / unit, n_feature_blocks + 1)
    borders = unit * np.round(even).astype(np.intp)
    borders[-1] = n_features
    return borders
