"""One pass over a data set, block by block: results come in order, and memory is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.scaling import MapBlocks
from dranking.engine.executor import Executor, Task


def map_blocks(
    function: Callable[..., Any],
    dataset: Dataset,
    executor: Executor,
    *args: Any,
    columns: NDArray[np.intp] | None = None,
    name: str,
) -> Iterator[Any]:
    """Run `function(block, *args)` on every block and yield the results in block order.

    At most two blocks per slot are in memory at any time. Once the iterator has ended, after the
    last block, by an error or because the caller closed it, none of its tasks runs any more.

    Parameters
    ----------
    function
        Called with a `QueryBlock` and `args`.
    columns
        Features to read; None means all.
    name
        Name of the tasks on dashboards.
    """
    running: deque[Task] = deque()
    try:
        for index in range(dataset.n_blocks):
            if len(running) >= 2 * executor.n_slots:
                yield executor.gather([running.popleft()])[0]
            if dataset.in_memory:
                block = dataset.block(index, columns)
                running.append(executor.submit(function, block, *args, name=name))
            else:
                arguments = (function, dataset, index, columns, *args)
                running.append(executor.submit(_read_and_run, *arguments, name=name))
        while running:
            yield executor.gather([running.popleft()])[0]
    finally:  # also after an error, and when the caller closes the iterator
        executor.cancel(running)


def blocks_on(executor: Executor) -> MapBlocks:
    """`map_blocks` on an executor, in the form in which scalings are fitted."""

    def run(function: Callable[[QueryBlock], Any], dataset: Dataset) -> Iterator[Any]:
        return map_blocks(function, dataset, executor, name="fit scaling")

    return run


def _read_and_run(
    function: Callable[..., Any],
    dataset: Dataset,
    index: int,
    columns: NDArray[np.intp] | None,
    *args: Any,
) -> Any:
    block: QueryBlock = dataset.block(index, columns)
    return function(block, *args)
