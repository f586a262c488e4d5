"""Shrinking sparse weights towards zero: each entry on its own, or the norms of groups of them.

Shrinking is lazy: a group of rows is brought up to date when its weights are wanted, by all the
thresholds that it missed, one after the other. That gives, in every bit, the weights of shrinking
all of them each time, because the thresholds of an entry are the same and in the same order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.bilinear.sparse_rows import (
    HEADS,
    RELEASED,
    Table,
    compact,
    prefetch_head,
    prefetch_values,
)
from dranking.kernels.machine.compile import bare, bare_inlined, kernel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Groups(NamedTuple):
    """What is shrunk together.

    Attributes
    ----------
    by_norm
        Whether the norm of each group is shrunk (group lasso), or each entry on its own.
    of_row
        (n_rows,) the row group of each row.
    ptr, rows
        (n_row_groups + 1,) and (n_rows,) rows of each row group. With entries shrunk on their
        own each row is one, of its number, and kernels need not look.
    of_column
        (n_columns,) the column group of each column, or (1,) zero where there is only one. A
        group is a row group within a column group.
    n_column_groups
        Their number.
    """

    by_norm: bool
    of_row: Ints
    ptr: Ints
    rows: Ints
    of_column: Ints
    n_column_groups: int


class Shrinkage(NamedTuple):
    """The thresholds so far.

    Attributes
    ----------
    thresholds
        (n,) of them, in order; the first `n_shrinks` are there.
    seen
        (n_row_groups,) how many of them each row group was shrunk by.
    """

    thresholds: Array
    seen: Ints


class Lazy(NamedTuple):
    """What rows are to be shrunk by before they are used.

    Attributes
    ----------
    groups, shrinkage
        What is shrunk together, and by what; how many thresholds were seen is overwritten.
    n_shrinks
        Thresholds so far.
    grows
        Whether zeros are released; else the support is given.
    """

    groups: Groups
    shrinkage: Shrinkage
    n_shrinks: int
    grows: bool


@bare_inlined
def soft_threshold(values: Any, first: int, last: int, threshold: float) -> None:
    """Bring some values nearer to zero by a threshold, and those within it to zero."""
    # By one subtraction, of the threshold or of the value itself: rounded as the plain formula.
    upper = values.dtype.type(threshold)
    lower = -upper
    for i in range(np.uint64(first), np.uint64(last)):
        values[i] -= max(lower, min(upper, values[i]))


@bare_inlined
def zeros(values: Any, first: int, last: int) -> int:
    """How many of some values are zero."""
    n = np.int32(0)
    for i in range(np.uint64(first), np.uint64(last)):
        n += np.int32(values[i] == 0.0)
    return int(n)


@kernel
def shrink_norms(table: Table, groups: Groups, row_group: Any, thresholds: Array) -> None:
    """Bring the norms of the groups of a row group nearer to zero by thresholds, in turn."""
    scales = np.zeros(groups.n_column_groups)
    first, last = groups.ptr[row_group], groups.ptr[row_group + 1]
    for row in groups.rows[first:last]:
        for i in range(table.start[row], table.start[row] + table.used[row]):
            scales[group_of_entry(table, groups, i)] += np.float64(table.values[i]) ** 2
    for group in range(len(scales)):
        norm = np.sqrt(scales[group])
        left = norm
        for threshold in thresholds:
            left = max(0.0, left - threshold)
        scales[group] = left / norm if norm > 0.0 else 1.0
    for row in groups.rows[first:last]:
        for i in range(table.start[row], table.start[row] + table.used[row]):
            table.values[i] *= scales[group_of_entry(table, groups, i)]


@bare_inlined
def group_of_entry(table: Table, groups: Groups, slot: int) -> int:
    """The column group of an entry."""
    return groups.of_column[table.columns[slot]] if groups.n_column_groups > 1 else 0


@bare_inlined
def group_of(row: Any, groups: Groups) -> Any:
    """The row group of a row."""
    return groups.of_row[row] if groups.by_norm else row


@bare_inlined
def is_behind(row_group: Any, lazy: Lazy) -> bool:
    """Whether a row group missed thresholds."""
    return bool(lazy.shrinkage.seen[row_group] < lazy.n_shrinks)


@bare_inlined
def prefetch_missed(table: Table, row: Any, lazy: Lazy) -> None:
    """Start to bring the values of a row near if `catch_up` will shrink them."""
    if is_behind(group_of(row, lazy.groups), lazy):
        prefetch_values(table, row)


@bare_inlined
def catch_up(table: Table, row: Any, lazy: Lazy) -> None:
    """Shrink the row group of a row by the thresholds that it missed."""
    row_group = group_of(row, lazy.groups)
    if is_behind(row_group, lazy):
        shrink_missed(table, row_group, lazy)


@bare_inlined
def shrink_missed(table: Table, row_group: Any, lazy: Lazy) -> None:
    """Shrink a row group by the thresholds it missed; release zeros unless the support is given."""
    groups, shrinkage, n_shrinks, grows = lazy
    thresholds, seen = shrinkage.thresholds, shrinkage.seen[row_group]
    shrinkage.seen[row_group] = n_shrinks
    if groups.by_norm:
        shrink_norms(table, groups, row_group, thresholds[seen:n_shrinks])
    first, last = row_group, row_group + 1
    if groups.by_norm:
        first, last = groups.ptr[row_group], groups.ptr[row_group + 1]
    for i in range(first, last):
        row = groups.rows[i] if groups.by_norm else i
        start, used = table.start[row], table.used[row]
        if not groups.by_norm:
            for k in range(seen, n_shrinks):
                soft_threshold(table.values, start, start + used, thresholds[k])
        if grows and zeros(table.values, start, start + used) * RELEASED > used:
            compact(table, row)


@bare
def sweep(table: Table, lazy: Lazy, least: int) -> None:
    """Shrink all rows that have at least so many entries by the thresholds they missed."""
    rows, used = lazy.groups.rows, table.used
    for i in range(len(rows)):
        prefetch_head(table, rows[min(i + HEADS, len(rows) - 1)])
        following = rows[min(i + 1, len(rows) - 1)]
        if used[following] >= least:
            prefetch_missed(table, following, lazy)
        if used[rows[i]] >= least:
            catch_up(table, rows[i], lazy)


def entrywise(n_rows: int) -> Groups:
    """Every entry shrunk on its own."""
    rows = np.arange(n_rows)
    return Groups(False, rows, np.arange(n_rows + 1), rows, np.zeros(1, dtype=np.int64), 1)


def normwise(row_groups: Ints, column_groups: Ints) -> Groups:
    """The norms of blocks of W shrunk.

    Parameters
    ----------
    row_groups, column_groups
        (n_rows,) and (n_columns,) whole numbers from 0: a block is where two groups meet.
    """
    n_groups = int(row_groups.max(initial=-1)) + 1
    return Groups(
        by_norm=True,
        of_row=row_groups,
        ptr=np.searchsorted(np.sort(row_groups), np.arange(n_groups + 1)).astype(np.int64),
        rows=np.argsort(row_groups, kind="stable"),
        of_column=column_groups if column_groups.any() else np.zeros(1, dtype=np.int64),
        n_column_groups=int(column_groups.max(initial=0)) + 1,
    )
