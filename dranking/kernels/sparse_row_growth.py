"""Merging entries into rows that stay sparse: those of a vector that a row has not yet.

What is new is told from what is there 64 columns at a time, by their bitmaps. The values of a row
are then moved from its end on, each at most once, a vector register at a time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import inlined
from dranking.kernels.lanes import expand, lanes
from dranking.kernels.machine import count_ones, extract, prefetch, shift
from dranking.kernels.sparse_rows import (
    Ints,
    Table,
    below,
    count_entries,
    count_strips,
    moved,
    strip_of,
)
from dranking.kernels.strip_vector import StripVector, n_entries

AHEAD = 256
"""Values from those of a row that are moved to those that are brought near meanwhile."""


@inlined
def grow(table: Table, row: int, vector: StripVector, missing: NDArray[np.int32]) -> None:
    """Give a row the entries of a vector that it has not, zeros.

    There must be room for them, as `room_for` says. `there` and `before` of the vector become
    what the row then has in its strips; `missing` is room for the numbers of these.
    """
    n_new, n_missing, first = find_new(table, row, vector, missing)
    if n_missing > 0:
        insert_strips(table, row, vector, missing, n_missing)
    if n_new > 0:
        count_entries(table, row)
        spread_out(table, row, n_new, first)


@inlined
def find_new(table: Table, row: int, vector: StripVector, missing: NDArray[np.int32]) -> Any:
    """Tell which entries and strips of a vector a row has not; `kept` gets zeros for the entries.

    Their columns are entered in the strips that are there. Returns how many entries and strips
    are new, and the place in the row before which none is.
    """
    strips, entries_before, kept = table.strips, table.entries_before, table.kept
    bits, there, before = vector.bits, vector.there, vector.before
    n_new, n_missing, first = np.int64(0), np.int64(0), np.int64(-1)
    most = table.pool.used[row] + n_entries(vector)
    for word in range(min((most >> 6) + 2, len(kept))):
        kept[word] = -1
    for s in range(vector.size[0]):
        is_there, strip = strip_of(table, row, np.int64(vector.numbers[s]))
        old = strips[strip] * is_there
        columns, at = old | bits[s], entries_before[strip] + n_new
        there[s], before[s] = columns, at
        new = columns ^ old
        strips[strip] |= new & -is_there
        flip_bits(kept, at, extract(new, columns))
        first = at if n_new == 0 else first
        n_new += count_ones(new)
        # Written over by the next one if it is there.
        missing[n_missing] = s
        n_missing += 1 - is_there
    return n_new, n_missing, first


@inlined
def flip_bits(bitmap: Ints, at: Any, bits: Any) -> None:
    """Change those of 64 bits of a bitmap from one on that are set; it must have another word."""
    word, bit, bits = np.uint64(at >> 6), np.uint64(at & 63), np.uint64(bits)
    bitmap[word] ^= np.int64(bits << bit)
    # Shifted twice: by 64 at once there is no shift.
    bitmap[word + np.uint64(1)] ^= np.int64((bits >> np.uint64(1)) >> (np.uint64(63) - bit))


@inlined
def insert_strips(
    table: Table, row: int, vector: StripVector, missing: NDArray[np.int32], n: int
) -> None:
    """Give a row n strips of a vector that it has not."""
    pool, strips, end = table.strip_pool, table.strips, table.strip_pool.used[row]
    source, target = moved(pool, row, n), pool.start[row]
    pool.used[row] = end + n
    for i in range(n - 1, -1, -1):
        s = np.uint64(missing[i])
        _, strip = strip_of(table, row, np.int64(vector.numbers[s]))
        place = np.int64(strip) - target
        shift(strips, source + place, target + place + i + 1, end - place)
        strips[np.uint64(target + place + i)] = vector.bits[s]
        end = place
    if source != target:
        shift(strips, source, target, end)
    for i in range(n):
        number = np.int64(vector.numbers[np.uint64(missing[i])])
        table.bands[row, np.uint64(number >> 6)] |= np.int64(1) << (number & 63)
    count_strips(table, row)


@inlined
def spread_out(table: Table, row: int, n: int, first: Any) -> None:
    """Move the entries of a row to where `kept` has ones, the first ones but where all moves.

    The n others become zero.
    """
    values, kept, width = table.values, table.kept, lanes(table.values)
    count = table.pool.used[row]
    source, target, at = moved(table.pool, row, n), table.pool.start[row], count + n
    table.pool.used[row] = at
    if source != target:
        first = 0
    # From the end: nothing is written over before it is read.
    read = source + count
    while at > first and at % width != 0:
        at -= 1
        is_kept = (kept[np.uint64(at >> 6)] >> (at & 63)) & 1
        read -= is_kept
        value = values[np.uint64(read)]
        values[np.uint64(target + at)] = value if is_kept else 0.0
    while at > first:
        at -= width
        here = kept[np.uint64(at >> 6)] >> (at & 63)
        prefetch(values, read - AHEAD)
        read -= count_ones(here & below(width))
        expand(values, read, target + at, here)


@inlined
def prefetch_end(table: Table, row: int) -> None:
    """Start to bring near the last values of a row, which are moved first."""
    end = table.pool.start[row] + table.pool.used[row]
    for slot in range(max(end - AHEAD, table.pool.start[row]), end, 64 // table.values.itemsize):
        prefetch(table.values, slot)
