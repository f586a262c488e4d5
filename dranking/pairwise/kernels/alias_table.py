"""Alias tables: draws in O(1) from any distribution over n items, and draws of pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

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
        (n,) at least 0; values may be above 1 by rounding.
    alias
        (n,) the other item of each slot; the slot's own item if rounding leaves no other item.

    References
    ----------
    Vose: A linear algorithm for generating random numbers with a given distribution, 1991.
    """
    n = len(masses)
    total = 0.0
    for i in range(n):
        total += masses[i]
    # Slots with less than 1 / n of the mass wait on the left, slots with more wait on the right.
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


class PairSlots(NamedTuple):
    """An alias table over the documents that stand first in pairs, and their partners.

    Attributes
    ----------
    rows
        (n_ranked,) documents.
    slots
        (n_slots,) positions in `rows` of the documents that stand first.
    first, last
        (n_slots,) range of the partners in `rows`, which are equally likely: the first position,
        and the position behind the last.
    accept, alias
        (n_slots,) the alias table.
    """

    rows: Ints
    slots: Ints
    first: Ints
    last: Ints
    accept: Array
    alias: Ints


@kernel
def take_pairs(
    table: PairSlots, slot: Ints, uniform: Array, first_rows: Ints, partner_rows: Ints
) -> None:
    """Turn random numbers into pairs of rows, in O(1) for each pair.

    Parameters
    ----------
    slot
        (n_draws,) uniform slots.
    uniform
        (2, n_draws) uniform in [0, 1).
    first_rows, partner_rows
        (n_draws,); overwritten.
    """
    for i in range(len(slot)):
        at = slot[i] if uniform[0, i] < table.accept[slot[i]] else table.alias[slot[i]]
        first_rows[i] = table.rows[table.slots[at]]
        n_partners = table.last[at] - table.first[at]
        partner_rows[i] = table.rows[table.first[at] + np.int64(uniform[1, i] * n_partners)]
