"""A data set spread over an executor, and sums over it whose bits do not depend on workers.

A *tile* is the unit of scheduling: a run of consecutive blocks. Where features are split too, a
tile holds one *feature block* of such a run. Sums over blocks combine in one binary tree whose
leaves are the blocks. A task adds up the subtrees that lie in its tile, and tasks on workers join
these sums. So a sum has the same bits for any tiles, number of workers, placement and order of
completion. Results that are computed feature by feature also have the same bits for any number of
feature blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.engine.executor import Task
from dranking.engine.tile_maps import TileMaps
from dranking.engine.tile_sums import add_runs, combine_by_tasks
from dranking.engine.tile_tasks import (
    Argument,
    BlockFunction,
    least_of,
    least_of_tile,
    sum_mapped,
    sum_of_values,
    sum_tile,
)
from dranking.engine.traffic import n_bytes_of
from dranking.engine.tree_sum import join_features, n_subtrees, tree_sum


class Tiles(TileMaps):
    """The blocks of a data set, grouped into tiles, on an executor; see `TileMaps`."""

    def sum(self, tiles: Sequence[Task], function: BlockFunction, name: str) -> Any:
        """Sum `function(value)` over all blocks in the fixed tree, and wait for the sum.

        Parameters
        ----------
        tiles
            The tasks that a map returned.
        function
            Turns the value of a block into a small array whose last axis is the features, into a
            number, or into a tuple of such arrays and numbers, whose items are summed one by one.
        """
        if self.executor.in_process:  # a task would take longer than the sum
            parts = [
                tree_sum(function(value) for tile in column for value in tile)
                for column in self._by_feature_block(self.executor.gather(tiles))
            ]
            return self._joined(parts, name)
        firsts = [start for start, _ in self._ranges for _ in range(self._width(tiles))]
        runs = [
            self.executor.submit(sum_tile, function, first, tile, name=f"sum-{name}")
            for first, tile in zip(firsts, tiles, strict=True)
        ]
        return self._add(runs, name)

    def sum_map(
        self,
        function: BlockFunction,
        *values: Argument,
        name: str,
        columns: NDArray[np.int64] | None = None,
        feature_block: int | None = None,
    ) -> Any:
        """Sum what `map_blocks` would return over all blocks, and wait for the sum.

        The results of single blocks, such as `sum` takes, are not kept: a task adds them up while
        it goes through its tile.
        """
        function, given = self._with_blocks(function, columns)
        runs = self._map(sum_mapped, function, [*given, *values], name, feature_block)
        return self._add(runs, name)

    def sum_blocks(self, function: BlockFunction, *values: Any, name: str) -> Any:
        """Sum `function(block, *values)` over all blocks in one pass, in the same tree as `sum`.

        All blocks get the same `values`, which may be tasks; pass large values as tasks.
        """
        self._count_read(self.data)
        runs = [
            self.executor.submit(
                sum_of_values, function, self._ranges[tile.query_range][0], data, *values, name=name
            )
            for tile, data in zip(self._tiles, self.data, strict=True)
        ]
        return self._add(runs, name)

    def least(self, function: BlockFunction, *values: Argument, name: str) -> NDArray[Any]:
        """The smallest numbers in what `map_values` would return, item by item of the arrays.

        The tasks run where the first feature block is. The function may also get blocks: pass
        `Tiles.data` as the first value.
        """
        tasks = self._map(least_of_tile, function, values, name, 0)
        left = combine_by_tasks(self.executor, least_of, tasks, self.dataset.n_features, name)
        found: NDArray[Any] = least_of(*self.executor.gather(left))
        return found

    def _add(self, runs: Sequence[Task], name: str) -> Any:
        """Add up the runs of tiles for each feature block, and join the feature blocks."""
        columns = self._by_feature_block(runs)
        sums = add_runs(self.executor, columns, self.dataset.n_features, name)
        return self._joined(sums, name)

    def _width(self, tiles: Sequence[Any]) -> int:
        """Number of feature blocks among items of all tiles, or of the tiles of one."""
        return len(tiles) // len(self._ranges)

    def _by_feature_block(self, tiles: Sequence[Any]) -> list[Sequence[Any]]:
        """Group items of all tiles, or of the tiles of one feature block, by feature block."""
        width = self._width(tiles)
        return [tiles[c::width] for c in range(width)]

    def _joined(self, parts: Sequence[Any], name: str) -> Any:
        """Join the sums of all feature blocks, and count a message from every tile.

        A message has a sum of this size for every subtree of the tile.
        """
        n_bytes = n_bytes_of(tuple(parts)) * sum(n_subtrees(*blocks) for blocks in self._ranges)
        self._count(f"sum-{name}", len(parts) * len(self._ranges), n_bytes)
        return join_features(parts)

    def gather(self, tiles: Sequence[Task]) -> list[Any]:
        """Wait for tasks of tiles and return the values of all blocks in order."""
        return [value for tile in self.executor.gather(tiles) for value in tile]
