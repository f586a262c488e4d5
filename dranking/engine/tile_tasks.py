"""Arguments of the tasks of tiles, and the functions that these tasks run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import Task
from dranking.engine.tile_layout import Tile
from dranking.engine.tree_sum import Subtree, run_sum

BlockFunction = Callable[..., Any]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Literal:
    """A small argument that every block gets."""

    value: Any


@dataclass(frozen=True, eq=False)
class ByFeature:
    """An array whose last axis is the features. Every tile gets the part of the tile's features."""

    value: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Shared:
    """Results of the tiles of one feature block. All tiles of the same blocks get these results."""

    tasks: Sequence[Task]


Argument: TypeAlias = Sequence[Any] | Literal | ByFeature | Shared


def argument_of(value: Argument, tile: Tile) -> Any:
    """The part of an argument that the task of a tile gets."""
    if isinstance(value, Literal):
        return value
    if isinstance(value, ByFeature):
        return Literal(value.value[..., tile.features])
    if isinstance(value, Shared):
        return value.tasks[tile.query_range]
    return value[tile.number]


def given(value: Any) -> Any:
    """Return what the driver sent."""
    return value


def map_values(first: int, function: BlockFunction, *values: Any) -> list[Any]:
    """Run `function` on every block of a tile, with the block's item of each of the values.

    Every block gets the value of a `Literal`; `first` is the number of the tile's first block.
    """
    return list(_results(function, values))


def without_columns(function: BlockFunction, block: QueryBlock, *values: Any) -> Any:
    """Run `function(block, None, *values)`, for blocks that have all columns."""
    return function(block, None, *values)


def with_columns(
    function: BlockFunction, n_parts: int, places: Indices, block: QueryBlock, *values: Any
) -> Any:
    """Run `function(block, columns, *values)` with columns out of the first `n_parts` values.

    `places` puts the rows of these values into the order in which the caller named the columns.
    """
    columns = np.concatenate(values[:n_parts])[places]
    return function(block, columns, *values[n_parts:])


def with_columns_read(
    function: BlockFunction, n_columns: int, block: QueryBlock, *values: Any
) -> Any:
    """Run `function(block, columns, *values)` with the last `n_columns` columns of the block.

    These columns follow the columns of the tile's own feature block.
    """
    own = block.n_features - n_columns
    columns = np.ascontiguousarray(block.features[:, own:].T)
    return function(block.with_features(block.features[:, :own]), columns, *values)


def columns_of(block: QueryBlock, columns: Indices) -> NDArray[np.float32]:
    """(len(columns), n_documents) float32 values of some features of a block."""
    return np.ascontiguousarray(block.features[:, columns].T)


def sum_tile(function: BlockFunction, first: int, values: Sequence[Any]) -> list[Subtree]:
    """Sum `function(value)` over the blocks of a tile whose first block is `first`."""
    return run_sum(map(function, values), first)


def sum_of_values(
    function: BlockFunction, first: int, blocks: Iterable[QueryBlock], *values: Any
) -> list[Subtree]:
    """Sum `function(block, *values)` over the blocks of a tile whose first block is `first`."""
    return run_sum((function(block, *values) for block in blocks), first)


def sum_mapped(first: int, function: BlockFunction, *values: Any) -> list[Subtree]:
    """Sum what `map_values` returns, block by block."""
    return run_sum(_results(function, values), first)


def least_of_tile(first: int, function: BlockFunction, *values: Any) -> Any:
    """The smallest numbers in what `map_values` returns, item by item of the arrays."""
    return reduce(np.minimum, _results(function, values))


def least_of(*values: Any) -> Any:
    """The smallest numbers of several tiles."""
    return reduce(np.minimum, values)


def _results(function: BlockFunction, values: Sequence[Any]) -> Iterator[Any]:
    """The results of `map_values`, one after the other."""
    n_blocks = next(len(v) for v in values if not isinstance(v, Literal))
    columns = [repeat(v.value, n_blocks) if isinstance(v, Literal) else v for v in values]
    return (function(*row) for row in zip(*columns, strict=True))
