"""Sums in one binary tree over blocks: the same additions wherever the parts are summed.

A part of the blocks is any run of neighbours. The sum of a run is a list of sums: of the largest
subtrees of the one tree that lie in the run. Tasks on the workers join the sums of 16 neighbouring
runs each, until few are left, so the driver receives at most 16 results from any number of tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.engine.executor import Executor, Task

FAN_IN = 16
"""Partial sums that one task adds up: four levels of the tree."""

WIDE = 2**14
"""From this number of features on, sums are so large (megabytes for some rows) that tasks do all
additions, and the driver receives a single sum. With fewer features, a task takes longer than the
additions."""


class Subtree(NamedTuple):
    """The sum of a whole subtree: of the leaves place * 2^height to (place + 1) * 2^height - 1."""

    height: int
    place: int
    value: Any


def tree_sum(values: Iterable[Any]) -> Any:
    """Sum arrays, or tuples of arrays, in a binary tree over their positions.

    Two neighbours are added as soon as both are there, so at most one partial sum of each height is
    in memory.
    """
    return total_of(run_sum(values, 0))


def run_sum(values: Iterable[Any], first: int) -> list[Subtree]:
    """Sum the leaves `first`, `first` + 1, ... as far as the tree adds them among themselves.

    Returns
    -------
    Sums of the largest whole subtrees, in order; at most two of each height.
    """
    return _joined(Subtree(0, first + offset, value) for offset, value in enumerate(values))


def joined_runs(runs: Iterable[Iterable[Subtree]]) -> list[Subtree]:
    """Join the sums of neighbouring runs of leaves into the sums of one run."""
    return _joined(chain.from_iterable(runs))


def total_of(run: Sequence[Subtree]) -> Any:
    """The sum of all leaves from a run of all leaves, whose subtrees are added from the last."""
    *waiting, (_, _, total) = run
    for subtree in reversed(waiting):
        total = _add(subtree.value, total)
    return total


def n_subtrees(start: int, end: int) -> int:
    """Number of sums in the run of leaves start to end (exclusive): at most two of each height."""
    n = 0
    while start < end:
        n += start % 2 + end % 2
        start, end = (start + 1) // 2, end // 2
    return n


def _joined(subtrees: Iterable[Subtree]) -> list[Subtree]:
    run: list[Subtree] = []
    for right in subtrees:
        while run and run[-1][:2] == (right.height, right.place - 1) and right.place % 2:
            value = _add(run.pop().value, right.value)
            right = Subtree(right.height + 1, right.place // 2, value)
        run.append(right)
    return run


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(_add(a, b) for a, b in zip(left, right, strict=True))
    total: NDArray[np.float64] = left + right
    return total


def join_features(parts: Sequence[Any]) -> Any:
    """Join the sums of all feature blocks: arrays along their last axis, tuples item by item.

    A number belongs to queries, not to features. The number is the same in every part, and is
    returned once.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, tuple):
        return tuple(join_features(column) for column in zip(*parts, strict=True))
    return np.concatenate(parts, axis=-1) if np.ndim(first) else first


def combine_by_tasks(
    executor: Executor,
    function: Callable[..., Any],
    tasks: Sequence[Task],
    n_features: int,
    name: str,
) -> Sequence[Task]:
    """Replace 16 neighbouring tasks by `function` of their results, until few tasks are left.

    The function is associative. `combining_tasks` says how many tasks there are and remain.
    """
    for _ in combining_tasks(len(tasks), n_features):
        tasks = [
            executor.submit(function, *tasks[i : i + FAN_IN], name=name)
            for i in range(0, len(tasks), FAN_IN)
        ]
    return tasks


def combining_tasks(n_partials: int, n_features: int) -> list[int]:
    """Number of tasks that combine partial results, for each level; the driver does the rest."""
    n_left, n_tasks = 1 if n_features >= WIDE else FAN_IN, []
    while n_partials > n_left:
        n_partials = ceil(n_partials / FAN_IN)
        n_tasks.append(n_partials)
    return n_tasks


def add_runs(
    executor: Executor, columns: Sequence[Sequence[Task]], n_features: int, name: str
) -> list[Any]:
    """Wait for the sum of each column of tasks, whose results are runs that follow each other."""
    left = [
        combine_by_tasks(executor, join_runs, column, n_features, f"sum-{name}")
        for column in columns
    ]
    runs = iter(executor.gather([task for column in left for task in column]))
    return [total_of(joined_runs([next(runs) for _ in column])) for column in left]


def join_runs(*runs: Sequence[Subtree]) -> list[Subtree]:
    """Add up the partial sums of neighbouring tiles, as far as the tree adds them."""
    return joined_runs(runs)
