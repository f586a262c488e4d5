"""Sums in one binary tree over blocks: the same additions wherever the parts are summed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAN_IN = 16
"""Partial sums that one task adds up: four levels of the tree."""

WIDE = 2**14
"""From this number of features on, sums are so large (megabytes for some rows) that tasks do all
additions, and the driver receives a single sum. With fewer features, a task takes longer than the
additions."""


def tree_sum(values: Iterable[Any]) -> Any:
    """Sum arrays, or tuples of arrays, in a binary tree over their positions.

    Two neighbours are added as soon as both are there, so at most one partial sum of each height is
    in memory.
    """
    waiting: list[tuple[int, Any]] = []  # (height, sum) of complete subtrees, largest first
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


def sums_by_tasks(n_partials: int, n_features: int) -> list[int]:
    """Number of tasks that add up partial sums, for each level; the driver adds up the rest."""
    n_left, n_tasks = 1 if n_features >= WIDE else FAN_IN, []
    while n_partials > n_left:
        n_partials = ceil(n_partials / FAN_IN)
        n_tasks.append(n_partials)
    return n_tasks
