"""Alias tables: draws from any distribution over n items at the same small cost."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import kernel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def build_alias_table(masses: Array, accept: Array, alias: Ints) -> None:
    """Overwrite `accept` and `alias` with the table of a distribution; O(n).

    To draw, take a slot uniformly, and keep it with probability `accept[slot]`; else take
    `alias[slot]`.

    Parameters
    ----------
    masses
        (n,) above 0; item i is drawn with probability `masses[i] / masses.sum()`.
    accept
        (n,) in [0, 1].
    alias
        (n,) items.

    References
    ----------
    Vose: A linear algorithm for generating random numbers with a given distribution, 1991.
    """
    n = len(masses)
    total = 0.0
    for i in range(n):
        total += masses[i]
    # Slots short of an n-th of the mass from the left, those with more of it from the right.
    waiting = np.empty(n, dtype=np.int64)
    n_short, n_long = 0, 0
    for i in range(n):
        accept[i] = masses[i] / total * n
        alias[i] = i
        if accept[i] < 1.0:
            waiting[n_short] = i
            n_short += 1
        else:
            n_long += 1
            waiting[n - n_long] = i
    while n_short > 0 and n_long > 0:
        n_short -= 1
        short, long = waiting[n_short], waiting[n - n_long]
        alias[short] = long
        accept[long] -= 1.0 - accept[short]
        if accept[long] < 1.0:
            n_long -= 1
            waiting[n_short] = long
            n_short += 1
    # What rounding left over is full.
    for j in range(n_short):
        accept[waiting[j]] = 1.0
    for j in range(n_long):
        accept[waiting[n - 1 - j]] = 1.0
