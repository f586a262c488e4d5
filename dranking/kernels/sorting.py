"""Sorting inside kernels: one short loop, because Numba's own sorts take seconds to compile."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

RUN = 16
"""Runs of this length are sorted by insertion, and longer runs by merging."""


@part
def smaller(a: int, b: int) -> int:
    """The smaller of two whole numbers. Numba compiles a function for `min`, in every process."""
    return a if a < b else b


@kernel
def descending(values: Array) -> Ints:
    """(n,) positions of descending values; equal values keep their order, and NaN come last."""
    n = len(values)
    keys, order = np.empty(n), np.empty(n, np.int64)
    for i in range(n):  # a copy, so that `best_first` is compiled for arrays of one kind
        keys[i] = values[i]
    best_first(keys, order, np.empty(n, np.int64))
    return order


@kernel
def ascending(values: Array) -> Ints:
    """(n,) positions of ascending values; equal values in reversed order, and NaN come first."""
    best, order = descending(values), np.empty(len(values), np.int64)
    for i in range(len(values)):
        order[i] = best[len(values) - 1 - i]
    return order


@kernel
def best_first(values: Array, order: Ints, spare: Ints) -> None:
    """Overwrite `order` (n,) with the positions of descending values.

    Equal values keep their order, and NaN follow all numbers, as in
    ``np.argsort(-values, kind="stable")``. `spare` (n,) is overwritten as well. O(n log n).
    """
    n = len(values)
    for first in range(0, n, RUN):
        for i in range(first, smaller(first + RUN, n)):
            value, k = values[i], i
            while k > first and not values[order[k - 1]] >= value and value == value:
                order[k] = order[k - 1]
                k -= 1
            order[k] = i
    width = RUN
    while width < n:
        for first in range(0, n, 2 * width):
            left, middle = first, smaller(first + width, n)
            end = smaller(first + 2 * width, n)
            for i in range(left, middle):
                spare[i] = order[i]
            right, k = middle, first
            while left < middle:  # when the first run is used up, the rest is in its place
                one, other = spare[left], order[smaller(right, n - 1)]
                if right >= end or values[one] >= values[other] or values[other] != values[other]:
                    order[k] = one
                    left += 1
                else:
                    order[k] = other
                    right += 1
                k += 1
        width *= 2
