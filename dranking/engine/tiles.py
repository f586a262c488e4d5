"""A data set spread over an executor, and sums over it that no worker can change.

A *tile* is an aligned group of 2^j consecutive blocks, the unit of scheduling. Sums over blocks
combine in one binary tree whose leaves are the blocks; a tile is a subtree of it, so the result is
the same in every bit for any tile size, worker count, placement or order of completion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, Task

MAX_TILE_BYTES = 256 * 2**20
TILES_PER_SLOT = 2
FAN_IN = 16  # partial sums a single task combines: four levels of the tree

BlockFunction = Callable[..., Any]


class Tiles:
    """The blocks of a data set, grouped into tiles, on an executor.

    Parameters
    ----------
    dataset
        Read by the tasks.
    executor
        Where tasks run.
    resident
        Read a block once and keep it where it was read; else every pass reads it from storage,
        the next one while this one is worked on. Data in memory is resident anyway.
    """

    def __init__(self, dataset: Dataset, executor: Executor, *, resident: bool = True) -> None:
        self.dataset = dataset
        self.executor = executor
        self._ranges = tile_ranges(dataset, executor.n_slots)
        self._data: list[Task] = []
        if resident or dataset.in_memory:
            self._data = [self._load(start, end) for start, end in self._ranges]

    def _load(self, start: int, end: int) -> Task:
        """Read a tile where it will stay: from storage, or from the blocks of this process."""
        if self.dataset.in_memory and not self.executor.in_process:
            blocks = load_blocks(self.dataset, start, end)
            return self.executor.submit(_given, blocks, name="load")
        return self.executor.submit(load_blocks, self.dataset, start, end, name="load")

    def map_blocks(
        self, function: BlockFunction, *values: Sequence[Task] | Literal, name: str
    ) -> list[Task]:
        """Run `function(block, *values)` on every block; a task per tile lists the results.

        Parameters
        ----------
        function
            Takes a `QueryBlock`, then one argument for each of `values`.
        values
            What an earlier map returned (each block gets its own item), or a `Literal`.
        name
            What the task does, for progress and dashboards.
        """
        if self._data:
            return self._map(partial(map_values, function), [self._data, *values], name)
        streamed = partial(map_streamed, function, self.dataset)
        return self._map(streamed, [self._ranges, *values], name)

    def map_values(
        self, function: BlockFunction, *values: Sequence[Task] | Literal, name: str
    ) -> list[Task]:
        """Run `function(*values)` for every block, without its data; like `map_blocks`."""
        return self._map(partial(map_values, function), list(values), name)

    def sum(self, tiles: Sequence[Task], function: BlockFunction, name: str) -> Any:
        """Sum `function(value)` over all blocks in the fixed tree and wait for it.

        Parameters
        ----------
        tiles
            What a map returned.
        function
            From the value of a block to a small array, or to a tuple of them summed one by one.
        """
        if self.executor.in_process:  # a task takes longer than such a sum
            return tree_sum(map(function, self.gather(tiles)))
        return self._combine(
            [self.executor.submit(_sum_tile, function, tile, name=f"sum-{name}") for tile in tiles],
            name,
        )

    def sum_blocks(self, function: BlockFunction, *values: Any, name: str) -> Any:
        """Sum `function(block, *values)` over all blocks, one pass; like `sum` of `map_blocks`.

        What single blocks give is not kept, so it may be large. `values` are the same for all
        blocks; pass large ones as tasks.
        """
        if self._data:
            task = partial(_sum_of_values, function)
            sources: list[Any] = self._data
        else:
            task = partial(_sum_streamed, function, self.dataset)
            sources = self._ranges
        return self._combine(
            [self.executor.submit(task, source, *values, name=name) for source in sources], name
        )

    def _combine(self, partials: list[Task], name: str) -> Any:
        while len(partials) > 1:
            partials = [
                self.executor.submit(_sum_partials, *partials[i : i + FAN_IN], name=f"sum-{name}")
                for i in range(0, len(partials), FAN_IN)
            ]
        return self.executor.gather(partials)[0]

    def gather(self, tiles: Sequence[Task]) -> list[Any]:
        """The values of all blocks, in order."""
        return [value for tile in self.executor.gather(tiles) for value in tile]

    def _map(
        self, function: BlockFunction, values: list[Sequence[Any] | Literal], name: str
    ) -> list[Task]:
        return [
            self.executor.submit(
                function,
                *(v if isinstance(v, Literal) else v[t] for v in values),
                name=name,
            )
            for t in range(len(self._ranges))
        ]


class Literal:
    """A small argument that is the same for every block."""

    def __init__(self, value: Any) -> None:
        self.value = value


def tile_ranges(dataset: Dataset, n_slots: int) -> list[tuple[int, int]]:
    """Block ranges of the tiles: as large as MAX_TILE_BYTES and TILES_PER_SLOT allow."""
    n_blocks = dataset.n_blocks
    largest = 4 * max((b.n_values for b in dataset.blocks), default=1) or 1
    size = 1
    while 2 * size * largest <= MAX_TILE_BYTES and n_blocks >= 2 * size * TILES_PER_SLOT * n_slots:
        size *= 2
    return [(start, min(start + size, n_blocks)) for start in range(0, n_blocks, size)]


def load_blocks(dataset: Dataset, start: int, end: int) -> list[QueryBlock]:
    """Read blocks start to end, labelled documents only."""
    return [dataset.block(b).labelled() for b in range(start, end)]


def _given(blocks: list[QueryBlock]) -> list[QueryBlock]:
    return blocks


def tree_sum(values: Iterable[Any]) -> Any:
    """Sum arrays, or tuples of arrays, in a binary tree over their positions.

    Neighbours are added as soon as both are there, so few partial sums are held at a time.
    """
    waiting: list[tuple[int, Any]] = []  # complete subtrees, the larger first, with their height
    for value in values:
        height = 0
        while waiting and waiting[-1][0] == height:
            value = _add(waiting.pop()[1], value)
            height += 1
        waiting.append((height, value))
    total = waiting.pop()[1]
    while waiting:
        total = _add(waiting.pop()[1], total)
    return total


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(_add(a, b) for a, b in zip(left, right, strict=True))
    total: NDArray[np.float64] = left + right
    return total


def _sum_tile(function: BlockFunction, values: list[Any]) -> Any:
    return tree_sum([function(value) for value in values])


def _sum_of_values(function: BlockFunction, blocks: list[QueryBlock], *values: Any) -> Any:
    return tree_sum(function(block, *values) for block in blocks)


def _sum_streamed(
    function: BlockFunction, dataset: Dataset, blocks: tuple[int, int], *values: Any
) -> Any:
    return tree_sum(function(block, *values) for block in read_ahead(dataset, *blocks))


def _sum_partials(*partials: Any) -> Any:
    return tree_sum(partials)


def map_values(function: BlockFunction, *values: Any) -> list[Any]:
    """Run `function` on the items of each block; a `Literal` is the same for all of them."""
    n_blocks = next(len(v) for v in values if not isinstance(v, Literal))
    columns = [[v.value] * n_blocks if isinstance(v, Literal) else v for v in values]
    return [function(*row) for row in zip(*columns, strict=True)]


def map_streamed(
    function: BlockFunction, dataset: Dataset, blocks: tuple[int, int], *values: Any
) -> list[Any]:
    """Run `function` on blocks as they are read, and on what `values` have for each."""
    columns = [repeat(v.value) if isinstance(v, Literal) else v for v in values]
    rows = zip(read_ahead(dataset, *blocks), *columns, strict=False)
    return [function(block, *row) for block, *row in rows]


def read_ahead(dataset: Dataset, start: int, end: int) -> Iterator[QueryBlock]:
    """Blocks start to end, labelled documents only, the next one read while one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="dranking-read") as reader:
        coming = reader.submit(dataset.block, start)
        for following in range(start + 1, end + 1):
            block = coming.result()
            if following < end:
                coming = reader.submit(dataset.block, following)
            yield block.labelled()
