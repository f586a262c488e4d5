"""Combines what the tiles of a data set, or shards, have: in tasks on the workers, 16 at a time.

The driver receives at most 16 results, however many tiles there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from dranking.engine.executor import Executor, Task
from dranking.engine.tree_sum import Subtree, joined_runs, total_of

FAN_IN = 16
"""Partial sums that one task adds up: four levels of the tree."""

WIDE = 2**14
"""From this number of features on, sums are so large (megabytes for some rows) that tasks do all
additions, and the driver receives a single sum. With fewer features, a task takes longer than the
additions."""


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
