"""A matrix that stays sparse while entries are added to it; `sparse_rows` says how it is stored."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dranking.kernels.compile import kernel
from dranking.kernels.lanes import LANE_BITS
from dranking.kernels.machine import borrowed, count_ones, give_back, lowest_one, shift
from dranking.kernels.sparse_rows import (
    NUMBERS_OF_ROW,
    SLACK,
    STRIP,
    Ints,
    Pool,
    Table,
    Values,
    columns_of,
    compact,
    count_entries,
    count_strips,
    find,
    settle,
    strip_of,
)

UNUSED = 2
"""Holes of a full pool are closed where half of it is unused."""

RESERVED = 4
"""An array is made so many times as long as what may be used of it. Where the system gives memory
as it is first written, that takes none, and W need not move each time that it grows."""

SPARE = LANE_BITS // 32
"""Elements behind those that may be used which are read, or written back as they are, and not used:
a vector register of them, or one behind the last entry of a row."""

PIECE = 2**22
"""Elements that are moved at a time, so that on Linux there are never two copies of W."""


@kernel
def release(table: Table) -> None:
    """Release all zeros."""
    for row in range(table.bands.shape[0]):
        compact(table, row)


@kernel
def fill(table: Table, indptr: Ints, indices: NDArray[np.int32], data: Values) -> None:
    """Store the rows of a CSR matrix in an empty table, whose pools have room for them."""
    table = borrowed(table)
    place, bands, values = table.place, table.bands, table.values
    for row in range(len(indptr) - 1):
        first, last = indptr[row], indptr[row + 1]
        for p in range(first, last):
            number = place[indices[p]] >> 6
            bands[row, number >> 6] |= np.int64(1) << np.int64(number & 63)
        count_strips(table, row)
        n_strips = 1
        for band in range(bands.shape[1]):
            n_strips += count_ones(bands[row, band])
        settle(table.strip_pool, row, n_strips)
        first_strip = table.strip_pool.start[row]
        table.strips[first_strip : first_strip + n_strips] = 0
        settle(table.pool, row, last - first)
        for p in range(first, last):
            column = place[indices[p]]
            _, strip = strip_of(table, row, np.int64(column >> 6))
            table.strips[strip] |= np.int64(1) << np.int64(column & 63)
        count_entries(table, row)
        for p in range(first, last):
            rank = find(table, row, np.int64(place[indices[p]]))
            values[table.pool.start[row] + rank] = data[p]


@kernel
def drain(
    table: Table,
    order: NDArray[np.int32],
    indptr: Ints,
    indices: NDArray[np.int32],
    data: Values,
) -> None:
    """Write the entries of a table into the arrays of a CSR matrix of as many, columns ascending.

    The order (n_columns,) has the columns by their numbers in the table.
    """
    columns, n = np.empty_like(order), 0
    values, marks = np.zeros(len(order), dtype=data.dtype), np.zeros(len(order) // 64 + 1, np.int64)
    indptr[0] = 0
    for row in range(len(indptr) - 1):
        start = table.pool.start[row]
        for i in range(columns_of(table, row, columns)):
            column = order[columns[i]]
            values[column] = table.values[start + i]
            marks[column >> 6] |= np.int64(1) << np.int64(column & 63)
        for strip in range(len(marks)):
            bits = marks[strip]
            while bits != 0:
                indices[n] = (strip << 6) + lowest_one(bits)
                data[n] = values[indices[n]]
                n += 1
                bits &= bits - 1
            marks[strip] = 0
        indptr[row + 1] = n


@kernel
def slide(array: Any, order: Ints, source: Ints, target: Ints, count: Ints) -> None:
    """Move the slots of rows, in their order in an array, nearer to its beginning."""
    for row in order:
        if source[row] != target[row]:
            shift(array, source[row], target[row], count[row])


def empty_pools(n_rows: int) -> tuple[Pool, Pool]:
    """Rows without slots, in two pools."""
    of_rows = np.zeros((n_rows, NUMBERS_OF_ROW), dtype=np.int64).T
    ends = np.zeros((4, 1), dtype=np.int64)
    first = Pool(of_rows[0], of_rows[1], of_rows[2], ends[0], ends[1])
    return first, Pool(of_rows[3], of_rows[4], of_rows[5], ends[2], ends[3])


class SparseWeights:
    """A matrix whose entries change and grow in number.

    Parameters
    ----------
    matrix
        (n_rows, n_columns) sparse, to start from; its stored entries are stored here too.
    dtype
        float32 or float64.
    order
        (n_columns,) in which columns lie in memory: those first that are looked up most.
    """

    def __init__(
        self, matrix: Any, dtype: DTypeLike = np.float32, order: NDArray[np.int32] | None = None
    ) -> None:
        matrix = sparse.csr_array(matrix)
        matrix.sum_duplicates()
        self.shape: tuple[int, int] = matrix.shape
        n_rows, n_bands = self.shape[0], -(-self.shape[1] // STRIP**2)
        indptr = matrix.indptr.astype(np.int64)
        counts = np.diff(indptr)
        n_strips = np.minimum(counts, -(-self.shape[1] // STRIP)) + 1
        # As many as `wanted` says.
        n_slots, n_strip_slots = (int((n + n // SLACK + 4).sum()) for n in (counts, n_strips))
        self.order = np.arange(self.shape[1], dtype=np.int32) if order is None else order
        place = np.empty_like(self.order)
        place[self.order] = np.arange(self.shape[1], dtype=np.int32)
        pool, strip_pool = empty_pools(n_rows)
        pool.limit[0], strip_pool.limit[0] = n_slots, n_strip_slots
        self._table = Table(
            place,
            np.zeros((n_rows, n_bands), dtype=np.int64),
            np.zeros((n_rows, n_bands), dtype=np.int32),
            strip_pool,
            reserve(n_strip_slots, np.int64),
            reserve(n_strip_slots, np.int32),
            pool,
            reserve(n_slots, dtype),
            np.empty(self.shape[1] // STRIP + 2, dtype=np.int64),
            np.empty(n_bands + 2, dtype=np.int64),
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
        """Bytes of all arrays as far as they may be used, free slots and holes included."""
        t = self._table
        of_strip = t.strips.itemsize + t.entries_before.itemsize
        of_pools = t.values.itemsize * t.pool.limit[0] + of_strip * t.strip_pool.limit[0]
        of_rows = 8 * NUMBERS_OF_ROW * self.shape[0]
        whole = (t.place, t.bands, t.strips_before, t.kept, t.kept_strips)
        return int(of_pools) + of_rows + sum(array.nbytes for array in whole)

    def make_room(self, n_entries: int, n_strips: int) -> None:
        """Have so many slots free at the end of the pools: close holes, or let more be given.

        Closing holes takes slots from rows that have more than they use: ask `room_for` again.

        Raises
        ------
        MemoryError
            If the system has none; W is as it was.
        """
        t = self._table
        pools = (t.pool, n_entries, (t.values,)), (t.strip_pool, n_strips, of_strips(t))
        limits = [limit_with(*pool) for pool in pools]
        moves = [
            (array, with_room(array, limit), int(pool.end[0]))
            for (pool, _, arrays), limit in zip(pools, limits, strict=True)
            for array in arrays
        ]
        # From here on nothing is asked of the system that it could refuse.
        for source, target, end in moves:
            if target is not source:
                move(source, target, end)
        t.pool.limit[0], t.strip_pool.limit[0] = limits
        values, strips, entries_before = (target for _, target, _ in moves)
        self._table = t._replace(values=values, strips=strips, entries_before=entries_before)
        self.peak_bytes = max(self.peak_bytes, self.nbytes)

    def trim(self) -> None:
        """Give back the slots that no row uses."""
        t = self._table
        for pool, arrays in ((t.pool, (t.values,)), (t.strip_pool, of_strips(t))):
            close_holes(pool, pool.used.copy(), *arrays)
            pool.limit[0] = pool.end[0]
            for array in arrays:
                give_back(array[int(pool.end[0]) :])

    def release(self) -> None:
        """Release all zeros."""
        release(self._table)

    def to_csr(self) -> sparse.csr_array:
        """The matrix as a CSR array with sorted columns, stored zeros included."""
        n = self.n_stored
        indptr = np.empty(self.shape[0] + 1, dtype=np.int64)
        indices = np.empty(n, dtype=np.int32)
        data = np.empty(n, dtype=self._table.values.dtype)
        drain(self._table, self.order, indptr, indices, data)
        if n <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)  # scipy widens the indices to the type of indptr
        matrix = sparse.csr_array((data, indices, indptr), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix


def of_strips(table: Table) -> tuple[NDArray[Any], NDArray[Any]]:
    """The arrays of the pool of strips."""
    return table.strips, table.entries_before


def limit_with(pool: Pool, n_slots: int, arrays: Sequence[NDArray[Any]]) -> int:
    """Slots that a pool may give so that so many are free; its holes are closed where many are."""
    if (pool.end[0] - pool.used.sum()) * UNUSED > pool.end[0]:
        close_holes(pool, pool.used + pool.used // SLACK, *arrays)
    end = int(pool.end[0])
    enough = end + n_slots <= pool.limit[0]
    return int(pool.limit[0]) if enough else end + max(n_slots, end // SLACK)


def with_room(array: NDArray[Any], limit: int) -> NDArray[Any]:
    """The array if so many elements of it may be used, else one to which it is to be moved."""
    return array if limit + SPARE <= len(array) else reserve(limit, array.dtype)


def reserve(n: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array whose first n elements may be used, and later more of it; with any values."""
    try:
        return np.empty(RESERVED * n + SPARE, dtype=dtype)
    except MemoryError:
        # Of what is never written as well, a system may allow no more than it has.
        return np.empty(n + SPARE, dtype=dtype)


def move(source: NDArray[Any], target: NDArray[Any], end: int) -> None:
    """Copy the elements up to one; the memory of the source is given back, its values are lost."""
    for first in range(0, end, PIECE):
        last = min(first + PIECE, end)
        target[first:last] = source[first:last]
        give_back(source[first:last])


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
