"""Rows of a matrix that stays sparse while entries are added.

A row is a list of columns and a list of values, in no particular order: a new entry goes to the
end. Before columns are looked up, the positions of a row's columns are noted in an array over all
columns. Every visit to a row has a number, which tells the notes of this visit from older notes, so
that the array is not cleared between visits. Work and memory follow the entries, however many
columns W has.

All rows share two arrays, the *pools*. A row that outgrows its slots moves to the end of the pools;
the holes that remain are closed when the pools are full and too many of their slots are unused.

Computed indices are unsigned: an unsigned index needs no check for being negative, and without
these checks a step takes about half the time (`pipelines/benchmarks/bilinear.py`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import part

Ints = NDArray[np.int64]
Columns = NDArray[np.int32]
Values = Any
"""A float32 array."""

SLACK = 4
"""A row that moves gets a quarter more slots than it uses."""

RELEASED = 5
"""Zeros of a row are released once they are a fifth of its entries, so that at most 1.25 entries
are stored for every nonzero."""

POSITION = 2**32 - 1
"""Bits of a note that hold the position of a column in its row; the bits above hold the visit."""


class Table(NamedTuple):
    """The arrays of a matrix.

    Attributes
    ----------
    place
        (n_columns,) number of each column in the pools.
    start, capacity, used
        (n_rows,) first slot of each row, number of its slots, and number of its used slots.
    end
        (1,) number of slots given to rows so far.
    columns, values
        The pools. `columns` are uint16 if that type numbers all columns, else int32; `values` are
        float32. Both have more than `end` slots, since the first slot of a row is read even if the
        row is empty.
    """

    place: Columns
    start: Ints
    capacity: Ints
    used: Ints
    end: Ints
    columns: Any
    values: Values


@part
def enter_row(table: Table, row: Any, visit: Any, positions: Ints) -> None:
    """Note the positions of a row's columns under the number of a visit."""
    start, columns = table.start[row], table.columns
    for i in range(table.used[row]):
        positions[np.uint64(columns[np.uint64(start + i)])] = (visit << 32) | i


@part
def find(column: Any, visit: Any, positions: Ints) -> Any:
    """Return the position of a column in the row that a visit entered, or -1."""
    # Bit operations instead of a condition, which a compiler may turn into a branch: whether an
    # entry exists cannot be predicted.
    noted = positions[np.uint64(column)]
    is_other = ((noted >> 32) ^ visit) != 0
    return (noted & POSITION) | -np.int64(is_other)


@part
def n_slots_for(count: Any) -> Any:
    """Return the number of slots that a row of `count` entries gets when it moves."""
    return count + count // SLACK + 4


@part
def room_for(table: Table, row: Any, n_new: Any) -> Any:
    """Return the slots at the end of the pools that a row needs for `n_new` more entries.

    The result is 0 if the row has room. A row always has a slot behind its used slots.
    """
    n = min(table.used[row] + n_new, len(table.place))
    return n_slots_for(n) if n >= table.capacity[row] else 0


@part
def has_room(table: Table, n_slots: Any) -> bool:
    """Return whether `n_slots` slots are free at the end of the pools."""
    return bool(table.end[0] + n_slots < len(table.columns))


@part
def copy_slots(array: Any, source: Any, target: Any, n: Any) -> None:
    """Copy n slots to slots before them or behind all of them."""
    for i in range(np.uint64(n)):
        array[np.uint64(target) + i] = array[np.uint64(source) + i]


@part
def give_room(table: Table, row: Any, n_new: Any) -> None:
    """Give a row room for `n_new` more entries and move it if necessary; see `has_room`."""
    n_slots = room_for(table, row, n_new)
    if n_slots > 0:
        source, target = table.start[row], table.end[0]
        copy_slots(table.columns, source, target, table.used[row])
        copy_slots(table.values, source, target, table.used[row])
        table.start[row], table.capacity[row] = target, n_slots
        table.end[0] += n_slots


@part
def compact(table: Table, row: Any) -> None:
    """Release the zeros of a row."""
    columns, values, start = table.columns, table.values, table.start[row]
    target = start
    for i in range(start, start + table.used[row]):
        column, value = columns[np.uint64(i)], values[np.uint64(i)]
        # The next entry overwrites this one if its value is zero.
        columns[np.uint64(target)], values[np.uint64(target)] = column, value
        target += np.int64(value != 0.0)
    table.used[row] = target - start
