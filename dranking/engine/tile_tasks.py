"""What a task of a tile is given, and what it runs on each block of the tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.executor import Task
from dranking.engine.tree_sum import tree_sum

BlockFunction = Callable[..., Any]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Literal:
    """A small argument that is the same for every block."""

    value: Any


class ByFeature:
    """An array whose last axis is the features: every tile is sent its own part."""

    def __init__(self, value: NDArray[Any]) -> None:
        self.value = value


class Shared:
    """What one feature block's tiles computed, for all tiles of the same blocks of queries."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks


Argument: TypeAlias = Sequence[Any] | Literal | ByFeature | Shared


def given(blocks: list[QueryBlock]) -> list[QueryBlock]:
    """Return the blocks that the driver sent."""
    return blocks


def map_values(function: BlockFunction, *values: Any) -> list[Any]:
    """Run `function` on the items of each block; a `Literal` is the same for all of them."""
    n_blocks = next(len(v) for v in values if not isinstance(v, Literal))
    columns = [repeat(v.value, n_blocks) if isinstance(v, Literal) else v for v in values]
    return [function(*row) for row in zip(*columns, strict=True)]


def without_columns(function: BlockFunction, block: QueryBlock, *values: Any) -> Any:
    """Run `function(block, None, *values)`: the block has all columns."""
    return function(block, None, *values)


def with_columns(
    function: BlockFunction, n_parts: int, places: Indices, block: QueryBlock, *values: Any
) -> Any:
    """Run `function(block, columns, *values)`, the columns being those of the first values."""
    columns = np.concatenate(values[:n_parts])[places]
    return function(block, columns, *values[n_parts:])


def with_columns_read(
    function: BlockFunction, n_columns: int, block: QueryBlock, *values: Any
) -> Any:
    """Run `function(block, columns, *values)`, the columns being read behind the block's own."""
    own = block.n_features - n_columns
    columns = np.ascontiguousarray(block.features[:, own:].T)
    return function(block.with_features(block.features[:, :own]), columns, *values)


def columns_of(block: QueryBlock, columns: Indices) -> NDArray[np.float32]:
    """(len(columns), n_documents) some features of a block."""
    return np.ascontiguousarray(block.features[:, columns].T)


def sum_tile(function: BlockFunction, values: list[Any]) -> Any:
    """Sum `function(value)` over the blocks of a tile."""
    return tree_sum([function(value) for value in values])


def sum_of_values(function: BlockFunction, blocks: list[QueryBlock], *values: Any) -> Any:
    """Sum `function(block, *values)` over the blocks of a tile."""
    return tree_sum(function(block, *values) for block in blocks)


def sum_partials(*partials: Any) -> Any:
    """Sum the partial sums of neighbouring tiles."""
    return tree_sum(partials)
