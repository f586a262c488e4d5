"""A matrix that stays sparse while entries are added to it; `sparse_rows` says how it is stored."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dranking.kernels.bilinear.sparse_rows import (
    NUMBERS_OF_ROW,
    SLACK,
    Ints,
    Table,
    Values,
    compact,
    wanted,
)
from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import give_back, lowest_one, shift

UNUSED = 3
"""Holes of full pools are closed where a third of them is unused."""

GROWTH = 8
"""Full pools get an eighth of slots more."""

RESERVED = 4
"""An array is made so many times as long as what may be used of it. Where the system gives memory
as it is first written, that takes none, and W need not move each time that it grows."""

PIECE = 2**22
"""Elements that are moved at a time, so that on Linux there are never two copies of W."""


@kernel
def release(table: Table) -> None:
    """Release all zeros."""
    for row in range(len(table.start)):
        compact(table, row)


@kernel
def fill(table: Table, indptr: Ints, indices: NDArray[np.int32], data: Values) -> None:
    """Store the rows of a CSR matrix in an empty table, whose pools have room for them."""
    for row in range(len(indptr) - 1):
        first, n = indptr[row], indptr[row + 1] - indptr[row]
        start = table.end[0]
        table.start[row], table.used[row], table.capacity[row] = start, n, wanted(n)
        table.end[0] += wanted(n)
        for i in range(n):
            table.columns[start + i] = table.place[indices[first + i]]
            table.values[start + i] = data[first + i]


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
    n, marks = 0, np.zeros(len(order) // 64 + 1, np.int64)
    values = np.zeros(len(order), dtype=data.dtype)
    indptr[0] = 0
    for row in range(len(indptr) - 1):
        for i in range(table.start[row], table.start[row] + table.used[row]):
            column = order[table.columns[i]]
            values[column] = table.values[i]
            marks[column >> 6] |= np.int64(1) << np.int64(column & 63)
        for word in range(len(marks)):
            bits = marks[word]
            while bits != 0:
                bit = np.int64(lowest_one(bits))
                indices[n] = (word << 6) + bit
                data[n] = values[indices[n]]
                n += 1
                bits ^= np.int64(1) << bit
            marks[word] = 0
        indptr[row + 1] = n


@kernel
def slide(array: Any, order: Ints, source: Ints, target: Ints, count: Ints) -> None:
    """Move the slots of rows, in their order in an array, nearer to its beginning."""
    for row in order:
        if source[row] != target[row]:
            shift(array, source[row], target[row], count[row])


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
        indptr = matrix.indptr.astype(np.int64)
        counts = np.diff(indptr)
        n_slots = int((counts + counts // SLACK + 4).sum())  # as many as `wanted` says
        self.order = np.arange(self.shape[1], dtype=np.int32) if order is None else order
        place = np.empty_like(self.order)
        place[self.order] = np.arange(self.shape[1], dtype=np.int32)
        start, capacity, used, _ = np.zeros((self.shape[0], NUMBERS_OF_ROW), dtype=np.int64).T
        self._table = Table(
            place,
            start,
            capacity,
            used,
            end=np.zeros(1, dtype=np.int64),
            limit=np.array([n_slots]),
            columns=reserve(n_slots, np.uint16 if self.shape[1] <= 2**16 else np.int32),
            values=reserve(n_slots, dtype),
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
        return int(self._table.used.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays as far as they may be used, free slots and holes included."""
        t = self._table
        of_slot, of_row = t.columns.itemsize + t.values.itemsize, 8 * NUMBERS_OF_ROW
        return int(of_slot * t.limit[0] + of_row * self.shape[0] + t.place.nbytes)

    def make_room(self, n_slots: int) -> None:
        """Have so many slots free at the end of the pools: close holes, or let more be given.

        Closing holes takes slots from rows that have more than they use: ask `room_for` again.

        Raises
        ------
        MemoryError
            If the system has none; W is as it was.
        """
        t = self._table
        if (t.end[0] - t.used.sum()) * UNUSED > t.end[0]:
            close_holes(t, t.used + t.used // SLACK)
        end = int(t.end[0])
        if end + n_slots <= t.limit[0]:
            return
        limit = end + max(n_slots, end // GROWTH)
        arrays = t.columns, t.values
        moved = [a if limit < len(a) else reserve(limit, a.dtype) for a in arrays]
        # From here on nothing is asked of the system that it could refuse.
        for source, target in zip(arrays, moved, strict=True):
            if target is not source:
                move(source, target, end)
        t.limit[0] = limit
        self._table = t._replace(columns=moved[0], values=moved[1])
        self.peak_bytes = max(self.peak_bytes, self.nbytes)

    def trim(self) -> None:
        """Give back the slots that no row uses."""
        t = self._table
        close_holes(t, t.used.copy())
        t.limit[0] = t.end[0]
        for array in (t.columns, t.values):
            give_back(array[int(t.end[0]) :])

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


def reserve(n: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array whose first n elements may be used, and later more of it; with any values."""
    try:
        return np.empty(RESERVED * n + 1, dtype=dtype)
    except MemoryError:
        # Of what is never written as well, a system may allow no more than it has.
        return np.empty(n + 1, dtype=dtype)


def move(source: NDArray[Any], target: NDArray[Any], end: int) -> None:
    """Copy the elements up to one; the memory of the source is given back, its values are lost."""
    for first in range(0, end, PIECE):
        last = min(first + PIECE, end)
        target[first:last] = source[first:last]
        give_back(source[first:last])


def close_holes(table: Table, capacity: Ints) -> None:
    """Slide the rows together, each with so many slots at most."""
    order = np.argsort(table.start, kind="stable")
    source = table.start.copy()
    np.minimum(table.capacity, capacity, out=table.capacity)
    ends = np.cumsum(table.capacity[order])
    table.start[order] = ends - table.capacity[order]
    table.end[0] = ends[-1] if len(ends) else 0
    for array in (table.columns, table.values):
        slide(array, order, source, table.start, table.used)
