"""A data set spread over an executor, and sums over it whose bits do not depend on workers.

A *tile* is the unit of scheduling: a run of consecutive blocks. Where features are split too, a
tile holds one *feature block* of such a run. Sums over blocks combine in one binary tree whose
leaves are the blocks. A task adds up the subtrees that lie in its tile, and tasks on workers join
these sums. So a sum has the same bits for any tiles, number of workers, placement and order of
completion. Results that are computed feature by feature also have the same bits for any number of
feature blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.block_source import BlockSource
from dranking.engine.executor import Executor, Task, n_bytes_of
from dranking.engine.tile_layout import TileLayout
from dranking.engine.tile_tasks import (
    Argument,
    BlockFunction,
    Literal,
    Shared,
    argument_of,
    columns_of,
    least_of,
    least_of_tile,
    map_values,
    sum_mapped,
    sum_of_values,
    sum_tile,
    with_columns,
    with_columns_read,
    without_columns,
)
from dranking.engine.tree_sum import (
    add_runs,
    combine_by_tasks,
    join_features,
    n_subtrees,
    tree_sum,
)


class Traffic(NamedTuple):
    """Messages sent for one purpose. Tasks that share the memory of this process count too.

    Attributes
    ----------
    n_operations
        Maps, broadcasts or sums over all tiles.
    n_messages
        Messages from the driver to a tile or back, or from one tile to another.
    n_bytes
        Bytes of the arrays and numbers in the messages.
    """

    n_operations: int = 0
    n_messages: int = 0
    n_bytes: int = 0

    def plus(self, n_messages: int, n_bytes: int) -> Traffic:
        """These counts and one more operation."""
        return Traffic(self.n_operations + 1, self.n_messages + n_messages, self.n_bytes + n_bytes)


class Tiles(TileLayout):
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
    traffic
        Messages between tiles and the driver so far, by the name of the task or sum.
    bytes_read
        Decoded bytes read from storage so far.
    n_passes
        Passes over the data so far, whether blocks were read from storage or from memory.
    """

    def __init__(
        self,
        dataset: Dataset,
        executor: Executor,
        *,
        resident: bool = True,
        n_feature_blocks: int = 1,
    ) -> None:
        super().__init__(dataset, executor.n_slots, n_feature_blocks)
        self.executor = executor
        self.traffic: dict[str, Traffic] = {}
        self.bytes_read = 0
        self.n_passes = 0
        self.data: list[Any] = [tile.source for tile in self._tiles]
        self.resident = resident or dataset.in_memory
        if self.resident:
            self._count_read(self.data)
            self.data = [tile.source.load(executor, tile.slot) for tile in self._tiles]

    @property
    def moved(self) -> dict[str, int]:
        """Bytes read from storage and bytes sent so far, as facts for progress reports."""
        sent = sum(each.n_bytes for each in self.traffic.values())
        return {"bytes_read": self.bytes_read, "bytes_sent": sent}

    def map_blocks(
        self,
        function: BlockFunction,
        *values: Argument,
        name: str,
        columns: NDArray[np.int64] | None = None,
        feature_block: int | None = None,
        is_pass: bool = True,
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
        is_pass
            Whether the map counts in `n_passes`: not for a sample of the documents, and not for
            what one feature block tells the others within a pass.

        Returns
        -------
        A task for every tile, whose result lists the results of the tile's blocks.
        """
        self.n_passes += is_pass
        function, given = self._with_blocks(function, columns)
        return self._map(map_values, function, [*given, *values], name, feature_block)

    def map_values(
        self,
        function: BlockFunction,
        *values: Argument,
        name: str,
        feature_block: int | None = None,
    ) -> list[Task]:
        """Like `map_blocks`, but run `function(*values)`, without the data of the block."""
        return self._map(map_values, function, values, name, feature_block)

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
        n_parts = len(tiles) // len(self._ranges)
        firsts = [start for start, _ in self._ranges for _ in range(n_parts)]
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
        is_pass: bool = True,
    ) -> Any:
        """Sum what `map_blocks` would return over all blocks, and wait for the sum.

        The results of single blocks, such as `sum` takes, are not kept: a task adds them up while
        it goes through its tile.
        """
        self.n_passes += is_pass
        function, given = self._with_blocks(function, columns)
        runs = self._map(sum_mapped, function, [*given, *values], name, feature_block)
        return self._add(runs, name)

    def sum_blocks(self, function: BlockFunction, *values: Any, name: str) -> Any:
        """Sum `function(block, *values)` over all blocks in one pass, in the same tree as `sum`.

        All blocks get the same `values`, which may be tasks; pass large values as tasks.
        """
        self.n_passes += 1
        self._count_read(self.data)
        runs = [
            self.executor.submit(
                sum_of_values, function, tile.source.start, data, *values, name=name
            )
            for tile, data in zip(self._tiles, self.data, strict=True)
        ]
        return self._add(runs, name)

    def least(self, function: BlockFunction, *values: Argument, name: str) -> NDArray[Any]:
        """The smallest numbers in what `map_values` would return, item by item of the arrays.

        The tasks run where the first feature block is. The function may also get blocks: pass
        `Tiles.data` as the first value.
        """
        self.n_passes += any(value is self.data for value in values)
        tasks = self._map(least_of_tile, function, values, name, 0)
        left = combine_by_tasks(self.executor, least_of, tasks, self.n_features, name)
        found: NDArray[Any] = least_of(*self.executor.gather(left))
        return found

    def _add(self, runs: Sequence[Task], name: str) -> Any:
        """Add up the runs of tiles for each feature block, and join the feature blocks."""
        columns = self._by_feature_block(runs)
        sums = add_runs(self.executor, columns, self.n_features, name)
        return self._joined(sums, name)

    def _by_feature_block(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """Group items of all tiles, or of the tiles of one feature block, by feature block."""
        width = len(items) // len(self._ranges)
        return [items[c::width] for c in range(width)]

    def gather(self, tiles: Sequence[Task]) -> list[Any]:
        """Wait for tasks of tiles and return the values of all blocks in order."""
        return [value for tile in self.executor.gather(tiles) for value in tile]

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
            tasks = self.map_blocks(
                columns_of, wanted, name="columns", feature_block=owner, is_pass=False
            )
            parts.append(Shared(tasks))
        n_labelled = self.dataset.n_documents - self.dataset.n_unlabelled
        self._count_shared("shared-columns", 4 * len(columns) * n_labelled)
        return parts, np.concatenate(order)

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
        arguments = [[argument_of(value, tile) for value in values] for tile in tiles]
        sent = sum(n_bytes_of(v.value) for row in arguments for v in row if isinstance(v, Literal))
        self._count(name, len(tiles), sent)
        self._count_read([value for row in arguments for value in row])
        return [
            self.executor.submit(run, tile.source.start, function, *row, name=name, slot=tile.slot)
            for tile, row in zip(tiles, arguments, strict=True)
        ]

    def _joined(self, parts: Sequence[Any], name: str) -> Any:
        """Join the sums of all feature blocks, and count a message from every tile.

        A message has a sum of this size for every subtree of the tile.
        """
        n_bytes = n_bytes_of(tuple(parts)) * sum(n_subtrees(*blocks) for blocks in self._ranges)
        self._count(f"sum-{name}", len(parts) * len(self._ranges), n_bytes)
        return join_features(parts)

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
