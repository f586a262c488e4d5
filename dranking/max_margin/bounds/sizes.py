"""Largest numbers of pairs and of classes, and largest margins, of a list under caps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dranking.metrics.conventions import get_convention


def most_pairs(m: int, sizes: Sequence[int]) -> float:
    """Largest number of pairs of different grade among m documents, at most `sizes` of each."""
    # Levels of equal size have the most pairs: fill the levels in turn.
    taken = [0] * len(sizes)
    for _ in range(min(m, sum(sizes))):
        level = min((j for j, size in enumerate(sizes) if taken[j] < size), key=lambda j: taken[j])
        taken[level] += 1
    total = sum(taken)
    return (total * total - sum(n * n for n in taken)) / 2


def most_margins(m: int, sizes: Sequence[int]) -> float:
    """Largest sum of the margins of all pairs of m documents; `sizes` (n_levels,) caps each grade.

    With n documents by ascending target t_0, t_1, ... the sum is ``sum_k (2k - (n - 1)) t_k``, so
    the lower half has the lowest targets that the caps allow, and the upper half the highest.
    """
    r = len(sizes)
    targets = np.repeat([r / (r - grade) for grade in range(r)], np.minimum(sizes, m))
    n = min(m, len(targets))
    chosen = np.concatenate([targets[: n // 2], targets[len(targets) - (n - n // 2) :]])
    return float(chosen @ (2.0 * np.arange(n) - (n - 1)))


def ranked_margins(m: int, sizes: Sequence[int]) -> float:
    """Largest sum of the margins by rank of all pairs of m documents; `sizes` caps each grade.

    k documents of a grade below a others have the target n / (a + 1) each in a list of n documents,
    and stand in n - a - k pairs above and in a pairs below the other document. The grades are
    filled from the highest, for each number of documents so far with the largest sum: O(r m^2) for
    r grades.
    """
    n = min(m, sum(sizes))
    most = np.full(n + 1, -np.inf)
    most[0] = 0.0
    for size in reversed(sizes):
        before = most.copy()
        for k in range(1, min(size, n) + 1):
            above = np.arange(n + 1 - k)
            sums = k * (n - 2.0 * above - k) * n / (above + 1)
            most[k:] = np.maximum(most[k:], before[: n + 1 - k] + sums)
    return float(most[n])


def log_most_classes(m: int, n_others: int, n_relevant: int) -> float:
    """Log of the largest number of classes of rankings that differ in AP, C(n, k), for m documents.

    At most `n_others` documents are not relevant, and at most `n_relevant` are.
    """
    n = min(m, n_others + n_relevant)
    # Each further document gives more classes; of n documents, k nearest to n / 2 gives most.
    return log_choose(n, min(n_relevant, max(n - n_others, n // 2)))


def sizes_by_relevance(level_sizes: Sequence[int], convention: str) -> tuple[int, int]:
    """Caps of the other and of the relevant documents, from the caps of each grade (n_levels,)."""
    relevant = get_convention(convention).relevant(np.arange(float(len(level_sizes))))
    n_relevant = int(np.sum(level_sizes, where=relevant > 0))
    return sum(level_sizes) - n_relevant, n_relevant


def log_choose(n: int, k: int) -> float:
    """Log of the binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
