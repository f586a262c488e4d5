"""Rows of a matrix that stay sparse while entries are added to them, and are quick to look up.

A row holds its values in the order of their columns; bitmaps say which columns these are. 64
columns are a *strip*, 64 strips a *band*. Every row has a bitmap for each band, of the strips
that hold entries, and one for each of those strips, of the columns; beside each is how many
strips or entries come before. So an entry is found by counting bits in two words, whether or not
it is there, and without a loop or a guess of the processor. New entries are merged into a row
from its end, which moves each value at most once.

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
from dranking.kernels.machine import count_ones, lowest_one, prefetch, shift

Ints = NDArray[np.int64]
Values = Any
"""float32 or float64 array."""

STRIP = 64
"""Columns of a strip, and strips of a band."""

SLACK = 8
"""A row gets an eighth of slots more than it uses when it moves, and so does a full pool."""

RELEASED = 5
"""Zeros are released once they are a fifth of the entries of a row: 1.25 stored per nonzero."""


class Pool(NamedTuple):
    """Where rows lie in arrays that they share.

    Attributes
    ----------
    start, capacity, used
        (n_rows,) first slot of each row, slots that it has, and slots that it uses.
    end
        (1,) slots given to rows so far; those behind are free.
    """

    start: Ints
    capacity: Ints
    used: Ints
    end: Ints


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
    """

    place: NDArray[np.int32]
    bands: Ints
    strips_before: NDArray[np.int32]
    strip_pool: Pool
    strips: Ints
    entries_before: NDArray[np.int32]
    pool: Pool
    values: Values


class New(NamedTuple):
    """Entries that a row is to get: columns ascending, their places in it, values; room."""

    columns: NDArray[np.int32]
    ranks: Ints
    values: NDArray[np.float64]
    strips: Ints


@inlined
def below(bit: Any) -> Any:
    """The bitmap of all bits lower than one."""
    return (np.int64(1) << np.int64(bit)) - np.int64(1)


@inlined
def find_in(
    bands: Ints,
    strips_before: NDArray[np.int32],
    strips: Ints,
    entries_before: NDArray[np.int32],
    first_strip: int,
    row: int,
    column: int,
) -> Any:
    """What `find` does, by the arrays of a table."""
    band, strip_bit, bit = np.uint64(column >> 12), (column >> 6) & 63, column & 63
    present = bands[row, band]
    before = strips_before[row, band] + count_ones(present & below(strip_bit))
    strip = np.uint64(first_strip + before)
    # Of a strip that is not there the next one is read, and does not count: without a branch,
    # which would be guessed wrong.
    is_there, columns = (present >> strip_bit) & 1, strips[strip]
    rank = entries_before[strip] + count_ones(columns & below(bit)) * is_there
    return rank ^ (((columns >> bit) & is_there) - 1)


@kernel
def find(table: Table, row: int, column: int) -> int:
    """How many entries of a row come before that of a column; ``-1 -`` that if it has none."""
    return int(
        find_in(
            table.bands,
            table.strips_before,
            table.strips,
            table.entries_before,
            table.strip_pool.start[row],
            row,
            column,
        )
    )


@inlined
def prefetch_row(table: Table, row: int) -> None:
    """Start to bring near what of a row is read first."""
    prefetch(table.bands, row * table.bands.shape[1])
    prefetch(table.strips_before, row * table.bands.shape[1])
    prefetch(table.strips, table.strip_pool.start[row])
    prefetch(table.entries_before, table.strip_pool.start[row])
    prefetch(table.values, table.pool.start[row])


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
    # A value is read, and not used, behind the last entry of a row.
    entries_fit = table.pool.end[0] + n_entries < len(table.values)
    return bool(entries_fit and table.strip_pool.end[0] + n_strips <= len(table.strips))


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
def insert(table: Table, row: int, new: New, n: int) -> None:
    """Merge n new entries into a row; there must be room for them, as `room_for` says."""
    insert_strips(table, row, new, n)
    values, ranks, count = table.values, new.ranks, table.pool.used[row]
    source, target = moved(table.pool, row, n), table.pool.start[row]
    end = count
    for i in range(n - 1, -1, -1):
        rank = ranks[i]
        shift(values, source + rank, target + rank + i + 1, end - rank)
        values[np.uint64(target + rank + i)] = new.values[i]
        end = rank
    if source != target:
        shift(values, source, target, end)
    table.pool.used[row] = count + n
    columns, strips = new.columns, table.strips
    for i in range(n):
        strips[strip_of(table, row, columns[i])] |= np.int64(1) << np.int64(columns[i] & 63)
    count_entries(table, row)


@inlined
def strip_of(table: Table, row: int, column: int) -> np.uint64:
    """The slot of a strip, or that of the next one if it is not there."""
    band = np.uint64(column >> 12)
    before = count_ones(table.bands[row, band] & below((column >> 6) & 63))
    return np.uint64(table.strip_pool.start[row] + table.strips_before[row, band] + before)


@inlined
def insert_strips(table: Table, row: int, new: New, n: int) -> None:
    """Give a row the strips that new entries need, still empty."""
    bands, columns, places = table.bands, new.columns, new.strips
    n_new, last, first = 0, np.int64(-1), table.strip_pool.start[row]
    for i in range(n):
        number = np.int64(columns[i] >> 6)
        if number != last and (bands[row, np.uint64(number >> 6)] >> (number & 63)) & 1 == 0:
            places[n_new] = np.int64(strip_of(table, row, columns[i])) - first
            n_new += 1
        last = number
    if n_new > 0:
        pool, strips, end = table.strip_pool, table.strips, table.strip_pool.used[row]
        source, target = moved(pool, row, n_new), pool.start[row]
        pool.used[row] = end + n_new
        for i in range(n_new - 1, -1, -1):
            shift(strips, source + places[i], target + places[i] + i + 1, end - places[i])
            strips[np.uint64(target + places[i] + i)] = 0
            end = places[i]
        if source != target:
            shift(strips, source, target, end)
        for i in range(n):
            number = np.int64(columns[i] >> 6)
            bands[row, np.uint64(number >> 6)] |= np.int64(1) << (number & 63)
        count_strips(table, row)


@inlined
def count_strips(table: Table, row: int) -> None:
    """Set how many strips come before each band."""
    n = 0
    for band in range(table.bands.shape[1]):
        table.strips_before[row, band] = n
        n += count_ones(table.bands[row, band])


@inlined
def count_entries(table: Table, row: int) -> None:
    """Set how many entries come before each strip."""
    strips, entries_before = table.strips, table.entries_before
    n, first = 0, table.strip_pool.start[row]
    for i in range(table.strip_pool.used[row]):
        strip = np.uint64(first + i)
        entries_before[strip] = n
        n += count_ones(strips[strip])


@inlined
def compact(table: Table, row: int) -> None:
    """Release the zeros of a row, and the strips that held nothing else."""
    values, all_strips, start = table.values, table.strips, table.pool.start[row]
    strip = kept_strip = table.strip_pool.start[row]
    source = target = start
    for band in range(table.bands.shape[1]):
        strips = table.bands[row, band]
        kept_strips = np.int64(0)
        while strips != 0:
            columns = all_strips[np.uint64(strip)]
            kept = np.int64(0)
            while columns != 0:
                value = values[np.uint64(source)]
                values[np.uint64(target)] = value
                # Written over by the next one if it is zero.
                is_kept = np.int64(value != 0.0)
                kept |= columns & -columns & -is_kept
                target += is_kept
                source += 1
                columns &= columns - 1
            all_strips[np.uint64(kept_strip)] = kept
            has_any = np.int64(kept != 0)
            kept_strips |= has_any << lowest_one(strips)
            kept_strip += has_any
            strip += 1
            strips &= strips - 1
        table.bands[row, band] = kept_strips
    all_strips[np.uint64(kept_strip)] = 0
    table.strip_pool.used[row] = kept_strip + 1 - table.strip_pool.start[row]
    table.pool.used[row] = target - start
    count_strips(table, row)
    count_entries(table, row)


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
