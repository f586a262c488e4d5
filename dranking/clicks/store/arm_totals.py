"""Sessions, impressions and clicks of each arm of a click store."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.night_tables import (
    ARM,
    CLICKS,
    IMPRESSIONS,
    POSITION,
    QUERY,
    read_table,
)


class ArmTotals(NamedTuple):
    """Totals of an arm.

    Attributes
    ----------
    arm
        Name of the arm; empty for rows without an arm.
    n_sessions
        Sessions, each counted once for each of its queries: the most impressions that a query has
        at one position in a night, summed over queries and nights.
    n_impressions, n_clicks
        Impressions and clicks.
    """

    arm: str
    n_sessions: int
    n_impressions: int
    n_clicks: int


def arm_totals(store: ClickStore) -> list[ArmTotals]:
    """The totals of all arms of the nights in use, by name; reads all tables."""
    columns = [QUERY, ARM, POSITION, IMPRESSIONS, CLICKS]
    sums = [(IMPRESSIONS, "sum"), (CLICKS, "sum")]
    found = []
    for night in store.manifest.nights:
        for table in night.tables:
            rows = read_table(store.place, table.name, table.checksum, columns)
            text = rows.column(ARM).cast(pa.string())
            rows = rows.set_column(rows.column_names.index(ARM), ARM, text)
            at = rows.group_by([QUERY, ARM, POSITION], use_threads=False).aggregate(sums)
            pages = at.group_by([QUERY, ARM], use_threads=False).aggregate(
                [("impressions_sum", "max"), ("impressions_sum", "sum"), ("clicks_sum", "sum")]
            )
            found.append(pages.drop_columns([QUERY]))
    if not found:
        return []
    totals = [(name, "sum") for name in found[0].column_names if name != ARM]
    together = (
        pa.concat_tables(found).group_by(ARM, use_threads=False).aggregate(totals).sort_by(ARM)
    )
    names = [f"{name}_sum" for name, _ in totals]
    return [ArmTotals(row[ARM], *(row[name] for name in names)) for row in together.to_pylist()]
