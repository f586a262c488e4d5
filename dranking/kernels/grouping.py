"""Groups of equal rows of integers, by a hash table; rows are compared whole, so this is exact."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.kernels.text.hashes import mix


@kernel
def group_rows(
    keys: NDArray[np.uint64],
    slots: NDArray[np.int64],
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
def equal_rows(keys: NDArray[np.uint64], one: int, other: int) -> bool:
    """Whether two rows of (n, k) keys are equal."""
    for column in range(keys.shape[1]):
        if keys[one, column] != keys[other, column]:
            return False
    return True
