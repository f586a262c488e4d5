"""A data set spread over an executor, and sums over it whose bits do not depend on workers.

A *tile* is the unit of scheduling: an aligned group of 2^j consecutive blocks. Where features are
split too, a tile holds one *feature block* of such a group. Sums over blocks combine in one binary
tree whose leaves are the blocks. A tile is a subtree, so a sum has the same bits for any tile size,
number of workers, placement and order of completion. Results that are computed feature by feature
also have the same bits for any number of feature blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.block_source import BlockSource
from dranking.engine.block_tasks import labelled_blocks, submit_with_blocks
from dranking.engine.executor import Executor, Task
from dranking.engine.tile_sizes import feature_borders, tile_ranges
from dranking.engine.tile_tasks import (
    Argument,
    BlockFunction,
    ByFeature,
    Literal,
    Shared,
    columns_of,
    map_values,
    sum_of_values,
    sum_partials,
    sum_tile,
    with_columns,
    with_columns_read,
    without_columns,
)
from dranking.engine.traffic import Traffic, n_bytes_of
from dranking.engine.tree_sum import FAN_IN, join_features, sums_by_tasks, tree_sum


class Tile(NamedTuple):
    """A part of the data.

    Attributes
    ----------
    number
        Position of the tile in `Tiles`; the tiles of the same blocks are next to each other.
    query_range
        Number of the range of blocks.
    feature_block
        Number of the feature block.
    source
        Reads the blocks, or the columns of the feature block.
    slot
        Where the tasks of the tile run; if None, the executor chooses. Tiles of feature blocks have
        a slot, since Dask would take a worker that holds columns of another tile to be as good as
        the worker that holds the tile.
    """

    number: int
    query_range: int
    feature_block: int
    source: BlockSource
    slot: int | None


class Tiles:
    """The blocks of a data set, grouped into tiles, on an executor.

    Parameters
    ----------
    dataset
        The data set, whose blocks the tasks read.
    executor
        Runs the tasks.
    resident
        Whether to read a block once and keep it where it was read. Otherwise every pass reads the
        block from storage, while the task works on the block before. Data in memory is always
        resident.
    n_feature_blocks
        Number of feature blocks into which dense features are split, at most `n_features`.

    Attributes
    ----------
    resident
        Whether blocks stay where they were read.
    borders
        (n_feature_blocks + 1,) first feature of each feature block, then the number of features.
    traffic
        Messages between tiles and the driver so far, by the name of the task or sum.
    bytes_read
        Decoded bytes read from storage so far.
    """

    def __init__(
        self,
        dataset: Dataset,
        executor: Executor,
        *,
        resident: bool = True,
        n_feature_blocks: int = 1,
    ) -> None:
        self.dataset = dataset
        self.executor = executor
        self.borders = feature_borders(dataset.n_features, n_feature_blocks)
        self.traffic: dict[str, Traffic] = {}
        self.bytes_read = 0
        self._ranges = tile_ranges(dataset, executor.n_slots, n_feature_blocks)
        places = product(range(len(self._ranges)), range(n_feature_blocks))
        self._tiles = [self._tile(number, *place) for number, place in enumerate(places)]
        self._data: list[Any] = [tile.source for tile in self._tiles]
        self.resident = resident or dataset.in_memory
        if self.resident:
            self._data = [self._load(tile) for tile in self._tiles]

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return len(self._tiles)

    @property
    def n_feature_blocks(self) -> int:
        """Number of parts into which the features are split."""
        return len(self.borders) - 1

    @property
    def moved(self) -> dict[str, int]:
        """Bytes read from storage and bytes sent so far, as facts for progress reports."""
        sent = sum(each.n_bytes for each in self.traffic.values())
        return {"bytes_read": self.bytes_read, "bytes_sent": sent}

    def _tile(self, number: int, query_range: int, feature_block: int) -> Tile:
        columns, slot = None, None
        if self.n_feature_blocks > 1:
            columns = np.arange(*self.borders[feature_block : feature_block + 2])
            n_tiles = len(self._ranges) * self.n_feature_blocks
            slot = number * self.executor.n_slots // n_tiles  # same queries, same slot
        source = BlockSource(self.dataset, *self._ranges[query_range], columns)
        return Tile(number, query_range, feature_block, source, slot)

    def _load(self, tile: Tile) -> Task:
        """Start the task that holds the blocks of a tile."""
        source = tile.source
        self._count_read([source])
        return submit_with_blocks(
            self.executor,
            labelled_blocks,
            self.dataset,
            range(source.start, source.end),
            source.columns,
            name="load",
            slot=tile.slot,
        )

    def feature_block_of(self, features: Any) -> Any:
        """The feature block that holds a feature, or (n,) feature blocks of n features."""
        return np.searchsorted(self.borders, features, side="right") - 1

    def positions(self, features: NDArray[np.int64], feature_block: int) -> NDArray[np.int64]:
        """(len(features),) columns within a feature block; -1 for features of other blocks."""
        here = self.feature_block_of(features) == feature_block
        return np.where(here, features - self.borders[feature_block], -1)

    def map_blocks(
        self,
        function: BlockFunction,
        *values: Argument,
        name: str,
        columns: NDArray[np.int64] | None = None,
        feature_block: int | None = None,
    ) -> list[Task]:
        """Run `function(block, *values)` on every block.

        Parameters
        ----------
        function
            Called with a `QueryBlock`, then one argument for each of `values`.
        values
            Each value is the result of an earlier map (every block gets its own item), a `Literal`,
            a `ByFeature` or a `Shared`.
        name
            Name of the tasks in `traffic` and on dashboards.
        columns
            Features that all tiles of a block need. If given, `function` gets the values of these
            features behind the block, (len(columns), n_documents) float32, or None where every
            tile has all features.
        feature_block
            Run on the tiles of this feature block only; None means all tiles.

        Returns
        -------
        A task for every tile, whose result lists the results of the tile's blocks.
        """
        if columns is None:
            return self._map(function, [self._data, *values], name, feature_block)
        data: list[Any] = self._data
        parts: list[Shared] = []
        if self.n_feature_blocks == 1:
            function = partial(without_columns, function)
        elif self.resident:
            parts, order = self._share_columns(columns)
            function = partial(with_columns, function, len(parts), np.argsort(order))
        else:
            data = [tile.source.with_columns(columns) for tile in self._tiles]
            function = partial(with_columns_read, function, len(columns))
        return self._map(function, [data, *parts, *values], name, feature_block)

    def map_values(
        self,
        function: BlockFunction,
        *values: Argument,
        name: str,
        feature_block: int | None = None,
    ) -> list[Task]:
        """Like `map_blocks`, but run `function(*values)`, without the data of the block."""
        return self._map(function, values, name, feature_block)

    def share(self, tasks: Sequence[Task], numbers_per_query: int, name: str) -> Shared:
        """Send results of the tiles of one feature block to all tiles of the same blocks.

        Parameters
        ----------
        tasks
            The tasks that a map over one feature block returned.
        numbers_per_query
            Number of float64 values in the results, for each query.
        name
            `traffic` counts the messages under "shared-" and this name (sums: "sum-" and a name).
        """
        self._count_shared(f"shared-{name}", 8 * numbers_per_query * self.dataset.n_queries)
        return Shared(tasks)

    def _share_columns(self, columns: NDArray[np.int64]) -> tuple[list[Shared], NDArray[np.intp]]:
        """Collect features from the tiles that hold them.

        Returns
        -------
        parts
            The values of the features, one item for every feature block that holds some features.
        order
            (len(columns),) positions in `columns` of the features in all `parts`, one part after
            another.
        """
        parts, order = [], []
        owners = self.feature_block_of(columns)
        for owner in np.unique(owners).tolist():
            order.append(np.flatnonzero(owners == owner))
            wanted = Literal(columns[order[-1]] - self.borders[owner])
            tasks = self.map_blocks(columns_of, wanted, name="columns", feature_block=owner)
            parts.append(Shared(tasks))
        n_labelled = self.dataset.n_documents - self.dataset.n_unlabelled
        self._count_shared("shared-columns", 4 * len(columns) * n_labelled)
        return parts, np.concatenate(order)

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
        return self._combine(
            [self.executor.submit(sum_tile, function, tile, name=f"sum-{name}") for tile in tiles],
            name,
        )

    def sum_blocks(self, function: BlockFunction, *values: Any, name: str) -> Any:
        """Sum `function(block, *values)` over all blocks in one pass, in the same tree as `sum`.

        The results of single blocks are not kept, and so may be large. All blocks get the same
        `values`; pass large values as tasks.
        """
        self._count_read(self._data)
        tasks = [
            self.executor.submit(sum_of_values, function, data, *values, name=name)
            for data in self._data
        ]
        return self._combine(tasks, name)

    def _combine(self, partials: list[Task], name: str) -> Any:
        """Sum the partial sums of tiles for each feature block, and join the feature blocks.

        The driver does the last additions, unless the sums are large.
        """
        columns = self._by_feature_block(partials)
        for _ in sums_by_tasks(len(self._ranges), self.dataset.n_features):
            columns = [self._combine_some(column, name) for column in columns]
        width = len(columns[0])
        parts = self.executor.gather([task for column in columns for task in column])
        sums = [tree_sum(parts[i : i + width]) for i in range(0, len(parts), width)]
        return self._joined(sums, name)

    def _by_feature_block(self, tiles: Sequence[Any]) -> list[Sequence[Any]]:
        """Group items of all tiles, or of the tiles of one feature block, by feature block."""
        width = len(tiles) // len(self._ranges)
        return [tiles[c::width] for c in range(width)]

    def _joined(self, parts: Sequence[Any], name: str) -> Any:
        """Join the sums of all feature blocks, and count a message of this size from every tile."""
        n_ranges = len(self._ranges)
        self._count(f"sum-{name}", len(parts) * n_ranges, n_bytes_of(tuple(parts)) * n_ranges)
        return join_features(parts)

    def _combine_some(self, partials: Sequence[Task], name: str) -> Sequence[Task]:
        return [
            self.executor.submit(sum_partials, *partials[i : i + FAN_IN], name=f"sum-{name}")
            for i in range(0, len(partials), FAN_IN)
        ]

    def gather(self, tiles: Sequence[Task]) -> list[Any]:
        """Wait for tasks of tiles and return the values of all blocks in order."""
        return [value for tile in self.executor.gather(tiles) for value in tile]

    def _map(
        self,
        function: BlockFunction,
        values: Sequence[Argument],
        name: str,
        feature_block: int | None,
    ) -> list[Task]:
        tiles = [t for t in self._tiles if feature_block in (None, t.feature_block)]
        arguments = [[self._argument(value, tile) for value in values] for tile in tiles]
        sent = sum(n_bytes_of(v.value) for row in arguments for v in row if isinstance(v, Literal))
        self._count(name, len(tiles), sent)
        self._count_read([value for row in arguments for value in row])
        return [
            self.executor.submit(map_values, function, *row, name=name, slot=tile.slot)
            for tile, row in zip(tiles, arguments, strict=True)
        ]

    def _argument(self, value: Argument, tile: Tile) -> Any:
        if isinstance(value, Literal):
            return value
        if isinstance(value, ByFeature):
            begin, end = self.borders[tile.feature_block : tile.feature_block + 2]
            return Literal(value.value[..., begin:end])
        if isinstance(value, Shared):
            return value.tasks[tile.query_range]
        return value[tile.number]

    def _count_read(self, given: Sequence[Any]) -> None:
        """Count the bytes that tasks with these arguments read from storage."""
        if not self.dataset.in_memory:
            self.bytes_read += sum(v.n_bytes for v in given if isinstance(v, BlockSource))

    def _count_shared(self, name: str, n_bytes: int) -> None:
        """Count bytes that one feature block sends to each of the others."""
        n_others = self.n_feature_blocks - 1
        self._count(name, n_others * len(self._ranges), n_others * n_bytes)

    def _count(self, name: str, n_messages: int, n_bytes: int) -> None:
        self.traffic[name] = self.traffic.get(name, Traffic()).plus(n_messages, n_bytes)
