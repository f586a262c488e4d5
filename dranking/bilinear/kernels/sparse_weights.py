"""A sparse matrix whose entries change and grow in number; `sparse_rows` defines its storage."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.bilinear.kernels.sparse_rows import (
    SLACK,
    Ints,
    Table,
    Values,
    compact,
    copy_slots,
    n_slots_for,
)
from dranking.kernels.machine.compile import kernel

UNUSED = 3
"""Holes in full pools are closed if at least a third of the slots given to rows is unused."""

GROWTH = 8
"""Full pools grow by an eighth of their slots."""


@kernel
def release(table: Table) -> None:
    """Release the zeros of all rows."""
    for row in range(len(table.start)):
        compact(table, row)


@kernel
def fill(table: Table, indptr: Ints, indices: NDArray[np.int32], data: Values) -> None:
    """Store the rows of a CSR matrix in an empty table whose pools have room for the rows."""
    for row in range(len(indptr) - 1):
        first, n = indptr[row], indptr[row + 1] - indptr[row]
        start, capacity = table.end[0], n_slots_for(n)
        table.start[row], table.used[row], table.capacity[row] = start, n, capacity
        table.end[0] += capacity
        for i in range(n):
            table.columns[start + i] = table.place[indices[first + i]]
            table.values[start + i] = data[first + i]


@kernel
def drain(table: Table, order: NDArray[np.int32], indices: NDArray[np.int32], data: Values) -> None:
    """Write the entries of a table, row by row, into the arrays of a CSR matrix."""
    n = 0
    for row in range(len(table.start)):
        for i in range(table.start[row], table.start[row] + table.used[row]):
            indices[n], data[n] = order[table.columns[i]], table.values[i]
            n += 1


@kernel
def slide(array: Any, order: Ints, source: Ints, target: Ints, count: Ints) -> None:
    """Move the slots of rows nearer to the beginning of a pool; `order` sorts rows by slot."""
    for row in order:
        if source[row] != target[row]:
            copy_slots(array, source[row], target[row], count[row])


class SparseWeights:
    """A sparse float32 matrix whose entries change and grow in number.

    Parameters
    ----------
    matrix
        (n_rows, n_columns) sparse matrix to start from; its stored zeros stay stored.
    order
        (n_columns,) columns in the order in which their entries lie in memory; columns that are
        looked up most often come first.
    """

    def __init__(self, matrix: Any, order: NDArray[np.int32] | None = None) -> None:
        matrix = sparse.csr_array(matrix)
        matrix.sum_duplicates()
        self.shape: tuple[int, int] = matrix.shape
        n_rows, n_columns = self.shape
        indptr = matrix.indptr.astype(np.int64)
        counts = np.diff(indptr)
        n_slots = int((counts + counts // SLACK + 4).sum()) + 1  # one more than `fill` uses
        self.order = np.arange(n_columns, dtype=np.int32) if order is None else order
        place = np.empty_like(self.order)
        place[self.order] = np.arange(n_columns, dtype=np.int32)
        start, capacity, used = np.zeros((3, n_rows), dtype=np.int64)
        self._table = Table(
            place,
            start,
            capacity,
            used,
            end=np.zeros(1, dtype=np.int64),
            columns=np.empty(n_slots, dtype=np.uint16 if n_columns <= 2**16 else np.int32),
            values=np.empty(n_slots, dtype=np.float32),
        )
        data = matrix.data.astype(np.float32, copy=False)
        fill(self._table, indptr, matrix.indices.astype(np.int32, copy=False), data)
        self.peak_bytes = self.nbytes

    @property
    def table(self) -> Table:
        """The arrays of the matrix. `make_room` and `trim` change the length of the pools."""
        return self._table

    @property
    def n_stored(self) -> int:
        """Number of stored entries, including zeros."""
        return int(self._table.used.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, including free slots and holes."""
        return sum(array.nbytes for array in self._table)

    def make_room(self, n_slots: int) -> None:
        """Free `n_slots` slots at the end of the pools: close holes, or enlarge the pools.

        Closing holes takes slots from rows that have more slots than they use, so the caller must
        call `room_for` again.

        Raises
        ------
        MemoryError
            If the system has no memory left; the matrix is unchanged.
        """
        t = self._table
        if (t.end[0] - t.used.sum()) * UNUSED > t.end[0]:
            close_holes(t, t.used + t.used // SLACK)
        end = int(t.end[0])
        if end + n_slots >= len(t.columns):
            self._resize(end + max(n_slots, end // GROWTH) + 1)
            self.peak_bytes = max(self.peak_bytes, self.nbytes)

    def trim(self) -> None:
        """Return the memory of slots that no row uses to the system."""
        close_holes(self._table, self._table.used.copy())
        self._resize(int(self._table.end[0]) + 1)

    def release(self) -> None:
        """Release all zeros."""
        release(self._table)

    def to_csr(self) -> sparse.csr_array:
        """Return the matrix, with its stored zeros, as a CSR array with sorted columns."""
        n = self.n_stored
        indptr = np.concatenate([[0], np.cumsum(self._table.used)])
        indices = np.empty(n, dtype=np.int32)
        data = np.empty(n, dtype=self._table.values.dtype)
        drain(self._table, self.order, indices, data)
        if n <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)  # SciPy converts the indices to the type of indptr.
        matrix = sparse.csr_array((data, indices, indptr), shape=self.shape)
        matrix.sort_indices()
        return matrix

    def _resize(self, n_slots: int) -> None:
        # In place, so that there are never two copies of W: the system moves the pages of a large
        # array. No view of a pool outlives a kernel, so references need no check. The columns are
        # resized last, since their number says how many slots there are.
        for pool in (self._table.values, self._table.columns):
            pool.resize(n_slots, refcheck=False)


def close_holes(table: Table, capacity: Ints) -> None:
    """Move the rows together. Row i keeps at most `capacity[i]` slots."""
    order = np.argsort(table.start, kind="stable")
    source = table.start.copy()
    np.minimum(table.capacity, capacity, out=table.capacity)
    ends = np.cumsum(table.capacity[order])
    table.start[order] = ends - table.capacity[order]
    table.end[0] = ends[-1] if len(ends) else 0
    for array in (table.columns, table.values):
        slide(array, order, source, table.start, table.used)
