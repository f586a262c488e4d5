"""Rows of a matrix that stay sparse while entries are added to them.

A row is a list of columns and one of values, in no order: a new entry goes to its end. To look
columns up, those of the row are noted in an array of all columns, once for all that is asked of the
row. Every visit to a row has a number, by which its notes are told from older ones, so that these
are never cleared. So work and memory follow the entries, however many columns there are.

Rows lie in two arrays that they share, the *pools*; a row that outgrows its slots moves to the end,
and the holes that remain are closed when the pools are full and too much of them unused.

What is indexed by a computed number is indexed by an unsigned one, which need not be checked for
being negative.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import bare_inlined
from dranking.kernels.machine.instructions import prefetch, shift

Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Values = Any
"""float32 or float64 array."""

SLACK = 4
"""A row gets a quarter of slots more than it uses when it moves."""

RELEASED = 5
"""Zeros are released once they are a fifth of the entries of a row: 1.25 stored per nonzero."""

HEADS, NEAR = 16, 4
"""Rows from one that is looked up to one whose place is brought near, and to one that is itself."""

POSITION = 2**32 - 1
"""The bits of a note that say where in its row a column is; those above are the visit's."""

NUMBERS_OF_ROW = 4
"""What is known of a row lies side by side, in so many words."""


class Table(NamedTuple):
    """The arrays of a matrix.

    Attributes
    ----------
    place
        (n_columns,) number that each column has in here.
    start, capacity, used
        (n_rows,) first slot of each row, slots that it has, and slots that it uses.
    end, limit
        (1,) slots given to rows so far, and slots that may be given. The pools are longer: see
        `RESERVED`.
    columns, values
        The pools: uint16 if that numbers all columns, else int32; float32 or float64.
    """

    place: Columns
    start: Ints
    capacity: Ints
    used: Ints
    end: Ints
    limit: Ints
    columns: Any
    values: Values


@bare_inlined
def enter_row(table: Table, row: Any, visit: Any, positions: Ints) -> None:
    """Note of each column of a row, under the number of a visit, where in the row it is."""
    start, columns = table.start[row], table.columns
    for i in range(table.used[row]):
        positions[np.uint64(columns[np.uint64(start + i)])] = (visit << 32) | i


@bare_inlined
def find(column: Any, visit: Any, positions: Ints) -> Any:
    """Where a column is in the row that a visit entered, or -1."""
    # By bits, for a compiler might make a branch of a condition, and there is no guessing it.
    noted = positions[np.uint64(column)]
    is_other = ((noted >> 32) ^ visit) != 0
    return (noted & POSITION) | -np.int64(is_other)


@bare_inlined
def prefetch_head(table: Table, row: Any) -> None:
    """Start to bring near where a row lies."""
    prefetch(table.start, row * NUMBERS_OF_ROW)  # counted in words from the first row's


@bare_inlined
def prefetch_slots(pool: Any, first: Any, last: Any) -> None:
    """Start to bring near some slots of a pool."""
    for slot in range(first, last, 64 // pool.itemsize):
        prefetch(pool, slot)


@bare_inlined
def prefetch_columns(table: Table, row: Any) -> None:
    """Start to bring near the columns of a row."""
    prefetch_slots(table.columns, table.start[row], table.start[row] + table.used[row])


@bare_inlined
def prefetch_values(table: Table, row: Any) -> None:
    """Start to bring near the values of a row."""
    prefetch_slots(table.values, table.start[row], table.start[row] + table.used[row])


@bare_inlined
def prefetch_free(table: Table, row: Any, n: Any) -> None:
    """Start to bring near the next n slots that a row will use."""
    end = table.start[row] + table.used[row]
    prefetch_slots(table.columns, end, end + n)
    prefetch_slots(table.values, end, end + n)


@bare_inlined
def wanted(count: Any) -> Any:
    """Slots that a row of so many gets when it moves."""
    return count + count // SLACK + 4


@bare_inlined
def room_for(table: Table, row: Any, n_new: Any) -> Any:
    """Slots at the end of the pools that a row needs to get so many more; 0 if it has room.

    It always has one behind those that it uses.
    """
    n = min(table.used[row] + n_new, len(table.place))
    return wanted(n) if n >= table.capacity[row] else 0


@bare_inlined
def has_room(table: Table, n_slots: Any) -> bool:
    """Whether so many slots are free at the end of the pools."""
    return bool(table.end[0] + n_slots <= table.limit[0])


@bare_inlined
def give_room(table: Table, row: Any, n_new: Any) -> None:
    """Give a row room for so many more, maybe elsewhere; `has_room` says that there is."""
    n_slots = room_for(table, row, n_new)
    if n_slots > 0:
        source, target = table.start[row], table.end[0]
        shift(table.columns, source, target, table.used[row])
        shift(table.values, source, target, table.used[row])
        table.start[row], table.capacity[row] = target, n_slots
        table.end[0] += n_slots


@bare_inlined
def compact(table: Table, row: Any) -> None:
    """Release the zeros of a row."""
    columns, values, start = table.columns, table.values, table.start[row]
    target = start
    for i in range(start, start + table.used[row]):
        column, value = columns[np.uint64(i)], values[np.uint64(i)]
        # Written over by the next one if it is zero.
        columns[np.uint64(target)], values[np.uint64(target)] = column, value
        target += np.int64(value != 0.0)
    table.used[row] = target - start
