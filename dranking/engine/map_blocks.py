"""One pass over a data set, block by block: results come in order, and memory is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.scaling import MapBlocks
from dranking.engine.block_tasks import submit_with_blocks
from dranking.engine.executor import Executor, Task

RUN_BLOCKS = 8
"""Most blocks of a task: those of a stored segment. A task costs the driver some milliseconds."""

COMBINED_BLOCKS = 64
"""Most blocks of a task whose results are combined."""

TASKS_PER_SLOT = 4
"""Least number of tasks per slot, as long as there are so many blocks."""


def map_blocks(
    function: Callable[..., Any],
    dataset: Dataset,
    executor: Executor,
    *args: Any,
    columns: NDArray[np.intp] | None = None,
    each: Sequence[Any] | None = None,
    combine: Callable[[list[Any]], Any] | None = None,
    large: bool = False,
    name: str,
) -> Iterator[Any]:
    """Run `function(block, *args)` on every block and yield the results in block order.

    A task reads a few neighbouring blocks, one at a time, so that at most two blocks per slot are
    in memory at any time, beside the results of their tasks. Once the iterator has ended, after the
    last block, by an error or because the caller closed it, none of its tasks runs any more.

    Parameters
    ----------
    function
        Called with a `QueryBlock` and `args`.
    columns
        Features to read; None means all.
    each
        If given, `function(block, each[b], *args)` is run on block b.
    combine
        If given, a task goes through several neighbouring blocks, one after the other, and yields
        `combine(results)` of their results. The driver then receives a message for some ten blocks
        instead of one message for each block.
    large
        Whether results are so large that the driver takes the results of one task at a time.
        Otherwise the driver waits for many tasks together, since every wait takes milliseconds.
    name
        Name of the tasks on dashboards.
    """
    run = partial(_run, function, combine)
    running: deque[Task] = deque()
    try:
        for start, end in _runs(dataset, executor, combine is not None):
            if len(running) >= 2 * executor.n_slots:
                yield from chain.from_iterable(gather_oldest(executor, running, large))
            blocks, own = range(start, end), None if each is None else each[start:end]
            running.append(
                submit_with_blocks(executor, run, dataset, blocks, columns, own, *args, name=name)
            )
        while running:
            yield from chain.from_iterable(gather_oldest(executor, running, large))
    finally:  # also after an error, and when the caller closes the iterator
        executor.cancel(running)


def gather_oldest(executor: Executor, running: deque[Task], large: bool = False) -> list[Any]:
    """Wait for the tasks that were submitted first: one, or one for every second slot.

    The other tasks keep all slots busy meanwhile.
    """
    n_tasks = 1 if large else max(1, executor.n_slots // 2)
    return executor.gather([running.popleft() for _ in range(min(n_tasks, len(running)))])


def blocks_on(executor: Executor) -> MapBlocks:
    """`map_blocks` on an executor, in the form in which scalings are fitted."""

    def run(function: Callable[[QueryBlock], Any], dataset: Dataset) -> Iterator[Any]:
        return map_blocks(function, dataset, executor, name="fit scaling")

    return run


def _runs(dataset: Dataset, executor: Executor, is_combined: bool) -> list[tuple[int, int]]:
    """First and end block of each task; tasks have few blocks where there are few per slot."""
    n_blocks = dataset.n_blocks
    fair = n_blocks // (TASKS_PER_SLOT * executor.n_slots)
    most = 1 if dataset.in_memory else RUN_BLOCKS
    size = max(1, min(COMBINED_BLOCKS if is_combined else most, fair))
    return [(start, min(start + size, n_blocks)) for start in range(0, n_blocks, size)]


def _run(
    function: Callable[..., Any],
    combine: Callable[[list[Any]], Any] | None,
    blocks: Iterable[QueryBlock],
    own: Sequence[Any] | None,
    *args: Any,
) -> list[Any]:
    """Results of the blocks, or the single combined result."""
    if own is None:
        results = [function(block, *args) for block in blocks]
    else:
        results = [function(block, each, *args) for block, each in zip(blocks, own, strict=True)]
    return results if combine is None else [combine(results)]


def map_labels(
    function: Callable[..., Any], dataset: Dataset, executor: Executor, *args: Any
) -> list[Any]:
    """Run `function(block, *args)` on all blocks without reading their features."""
    columns = np.empty(0, dtype=np.intp)
    parts = map_blocks(
        function, dataset, executor, *args, columns=columns, combine=list, name="labels"
    )
    return list(chain.from_iterable(parts))
