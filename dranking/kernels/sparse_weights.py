"""A matrix that stays sparse while entries are added to it, and is quick to look up.

A row holds its values in the order of their columns; bitmaps say which columns these are. 64
columns are a *strip*, 64 strips a *band*. Every row has a bitmap for each band, of the strips
that hold entries, and one for each of those strips, of the columns; beside each is how many
strips or entries come before. So an entry is found by counting bits in two words, whether or not
it is there, and without a loop or a guess of the processor. New entries are merged into a row
from its end, which moves each value at most once.

An entry takes its value and a share of 12 bytes for its strip: 6 to 8 bytes in float32 where a
twentieth of the entries or more are there, and never more than 16 and the slack of the row. Rows
lie in arrays that they share, the *pools*; a row that outgrows its slots moves to the end of the
pool, and the holes that remain are closed when the pool is full and a quarter of it unused.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dranking.kernels.compile import kernel
from dranking.kernels.machine import count_ones, lowest_one, shift

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
    bands, strips_before
        (n_rows, n_bands) int64 bitmap of strips, and int32 number of strips in earlier bands.
    strip_pool, strips, entries_before
        Strips of each row, ascending, and an empty one at the end: bitmap of columns, and number
        of entries in earlier strips of the row.
    pool, values
        Entries of each row, columns ascending: float32 or float64.
    """

    bands: Ints
    strips_before: NDArray[np.int32]
    strip_pool: Pool
    strips: Ints
    entries_before: NDArray[np.int32]
    pool: Pool
    values: Values


class New(NamedTuple):
    """Entries that a row is to get: columns ascending, their places in it, values."""

    columns: NDArray[np.int32]
    ranks: Ints
    values: NDArray[np.float64]


@kernel
def below(bit: int) -> int:
    """The bitmap of all bits lower than one."""
    return int((np.int64(1) << np.int64(bit)) - np.int64(1))


@kernel
def find(table: Table, row: int, column: int) -> int:
    """How many entries of a row come before that of a column; ``-1 -`` that if it has none."""
    band, strip_bit, bit = column >> 12, (column >> 6) & 63, column & 63
    strips = table.bands[row, band]
    strip = table.strip_pool.start[row] + table.strips_before[row, band]
    strip += count_ones(strips & below(strip_bit))
    # All ones if the strip is there, else none: no branch, which would be guessed wrong.
    columns = table.strips[strip] & -((strips >> strip_bit) & 1)
    rank = table.entries_before[strip] + count_ones(columns & below(bit))
    return int(rank ^ (((columns >> bit) & 1) - 1))


@kernel
def wanted(count: int) -> int:
    """Slots that a row of so many gets when it moves."""
    return count + count // SLACK + 4


@kernel
def room_for(pool: Pool, row: int, n_new: int) -> int:
    """Slots at the end of the pool that a row needs to get so many more; 0 if it has room."""
    n = pool.used[row] + n_new
    return wanted(n) if n > pool.capacity[row] else 0


@kernel
def has_room(table: Table, n_entries: int, n_strips: int) -> bool:
    """Whether so many slots are free at the ends of the pools."""
    # A value is read, and not used, behind the last entry of a row.
    entries_fit = table.pool.end[0] + n_entries < len(table.values)
    return bool(entries_fit and table.strip_pool.end[0] + n_strips <= len(table.strips))


@kernel
def moved(pool: Pool, row: int, n_new: int) -> int:
    """Give a row room for more slots, maybe elsewhere; return where it was."""
    start = int(pool.start[row])
    slots = room_for(pool, row, n_new)
    if slots > 0:
        pool.start[row], pool.capacity[row] = pool.end[0], slots
        pool.end[0] += slots
    return start


@kernel
def insert(table: Table, row: int, new: New, n: int) -> None:
    """Merge n new entries into a row; there must be room for them, as `room_for` says."""
    insert_strips(table, row, new, n)
    values, count = table.values, table.pool.used[row]
    source, target = moved(table.pool, row, n), table.pool.start[row]
    end = count
    for i in range(n - 1, -1, -1):
        rank = new.ranks[i]
        shift(values, source + rank, target + rank + i + 1, end - rank)
        values[target + rank + i] = new.values[i]
        end = rank
    if source != target:
        shift(values, source, target, end)
    table.pool.used[row] = count + n
    for i in range(n):
        strip = strip_of(table, row, new.columns[i])
        table.strips[strip] |= np.int64(1) << np.int64(new.columns[i] & 63)
    count_entries(table, row)


@kernel
def strip_of(table: Table, row: int, column: int) -> int:
    """The slot of a strip, or that of the next one if it is not there."""
    before = count_ones(table.bands[row, column >> 12] & below((column >> 6) & 63))
    return int(table.strip_pool.start[row] + table.strips_before[row, column >> 12] + before)


@kernel
def insert_strips(table: Table, row: int, new: New, n: int) -> None:
    """Give a row the strips that new entries need, still empty."""
    places = np.empty(n, dtype=np.int64)
    n_new, last = 0, -1
    first = table.strip_pool.start[row]
    for i in range(n):
        number = new.columns[i] >> 6
        if number != last and (table.bands[row, number >> 6] >> (number & 63)) & 1 == 0:
            places[n_new] = strip_of(table, row, new.columns[i]) - first
            n_new += 1
        last = number
    if n_new == 0:
        return
    pool, strips, end = table.strip_pool, table.strips, table.strip_pool.used[row]
    source, target = moved(pool, row, n_new), pool.start[row]
    pool.used[row] = end + n_new
    for i in range(n_new - 1, -1, -1):
        shift(strips, source + places[i], target + places[i] + i + 1, end - places[i])
        strips[target + places[i] + i] = 0
        end = places[i]
    if source != target:
        shift(strips, source, target, end)
    for i in range(n):
        number = new.columns[i] >> 6
        table.bands[row, number >> 6] |= np.int64(1) << np.int64(number & 63)
    count_strips(table, row)


@kernel
def count_strips(table: Table, row: int) -> None:
    """Set how many strips come before each band."""
    n = 0
    for band in range(table.bands.shape[1]):
        table.strips_before[row, band] = n
        n += count_ones(table.bands[row, band])


@kernel
def count_entries(table: Table, row: int) -> None:
    """Set how many entries come before each strip."""
    n, first = 0, table.strip_pool.start[row]
    for strip in range(first, first + table.strip_pool.used[row]):
        table.entries_before[strip] = n
        n += count_ones(table.strips[strip])


@kernel
def compact(table: Table, row: int) -> None:
    """Release the zeros of a row, and the strips that held nothing else."""
    values, start = table.values, table.pool.start[row]
    strip = kept_strip = table.strip_pool.start[row]
    source = target = start
    for band in range(table.bands.shape[1]):
        strips = table.bands[row, band]
        kept_strips = np.int64(0)
        while strips != 0:
            columns = table.strips[strip]
            kept = np.int64(0)
            while columns != 0:
                value = values[source]
                values[target] = value
                # Written over by the next one if it is zero.
                is_kept = np.int64(value != 0.0)
                kept |= columns & -columns & -is_kept
                target += is_kept
                source += 1
                columns &= columns - 1
            table.strips[kept_strip] = kept
            has_any = kept != 0
            kept_strips |= np.int64(has_any) << lowest_one(strips)
            kept_strip += has_any
            strip += 1
            strips &= strips - 1
        table.bands[row, band] = kept_strips
    table.strips[kept_strip] = 0
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


@kernel
def fill(table: Table, indptr: Ints, indices: NDArray[np.int32], data: Values) -> None:
    """Store the rows of a CSR matrix with sorted columns in an empty table with room for them."""
    longest = np.max(indptr[1:] - indptr[:-1]) if len(indptr) > 1 else 0
    ranks = np.zeros(longest, dtype=np.int64)
    for row in range(len(indptr) - 1):
        first, last = indptr[row], indptr[row + 1]
        new = New(indices[first:last], ranks, data[first:last])
        insert(table, row, new, last - first)


@kernel
def drain(table: Table, indptr: Ints, indices: NDArray[np.int32], data: Values) -> None:
    """Write the entries of a table into the arrays of a CSR matrix of as many."""
    indptr[0] = 0
    for row in range(len(indptr) - 1):
        n = columns_of(table, row, indices[indptr[row] :])
        start = table.pool.start[row]
        data[indptr[row] : indptr[row] + n] = table.values[start : start + n]
        indptr[row + 1] = indptr[row] + n


@kernel
def slide(array: Any, order: Ints, source: Ints, target: Ints, count: Ints) -> None:
    """Move the slots of rows, in their order in an array, nearer to its beginning."""
    for row in order:
        if source[row] != target[row]:
            shift(array, source[row], target[row], count[row])


def empty_pool(n_rows: int, count: int) -> Pool:
    """Rows without slots, which use `count` of them."""
    zeros = np.zeros(n_rows, dtype=np.int64)
    return Pool(zeros, zeros.copy(), np.full(n_rows, count), np.zeros(1, dtype=np.int64))


class SparseWeights:
    """A matrix whose entries change and grow in number.

    Parameters
    ----------
    matrix
        (n_rows, n_columns) sparse, to start from; its stored entries are stored here too.
    dtype
        float32 or float64.
    """

    def __init__(self, matrix: Any, dtype: DTypeLike = np.float32) -> None:
        matrix = sparse.csr_array(matrix)
        matrix.sum_duplicates()
        self.shape: tuple[int, int] = matrix.shape
        n_rows, n_bands = self.shape[0], -(-self.shape[1] // STRIP**2)
        indptr = matrix.indptr.astype(np.int64)
        counts = np.diff(indptr)
        n_slots = int(np.sum(counts + counts // SLACK + 4))
        n_strips = np.minimum(counts, -(-self.shape[1] // STRIP)) + 1
        strips = empty_pool(n_rows, 1)
        strips.start[:] = np.cumsum(n_strips) - n_strips
        strips.capacity[:] = n_strips
        strips.end[0] = n_strips.sum()
        self._table = Table(
            np.zeros((n_rows, n_bands), dtype=np.int64),
            np.zeros((n_rows, n_bands), dtype=np.int32),
            strips,
            np.zeros(int(strips.end[0]), dtype=np.int64),
            np.zeros(int(strips.end[0]), dtype=np.int32),
            empty_pool(n_rows, 0),
            np.zeros(n_slots + 1, dtype=dtype),
        )
        data = matrix.data.astype(dtype, copy=False)
        fill(self._table, indptr, matrix.indices.astype(np.int32, copy=False), data)
        self.peak_bytes = self.nbytes

    @property
    def table(self) -> Table:
        """The arrays; valid until the next call of `make_room`."""
        return self._table

    @property
    def n_stored(self) -> int:
        """Entries stored, zeros included."""
        return int(self._table.pool.used.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, free slots and holes included."""
        t = self._table
        arrays = (t.bands, t.strips_before, t.strips, t.entries_before, t.values)
        return sum(array.nbytes for array in (*arrays, *t.pool, *t.strip_pool))

    def make_room(self, n_entries: int, n_strips: int) -> None:
        """Have so many slots free at the end of the pools: close holes, or make them longer.

        Closing holes takes slots from rows that have more than they use: ask `room_for` again.
        """
        t = self._table
        # A value is read, and not used, behind the last entry of a row.
        lengthen(t.pool, n_entries + 1, t.values)
        lengthen(t.strip_pool, n_strips, t.strips, t.entries_before)
        self.peak_bytes = max(self.peak_bytes, self.nbytes)

    def release(self) -> None:
        """Release all zeros."""
        for row in range(self.shape[0]):
            compact(self._table, row)

    def trim(self) -> None:
        """Give back the slots that no row uses."""
        t = self._table
        for pool, spare, arrays in (
            (t.pool, 1, (t.values,)),
            (t.strip_pool, 0, (t.strips, t.entries_before)),
        ):
            close_holes(pool, pool.used.copy(), *arrays)
            for array in arrays:
                array.resize(int(pool.end[0]) + spare, refcheck=False)

    def to_csr(self) -> sparse.csr_array:
        """The matrix as a CSR array with sorted columns, stored zeros included."""
        n = self.n_stored
        indptr = np.empty(self.shape[0] + 1, dtype=np.int64)
        indices = np.empty(n, dtype=np.int32)
        data = np.empty(n, dtype=self._table.values.dtype)
        drain(self._table, indptr, indices, data)
        if n <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)  # scipy widens the indices to the type of indptr
        matrix = sparse.csr_array((data, indices, indptr), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix


def lengthen(pool: Pool, n_slots: int, *arrays: NDArray[Any]) -> None:
    """Have so many slots free at the end of the arrays of a pool."""
    if (pool.end[0] - pool.used.sum()) * (SLACK // 2) > pool.end[0]:
        close_holes(pool, pool.used + pool.used // (2 * SLACK), *arrays)
    end = int(pool.end[0])
    if end + n_slots > len(arrays[0]):
        for array in arrays:
            # In place: where the system can move pages, there are never two copies of W.
            array.resize(end + max(n_slots, end // SLACK), refcheck=False)


def close_holes(pool: Pool, capacity: Ints, *arrays: NDArray[Any]) -> None:
    """Slide the rows together, each with so many slots at most."""
    order = np.argsort(pool.start, kind="stable")
    source = pool.start.copy()
    np.minimum(pool.capacity, capacity, out=pool.capacity)
    ends = np.cumsum(pool.capacity[order])
    pool.start[order] = ends - pool.capacity[order]
    pool.end[0] = ends[-1] if len(ends) else 0
    for array in arrays:
        slide(array, order, source, pool.start, pool.used)
