"""Rows of a matrix that stay sparse while entries are added to them, and are quick to look up.

A row holds its values in the order of their columns; bitmaps say which columns these are. 64
columns are a *strip*, 64 strips a *band*. Every row has a bitmap for each band, of the strips
that hold entries, and one for each of those strips, of the columns; beside each is how many
strips or entries come before. So an entry is found by counting bits in two words, whether or not
it is there, and without a loop or a guess of the processor. `sparse_row_growth` merges new
entries into a row.

An entry takes its value and a share of 12 bytes for its strip: 6 to 8 bytes in float32 where a
twentieth of the entries or more are there, and never more than 16 and the slack of the row. Rows
lie in arrays that they share, the *pools*; a row that outgrows its slots moves to the end of the
pool, and the holes that remain are closed when the pool is full and too much of it unused.

Kernels that steps call are inlined: they work for nanoseconds, and a call would count references
to a dozen arrays. What is indexed by a computed number is indexed by an unsigned one, which need
not be checked for being negative.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import inlined, kernel
from dranking.kernels.lanes import compress, lanes
from dranking.kernels.machine import count_ones, deposit, lowest_one, prefetch
from dranking.kernels.strip_vector import StripVector

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Values = Any
"""float32 or float64 array."""

STRIP = 64
"""Columns of a strip, and strips of a band."""

SLACK = 8
"""A row gets an eighth of slots more than it uses when it moves, and so does a full pool."""

NEAR = 1024
"""Strips of the next row, the first ones, that are brought near while one is looked up."""

RELEASED = 5
"""Zeros are released once they are a fifth of the entries of a row: 1.25 stored per nonzero."""


NUMBERS_OF_ROW = 8
"""What both pools know of a row lies side by side, in so many words: a line of the cache."""


class Pool(NamedTuple):
    """Where rows lie in arrays that they share.

    Attributes
    ----------
    start, capacity, used
        (n_rows,) first slot of each row, slots that it has, and slots that it uses.
    end
        (1,) slots given to rows so far; those behind are free.
    limit
        (1,) slots that may be given. The arrays are longer: see `RESERVED`.
    """

    start: Ints
    capacity: Ints
    used: Ints
    end: Ints
    limit: Ints


class Table(NamedTuple):
    """The arrays of a matrix.

    Attributes
    ----------
    place
        (n_columns,) number that each column has in here.
    bands, strips_before
        (n_rows, n_bands) int64 bitmap of strips, and int32 number of strips in earlier bands.
    strip_pool, strips, entries_before
        Strips of each row, ascending, and an empty one at the end: bitmap of columns, and number
        of entries in earlier strips of the row.
    pool, values
        Entries of each row, columns ascending: float32 or float64.
    kept, kept_strips
        Room for bitmaps of the entries and the strips of a row.
    """

    place: NDArray[np.int32]
    bands: Ints
    strips_before: NDArray[np.int32]
    strip_pool: Pool
    strips: Ints
    entries_before: NDArray[np.int32]
    pool: Pool
    values: Values
    kept: Ints
    kept_strips: Ints


@inlined
def below(bit: Any) -> Any:
    """The bitmap of all bits lower than one."""
    return (np.int64(1) << np.int64(bit)) - np.int64(1)


@inlined
def strip_of(table: Table, row: int, number: Any) -> Any:
    """Whether a row has a strip, 1 or 0, and the slot of it, or of the next one that it has."""
    band, bit = np.uint64(number >> 6), number & 63
    present = table.bands[row, band]
    before = table.strips_before[row, band] + count_ones(present & below(bit))
    return (present >> bit) & 1, np.uint64(table.strip_pool.start[row] + before)


@inlined
def find(table: Table, row: Any, column: Any) -> Any:
    """How many entries of a row come before that of a column; ``-1 -`` that if it has none."""
    is_there, strip = strip_of(table, row, column >> 6)
    bit = column & 63
    # Of a strip that is not there the next one is read, and does not count.
    columns = table.strips[strip] * is_there
    rank = table.entries_before[strip] + count_ones(columns & below(bit))
    return rank ^ (((columns >> bit) & 1) - 1)


@inlined
def locate(table: Table, row: int, vector: StripVector, found: Places, first: int) -> None:
    """Find the columns of a vector in a row, and start to bring their values near.

    Places, as `find` says, are written from the first one on.
    """
    strips, entries_before = table.strips, table.entries_before
    for s in range(vector.size[0]):
        is_there, strip = strip_of(table, row, np.int64(vector.numbers[s]))
        vector.there[s] = strips[strip] * is_there
        vector.before[s] = entries_before[strip]
    values, start = table.values, table.pool.start[row]
    for j in range(vector.first[vector.size[0]]):
        of, before = np.uint64(vector.of_strip[j]), vector.below[j]
        columns = vector.there[of]
        rank = vector.before[of] + count_ones(columns & before)
        found[np.uint64(first + j)] = rank ^ (np.int64(columns & (before + 1) != 0) - 1)
        prefetch(values, start + rank)


@inlined
def prefetch_head(table: Table, row: int) -> None:
    """Start to bring near where a row lies, and its bands."""
    n_bands = table.bands.shape[1]
    prefetch(table.pool.start, row * NUMBERS_OF_ROW)  # counted in words from the first row's
    for band in range(row * n_bands, row * n_bands + n_bands, 8):
        prefetch(table.bands, band)
        prefetch(table.strips_before, band)


@inlined
def prefetch_row(table: Table, row: int) -> None:
    """Start to bring near the strips of a row."""
    start = table.strip_pool.start[row]
    for strip in range(start, start + min(table.strip_pool.used[row], NEAR), 16):
        prefetch(table.strips, strip)
        prefetch(table.strips, strip + 8)
        prefetch(table.entries_before, strip)


@inlined
def prefetch_values(table: Table, row: int) -> None:
    """Start to bring near all values of a row."""
    start = table.pool.start[row]
    for slot in range(start, start + table.pool.used[row], 64 // table.values.itemsize):
        prefetch(table.values, slot)


@inlined
def wanted(count: int) -> int:
    """Slots that a row of so many gets when it moves."""
    return count + count // SLACK + 4


@inlined
def room_for(pool: Pool, row: int, n_new: int) -> int:
    """Slots at the end of the pool that a row needs to get so many more; 0 if it has room."""
    n = pool.used[row] + n_new
    return wanted(n) if n > pool.capacity[row] else 0


@inlined
def has_room(table: Table, n_entries: int, n_strips: int) -> bool:
    """Whether so many slots are free at the ends of the pools."""
    entries_fit = table.pool.end[0] + n_entries <= table.pool.limit[0]
    return bool(entries_fit and table.strip_pool.end[0] + n_strips <= table.strip_pool.limit[0])


@inlined
def moved(pool: Pool, row: int, n_new: int) -> int:
    """Give a row room for more slots, maybe elsewhere; return where it was."""
    start = int(pool.start[row])
    slots = room_for(pool, row, n_new)
    if slots > 0:
        pool.start[row], pool.capacity[row] = pool.end[0], slots
        pool.end[0] += slots
    return start


@inlined
def settle(pool: Pool, row: int, count: int) -> None:
    """Give a row its first slots, of which it uses so many."""
    pool.start[row], pool.used[row], pool.capacity[row] = pool.end[0], count, wanted(count)
    pool.end[0] += wanted(count)


@inlined
def count_strips(table: Table, row: int) -> None:
    """Set how many strips come before each band."""
    n = 0
    for band in range(table.bands.shape[1]):
        table.strips_before[row, band] = n
        n += count_ones(table.bands[row, band])


@inlined
def count_entries(table: Table, row: int, known: Any = 0) -> None:
    """Set how many entries come before each strip; of one, and those before it, it may be known."""
    strips, entries_before = table.strips, table.entries_before
    first = table.strip_pool.start[row]
    n = np.int64(entries_before[np.uint64(first + known)]) if known > 0 else np.int64(0)
    for i in range(known, table.strip_pool.used[row]):
        strip = np.uint64(first + i)
        entries_before[strip] = n
        n += count_ones(strips[strip])


@inlined
def compact(table: Table, row: int) -> None:
    """Release the zeros of a row, and the strips that held nothing else."""
    release_values(table, row)
    kept, all_strips = table.kept, table.strips
    strip = kept_strip = table.strip_pool.start[row]
    at = np.int64(0)
    for band in range(table.bands.shape[1]):
        strips = table.bands[row, band]
        kept_strips = np.int64(0)
        while strips != 0:
            columns = all_strips[np.uint64(strip)]
            n = count_ones(columns)
            left = deposit(bits_from(kept, at), columns)
            all_strips[np.uint64(kept_strip)] = left
            has_any = np.int64(left != 0)
            kept_strips |= has_any << lowest_one(strips)
            kept_strip += has_any
            at += n
            strip += 1
            strips &= strips - 1
        table.bands[row, band] = kept_strips
    all_strips[np.uint64(kept_strip)] = 0
    table.strip_pool.used[row] = kept_strip + 1 - table.strip_pool.start[row]
    count_strips(table, row)
    count_entries(table, row)


@inlined
def release_values(table: Table, row: int) -> None:
    """Move the values of a row that are not zero together; say in `kept` which these are."""
    values, kept, start, width = (
        table.values,
        table.kept,
        table.pool.start[row],
        lanes(table.values),
    )
    at, target = np.int64(0), start
    while at + width <= table.pool.used[row]:
        here = compress(values, start + at, target)
        target += count_ones(here)
        set_bits(kept, at, here)
        at += width
    while at < table.pool.used[row]:
        value = values[np.uint64(start + at)]
        # Written over by the next one if it is zero.
        values[np.uint64(target)] = value
        target += np.int64(value != 0.0)
        set_bits(kept, at, np.int64(value != 0.0))
        at += 1
    table.pool.used[row] = target - start


@inlined
def set_bits(bitmap: Ints, at: Any, bits: Any) -> None:
    """Write bits from one on, up to the end of their word, into a bitmap; what follows is void."""
    word = np.uint64(at >> 6)
    bitmap[word] = (bitmap[word] & below(at & 63)) | (bits << (at & 63))


@inlined
def bits_from(bitmap: Ints, at: Any) -> Any:
    """64 bits of a bitmap from one on; it must have another word."""
    word, bit = np.uint64(at >> 6), np.uint64(at & 63)
    low = np.uint64(bitmap[word]) >> bit
    # Shifted twice: by 64 at once there is no shift.
    high = (np.uint64(bitmap[word + np.uint64(1)]) << np.uint64(1)) << (np.uint64(63) - bit)
    return np.int64(low | high)


@kernel
def columns_of(table: Table, row: int, columns: NDArray[np.int32]) -> int:
    """Write the columns of a row's entries, ascending; return how many they are."""
    n, strip = 0, table.strip_pool.start[row]
    for band in range(table.bands.shape[1]):
        strips = table.bands[row, band]
        while strips != 0:
            first = (band << 12) + (lowest_one(strips) << 6)
            bits = table.strips[strip]
            while bits != 0:
                columns[n] = first + lowest_one(bits)
                n += 1
                bits &= bits - 1
            strip += 1
            strips &= strips - 1
    return n
