"""Groups of equal rows of integers, by a hash table; rows are compared whole, so this is exact."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.kernels.text.hashes import mix


@kernel
def group_rows(
    keys: NDArray[np.uint64],
    slots: NDArray[np.int32],
    group: NDArray[np.int64],
    first: NDArray[np.int64],
) -> int:
    """Number the distinct rows of (n, k) keys by first appearance; returns how many there are.

    `slots` (a power of two above n) are -1 at the beginning. Written: `group` (n,), the number of
    each row, and `first` (n,), of which the first entries are the first row of each group.
    """
    n_groups, last = 0, len(slots) - 1
    for row in range(len(keys)):
        if row > 0 and equal_rows(keys, row - 1, row):  # rows of a session often lie together
            group[row] = group[row - 1]
            continue
        state = np.uint64(0)
        for column in range(keys.shape[1]):
            state = mix(state ^ keys[row, column])
        slot = np.int64(state & np.uint64(last))
        while slots[slot] >= 0 and not equal_rows(keys, first[slots[slot]], row):
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = n_groups
            first[n_groups] = row
            n_groups += 1
        group[row] = slots[slot]
    return n_groups


@kernel
def order_by_bucket(
    buckets: NDArray[np.int64], places: NDArray[np.int64], order: NDArray[np.int64]
) -> None:
    """Sort (n,) rows by bucket into `order` (n,), rows of one bucket in their order; O(n).

    `places` (n_buckets,) holds the number of rows in all buckets before, and is overwritten.
    """
    for row in range(len(buckets)):
        order[places[buckets[row]]] = row
        places[buckets[row]] += 1


@kernel
def renumber_parts(
    codes: NDArray[np.int32],
    ends: NDArray[np.int64],
    last_part: NDArray[np.int64],
    number: NDArray[np.int64],
    used: NDArray[np.int64],
    used_ends: NDArray[np.int64],
) -> None:
    """Number the distinct codes of each part of (n,) `codes` from 0, by first appearance; O(n).

    Parts end before the rows `ends`; a code below 0 stays as it is. Written: `codes`, the numbers;
    `used` (n,), the old codes of all parts one after another; `used_ends`, where those of each part
    end. `last_part` (-1 at the beginning) and `number` have an entry for each code.
    """
    row, n_used = 0, 0
    for part in range(len(ends)):
        first = n_used
        while row < ends[part]:
            code = codes[row]
            if code >= 0:
                if last_part[code] != part:
                    last_part[code] = part
                    number[code] = n_used - first
                    used[n_used] = code
                    n_used += 1
                codes[row] = number[code]
            row += 1
        used_ends[part] = n_used


@kernel
def equal_rows(keys: NDArray[np.uint64], one: int, other: int) -> bool:
    """Whether two rows of (n, k) keys are equal."""
    for column in range(keys.shape[1]):
        if keys[one, column] != keys[other, column]:
            return False
    return True
