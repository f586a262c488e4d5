"""Sums in one binary tree over blocks, whatever was summed where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAN_IN = 16
"""Partial sums that a single task combines: four levels of the tree."""

WIDE = 2**14
"""Features from which on sums are so large (megabytes for some rows of them) that the driver takes
one alone; a task takes longer than to add smaller ones."""


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


def join_features(parts: Sequence[Any]) -> Any:
    """What the feature blocks of a sum give as one: arrays side by side along their last axis.

    Tuples are joined one by one. Numbers are of queries alone, and so the same in every part.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, tuple):
        return tuple(join_features(column) for column in zip(*parts, strict=True))
    return np.concatenate(parts, axis=-1) if np.ndim(first) else first


def sums_by_tasks(n_partials: int, n_features: int) -> list[int]:
    """How many tasks combine partial sums, level by level; the driver adds up what they leave."""
    n_left, n_tasks = 1 if n_features >= WIDE else FAN_IN, []
    while n_partials > n_left:
        n_partials = ceil(n_partials / FAN_IN)
        n_tasks.append(n_partials)
    return n_tasks
