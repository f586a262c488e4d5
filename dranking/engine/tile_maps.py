"""A data set cut into tiles, and functions that run on every block of every tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    with_columns,
    with_columns_read,
    without_columns,
)
from dranking.engine.traffic import Traffic, n_bytes_of


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


class TileMaps:
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
    data
        What holds the blocks of each tile: a task, or a source that reads the blocks.
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
        self.data: list[Any] = [tile.source for tile in self._tiles]
        self.resident = resident or dataset.in_memory
        if self.resident:
            self.data = [self._load(tile) for tile in self._tiles]

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
        function, given = self._with_blocks(function, columns)
        return self._map(map_values, function, [*given, *values], name, feature_block)

    def _with_blocks(
        self, function: BlockFunction, columns: NDArray[np.int64] | None
    ) -> tuple[BlockFunction, list[Argument]]:
        """The function in the form for `map_values`, and its arguments before its values."""
        if columns is None:
            return function, [self.data]
        if self.n_feature_blocks == 1:
            return partial(without_columns, function), [self.data]
        if self.resident:
            parts, order = self._share_columns(columns)
            places = np.argsort(order)
            return partial(with_columns, function, len(parts), places), [self.data, *parts]
        data = [tile.source.with_columns(columns) for tile in self._tiles]
        return partial(with_columns_read, function, len(columns)), [data]

    def map_values(
        self,
        function: BlockFunction,
        *values: Argument,
        name: str,
        feature_block: int | None = None,
    ) -> list[Task]:
        """Like `map_blocks`, but run `function(*values)`, without the data of the block."""
        return self._map(map_values, function, values, name, feature_block)

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

    def _map(
        self,
        run: Callable[..., Any],
        function: BlockFunction,
        values: Sequence[Argument],
        name: str,
        feature_block: int | None,
    ) -> list[Task]:
        """Start `run`, such as `map_values`, on every tile."""
        tiles = [t for t in self._tiles if feature_block in (None, t.feature_block)]
        arguments = [[self._argument(value, tile) for value in values] for tile in tiles]
        sent = sum(n_bytes_of(v.value) for row in arguments for v in row if isinstance(v, Literal))
        self._count(name, len(tiles), sent)
        self._count_read([value for row in arguments for value in row])
        return [
            self.executor.submit(
                run, self._ranges[tile.query_range][0], function, *row, name=name, slot=tile.slot
            )
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
