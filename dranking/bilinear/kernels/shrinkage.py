"""Shrinkage of sparse weights towards zero: of every entry, or of the norms of groups of entries.

Shrinkage is lazy: a group of rows is shrunk when its weights are needed, by all thresholds that the
group missed, one after the other. The result equals, in every bit, the result of shrinking all
weights each time, because every entry meets the same thresholds in the same order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.kernels.sparse_rows import RELEASED, Table, compact
from dranking.kernels.machine.compile import kernel, part

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Groups(NamedTuple):
    """The groups of entries that are shrunk together.

    Attributes
    ----------
    by_norm
        Whether the norm of each group is shrunk (group lasso); if not, each entry is shrunk alone.
    of_row
        (n_rows,) row group of each row.
    ptr, rows
        (n_row_groups + 1,) and (n_rows,): the rows of row group g are `rows[ptr[g]:ptr[g + 1]]`.
        Without `by_norm`, row group i is row i, and kernels do not read `ptr` and `rows`.
    of_column
        (n_columns,) column group of each column, or (1,) zero if there is only one column group. A
        group of entries is the part of a row group that lies in one column group.
    n_column_groups
        Number of column groups.
    """

    by_norm: bool
    of_row: Ints
    ptr: Ints
    rows: Ints
    of_column: Ints
    n_column_groups: int


class Shrinkage(NamedTuple):
    """The thresholds so far, and how many of them each row group has met.

    Attributes
    ----------
    thresholds
        (n,) thresholds in order, of which the first `n_shrinks` are set.
    seen
        (n_row_groups,) number of thresholds by which each row group was shrunk.
    """

    thresholds: Array
    seen: Ints


class Lazy(NamedTuple):
    """The groups and thresholds by which a row is shrunk before the row is used.

    Attributes
    ----------
    groups, shrinkage
        Groups of entries, and the thresholds; `shrinkage.seen` is overwritten.
    n_shrinks
        Number of thresholds so far.
    grows
        Whether zeros are released. If not, the support of the matrix is fixed, and zeros stay
        stored.
    """

    groups: Groups
    shrinkage: Shrinkage
    n_shrinks: int
    grows: bool


@part
def soft_threshold(values: Any, first: int, last: int, threshold: float) -> None:
    """Soft-threshold the values first to last."""
    # One subtraction, of the threshold or of the value itself, rounds as the plain formula does.
    upper = values.dtype.type(threshold)
    lower = -upper
    for i in range(np.uint64(first), np.uint64(last)):
        values[i] -= max(lower, min(upper, values[i]))


@part
def zeros(values: Any, first: int, last: int) -> int:
    """Return the number of zeros among the values first to last."""
    n = np.int32(0)
    for i in range(np.uint64(first), np.uint64(last)):
        n += np.int32(values[i] == 0.0)
    return int(n)


@kernel
def shrink_norms(table: Table, groups: Groups, row_group: Any, thresholds: Array) -> None:
    """Soft-threshold the norms of all groups of a row group by thresholds, one after the other."""
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


@part
def group_of_entry(table: Table, groups: Groups, slot: int) -> int:
    """Return the column group of the entry in a slot."""
    return groups.of_column[table.columns[slot]] if groups.n_column_groups > 1 else 0


@part
def group_of(row: Any, groups: Groups) -> Any:
    """Return the row group of a row."""
    return groups.of_row[row] if groups.by_norm else row


@kernel
def catch_up(table: Table, row: Any, lazy: Lazy) -> None:
    """Shrink the row group of a row by the thresholds that the group missed.

    Zeros are released if the support may change.
    """
    groups, shrinkage, n_shrinks, grows = lazy
    row_group = group_of(row, groups)
    thresholds, seen = shrinkage.thresholds, shrinkage.seen[row_group]
    if seen == n_shrinks:
        return
    shrinkage.seen[row_group] = n_shrinks
    first, last = row_group, row_group + 1
    if groups.by_norm:
        shrink_norms(table, groups, row_group, thresholds[seen:n_shrinks])
        first, last = groups.ptr[row_group], groups.ptr[row_group + 1]
    for i in range(first, last):
        row = groups.rows[i] if groups.by_norm else i
        start, used = table.start[row], table.used[row]
        if not groups.by_norm:
            for k in range(seen, n_shrinks):
                soft_threshold(table.values, start, start + used, thresholds[k])
        if grows and zeros(table.values, start, start + used) * RELEASED > used:
            compact(table, row)


@kernel
def sweep(table: Table, lazy: Lazy, least: Any) -> None:
    """Shrink all rows with at least `least` entries by the thresholds that they missed."""
    for row in range(len(table.start)):
        if table.used[row] >= least:
            catch_up(table, row, lazy)


def entrywise(n_rows: int) -> Groups:
    """Return groups for which every entry is shrunk alone."""
    rows = np.arange(n_rows)
    return Groups(False, rows, np.arange(n_rows + 1), rows, np.zeros(1, dtype=np.int64), 1)


def normwise(row_groups: Ints, column_groups: Ints) -> Groups:
    """Return groups whose norms are shrunk: the blocks of W where a row and a column group meet.

    Parameters
    ----------
    row_groups, column_groups
        (n_rows,) and (n_columns,) int64 numbers of groups, counted from 0.
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
