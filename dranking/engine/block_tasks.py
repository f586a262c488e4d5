"""Tasks that get blocks of a data set: read by the task, sent by the driver, or left in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset, View
from dranking.engine.executor import Executor, Task
from dranking.engine.placed_dataset import HeldBlocks, placed

Columns = NDArray[np.intp]


def submit_with_blocks(
    executor: Executor,
    function: Callable[..., Any],
    dataset: Dataset,
    indices: Sequence[int],
    columns: Columns | None,
    *args: Any,
    name: str,
    slot: int | None = None,
) -> Task:
    """Start `function(blocks, *args)`, where `blocks` iterates over some blocks of a data set.

    The task reads a block from storage when the iteration comes to it. Blocks in the memory of the
    driver are arguments of their task, so that the driver can send them again when a worker is
    lost; blocks on the workers of a cluster are results of other tasks.

    Parameters
    ----------
    indices
        Positions of the blocks, in order.
    columns
        Features to read; None means all.
    args
        Further arguments; futures are replaced by their results.
    """
    dataset = dataset.for_blocks(indices)
    root = placed(dataset)
    if root is not None:
        view = dataset.over(None) if isinstance(dataset, View) else None
        held = [root.tasks[index] for index in indices]
        arguments = (_with_held, function, view, indices, columns, *args, *held)
    elif dataset.in_memory and not executor.in_process:
        sent = list(_read(dataset, indices, columns))
        arguments = (function, sent, *args)
    else:
        arguments = (_with_read, function, dataset, indices, columns, *args)
    return executor.submit(*arguments, name=name, slot=slot)


def _with_held(
    function: Callable[..., Any],
    view: View | None,
    indices: Sequence[int],
    columns: Columns | None,
    *given: Any,
) -> Any:
    n_args = len(given) - len(indices)
    args, blocks = given[:n_args], given[n_args:]
    held = HeldBlocks(dict(zip(indices, blocks, strict=True)))
    dataset = held if view is None else view.over(held)
    return _with_read(function, dataset, indices, columns, *args)


def _with_read(
    function: Callable[..., Any],
    dataset: Dataset,
    indices: Sequence[int],
    columns: Columns | None,
    *args: Any,
) -> Any:
    return function(_read(dataset, indices, columns), *args)


def labelled_blocks(blocks: Iterable[QueryBlock]) -> list[QueryBlock]:
    """The labelled documents of blocks."""
    return [block.labelled() for block in blocks]


def _read(
    dataset: Dataset, indices: Sequence[int], columns: Columns | None
) -> Iterator[QueryBlock]:
    if isinstance(indices, range):
        return dataset.read_blocks(indices.start, indices.stop, columns)
    return (dataset.block(index, columns) for index in indices)
