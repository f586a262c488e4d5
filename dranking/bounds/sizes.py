"""The most that a list can hold whose documents are limited, in all and of each grade."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dranking.metrics.conventions import get_convention


def most_pairs(m: int, sizes: Sequence[int]) -> float:
    """Most pairs of different grade among m documents, with (n_levels,) caps of each grade."""
    # Equal sizes make most pairs: fill the levels in turn.
    taken = [0] * len(sizes)
    for _ in range(min(m, sum(sizes))):
        level = min((j for j, size in enumerate(sizes) if taken[j] < size), key=lambda j: taken[j])
        taken[level] += 1
    total = sum(taken)
    return (total * total - sum(n * n for n in taken)) / 2


def most_margins(m: int, sizes: Sequence[int]) -> float:
    """Largest sum of the margins of all pairs among m documents, with caps of each grade.

    With n documents by ascending target t_0, t_1, ... the sum is ``sum_k (2k - (n - 1)) t_k``: so
    the lower half has the lowest targets that there are, and the upper half the highest.
    """
    r = len(sizes)
    targets = np.repeat([r / (r - grade) for grade in range(r)], np.minimum(sizes, m))
    n = min(m, len(targets))
    chosen = np.concatenate([targets[: n // 2], targets[len(targets) - (n - n // 2) :]])
    return float(chosen @ (2.0 * np.arange(n) - (n - 1)))


def log_most_classes(m: int, n_others: int, n_relevant: int) -> float:
    """Log of the most classes of rankings of m documents that differ in AP.

    C(n, k), for at most so many documents that are not relevant, and that are.
    """
    n = min(m, n_others + n_relevant)
    # More of either kind make more classes; of all n, half of each makes most.
    return log_choose(n, min(n_relevant, max(n - n_others, n // 2)))


def sizes_by_relevance(level_sizes: Sequence[int], convention: str) -> tuple[int, int]:
    """Caps of the documents that are not relevant, and that are, from those of each grade."""
    relevant = get_convention(convention).relevant(np.arange(float(len(level_sizes))))
    n_relevant = int(np.sum(level_sizes, where=relevant > 0))
    return sum(level_sizes) - n_relevant, n_relevant


def log_choose(n: int, k: int) -> float:
    """Log of the binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
