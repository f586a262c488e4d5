"""Merging entries into rows that stay sparse: those of a vector that a row has not yet.

What is new is told from what is there 64 columns at a time, by their bitmaps. The strips and the
values of a row are then moved from its end on, each at most once, a vector register at a time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import inlined
from dranking.kernels.lanes import expand, lanes
from dranking.kernels.machine import count_ones, extract, prefetch
from dranking.kernels.sparse_rows import (
    Ints,
    Pool,
    Table,
    Values,
    below,
    count_entries,
    count_strips,
    moved,
    strip_of,
)
from dranking.kernels.strip_vector import StripVector, n_entries

AHEAD = 4096
"""Bytes from what is moved of a row to what is brought near meanwhile."""


@inlined
def grow(table: Table, row: int, vector: StripVector, missing: NDArray[np.int32]) -> None:
    """Give a row the entries of a vector that it has not, zeros.

    There must be room for them, as `room_for` says. `there` and `before` of the vector become
    what the row then has in its strips; `missing` is room for the numbers of these.
    """
    start = table.strip_pool.start[row]
    n_new, n_missing, first_strip, first = find_new(table, row, vector, missing)
    if n_missing > 0:
        insert_strips(table, row, vector, missing, n_missing, first_strip)
    if n_new > 0:
        count_entries(table, row, first_strip if table.strip_pool.start[row] == start else 0)
        spread_out(table.values, table.pool, row, table.kept, n_new, first)


@inlined
def find_new(table: Table, row: int, vector: StripVector, missing: NDArray[np.int32]) -> Any:
    """Tell which entries and strips of a vector a row has not: `kept` and `kept_strips` get zeros.

    Their columns are entered in the strips that are there. Returns how many entries and strips
    are new, the number of the first of these strips, and the place in the row before which no
    entry is new.
    """
    strips, entries_before, kept = table.strips, table.entries_before, table.kept
    bits, there, before = vector.bits, vector.there, vector.before
    n_new, n_missing, first_strip, first = np.int64(0), np.int64(0), np.int64(0), np.int64(-1)
    most = table.pool.used[row] + n_entries(vector)
    for word in range(min((most >> 6) + 2, len(kept))):
        kept[word] = -1
    kept_strips, first_of_row = table.kept_strips, table.strip_pool.start[row]
    for word in range(len(kept_strips)):
        kept_strips[word] = -1
    for s in range(vector.size[0]):
        is_there, strip = strip_of(table, row, np.int64(vector.numbers[s]))
        old = strips[strip] * is_there
        columns, at = old | bits[s], entries_before[strip] + n_new
        there[s], before[s] = columns, at
        new = columns ^ old
        strips[strip] |= new & -is_there
        flip_bits(kept, at, extract(new, columns))
        if n_new == 0:
            first_strip, first = np.int64(strip) - first_of_row, np.int64(at)
        n_new += count_ones(new)
        # Written over by the next one if it is there.
        missing[n_missing] = s
        place = np.int64(strip) - first_of_row + n_missing
        kept_strips[np.uint64(place >> 6)] ^= (1 - is_there) << (place & 63)
        n_missing += 1 - is_there
    return n_new, n_missing, first_strip, first


@inlined
def flip_bits(bitmap: Ints, at: Any, bits: Any) -> None:
    """Change those of 64 bits of a bitmap from one on that are set; it must have another word."""
    word, bit, bits = np.uint64(at >> 6), np.uint64(at & 63), np.uint64(bits)
    bitmap[word] ^= np.int64(bits << bit)
    # Shifted twice: by 64 at once there is no shift.
    bitmap[word + np.uint64(1)] ^= np.int64((bits >> np.uint64(1)) >> (np.uint64(63) - bit))


@inlined
def insert_strips(
    table: Table, row: int, vector: StripVector, missing: NDArray[np.int32], n: int, first: Any
) -> None:
    """Give a row n strips of a vector that it has not, none of them before the first that moves."""
    strips, bands, numbers = table.strips, table.bands, vector.numbers
    spread_out(strips, table.strip_pool, row, table.kept_strips, n, first)
    for i in range(n):
        number = np.int64(numbers[np.uint64(missing[i])])
        bands[row, np.uint64(number >> 6)] |= np.int64(1) << (number & 63)
    count_strips(table, row)
    for i in range(n):
        s = np.uint64(missing[i])
        _, strip = strip_of(table, row, np.int64(numbers[s]))
        strips[strip] = vector.bits[s]


@inlined
def spread_out(values: Values, pool: Pool, row: int, kept: Ints, n: int, first: Any) -> None:
    """Move what a row has to where `kept` has ones, the first ones but where all moves.

    The n others become zero.
    """
    width, ahead, zero = lanes(values), AHEAD // values.itemsize, values.dtype.type(0)
    count = pool.used[row]
    source, target, at = moved(pool, row, n), pool.start[row], count + n
    pool.used[row] = at
    if source != target:
        first = 0
    # From the end: nothing is written over before it is read.
    read = source + count
    while at > first and at % width != 0:
        at -= 1
        is_kept = (kept[np.uint64(at >> 6)] >> (at & 63)) & 1
        read -= is_kept
        value = values[np.uint64(read)]
        values[np.uint64(target + at)] = value if is_kept else zero
    while at > first:
        at -= width
        here = kept[np.uint64(at >> 6)] >> (at & 63)
        prefetch(values, read - ahead)
        read -= count_ones(here & below(width))
        expand(values, read, target + at, here)


@inlined
def prefetch_end(table: Table, row: int) -> None:
    """Start to bring near the last values of a row, which are moved first."""
    end = table.pool.start[row] + table.pool.used[row]
    size = table.values.itemsize
    for slot in range(max(end - AHEAD // size, table.pool.start[row]), end, 64 // size):
        prefetch(table.values, slot)
