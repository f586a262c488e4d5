"""Sums of rows of counts with equal keys."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from dranking.clicks.rows.groups import Groups
from dranking.clicks.sessions.runs import comparable
from dranking.clicks.store.night_tables import (
    CLICKS,
    IDS,
    IMPRESSIONS,
    NIGHT,
    OPEN,
    POSITION,
    SESSIONS,
    USER,
    WEIGHT_SUMS,
)

SAMPLE: Final = 1 << 14
"""Number of rows that are looked at to decide whether a table is summed."""

FEWER: Final = 0.9
"""Largest share of distinct rows among these rows. If more of them are distinct, sums would not
make the table small enough to be worth a pass over it."""


def sums_of_rows(rows: pa.Table) -> pa.Table:
    """One row for each key, in the order of the keys' first rows.

    Parameters
    ----------
    rows
        Some of the columns of keys (texts as dictionaries), and some of the columns to sum; sums
        are added in the order of the rows.
    """
    if not rows.num_rows:
        return rows
    keys = _keys(rows)
    group = Groups([comparable(rows.column(name)) for name in keys])
    sums = rows.select(keys).take(pa.array(group.first))
    for name in (IMPRESSIONS, CLICKS, SESSIONS, *WEIGHT_SUMS):
        if name in rows.column_names:
            values = rows.column(name).to_numpy()
            total = group.sum(values) if name in WEIGHT_SUMS else group.total(values)
            sums = sums.append_column(name, pa.array(total))
    return sums


def sums_if_fewer(rows: pa.Table) -> pa.Table:
    """`sums_of_rows`, or the rows themselves if few of them have equal keys.

    Rows with sums of weights are always summed, because the order of these sums decides their last
    bits.
    """
    sample = rows.slice(0, SAMPLE)
    if not sample.num_rows or WEIGHT_SUMS[0] in rows.column_names:
        return sums_of_rows(rows)
    distinct = Groups([comparable(sample.column(name)) for name in _keys(rows)])
    return sums_of_rows(rows) if len(distinct) <= FEWER * sample.num_rows else rows


def _keys(rows: pa.Table) -> list[str]:
    return [name for name in (*IDS, POSITION, NIGHT, USER, OPEN) if name in rows.column_names]
