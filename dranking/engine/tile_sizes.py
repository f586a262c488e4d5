"""How a data set is cut into tiles: ranges of blocks, and borders of feature blocks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.data.store.segment_layout import FEATURES_PER_CHUNK

MAX_TILE_BYTES = 512 * 2**20
TILES_PER_SLOT = 2
"""Least number of tiles per slot, so that workers that join later find tiles to take."""

UNEVEN = 1.1
"""Largest ratio of the number of blocks of the busiest slot to an even share."""


def tile_ranges(dataset: Dataset, n_slots: int, n_feature_blocks: int = 1) -> list[tuple[int, int]]:
    """Ranges [start, end) of the blocks of each tile.

    Tiles are 2^j blocks with the largest j that keeps tiles below `MAX_TILE_BYTES`, leaves
    `TILES_PER_SLOT` tiles to each slot, and spreads the blocks evenly (see `UNEVEN`). Tiles are
    large because every operation costs a task for every tile.
    """
    n_blocks = dataset.n_blocks
    largest = 4 * max((b.n_values for b in dataset.blocks), default=1) // n_feature_blocks or 1
    share = n_blocks * n_feature_blocks / n_slots
    most = max(UNEVEN * share, _busiest(n_blocks, 1, n_slots, n_feature_blocks))
    size = 1
    for larger in (2**power for power in range(1, n_blocks.bit_length())):
        n_tiles = math.ceil(n_blocks / larger) * n_feature_blocks
        if larger * largest > MAX_TILE_BYTES or n_tiles < TILES_PER_SLOT * n_slots:
            break
        if _busiest(n_blocks, larger, n_slots, n_feature_blocks) <= most:
            size = larger
    return [(start, min(start + size, n_blocks)) for start in range(0, n_blocks, size)]


def _busiest(n_blocks: int, size: int, n_slots: int, n_feature_blocks: int) -> int:
    """Blocks of the busiest slot if tiles have `size` blocks, summed over feature blocks."""
    n_full, rest = divmod(n_blocks, size)
    n_full *= n_feature_blocks
    return math.ceil(n_full / n_slots) * size + (rest if n_full % n_slots == 0 else 0)


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
