"""Writing of click stores: the tables of a bucket, the manifest, and stores of given counts."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.rows.groups import packed_keys
from dranking.clicks.rows.split_files import parts_of
from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.manifest import ClicksManifest, Night, NightTable, manifest_json
from dranking.clicks.store.night_tables import (
    ARM,
    CLICKS,
    CONTEXT,
    DOCUMENT,
    IDS,
    IMPRESSIONS,
    NIGHT,
    POSITION,
    QUERY,
    SESSIONS,
    SORTED_BY,
    USER,
    WEIGHT_SUMS,
    sorted_texts,
    write_table,
)
from dranking.data.regrouping.query_lines import hash_ids
from dranking.files.places import AnyPlace, Place
from dranking.files.writing.commit import DirectoryCommit, begin_directory


class BucketTables(NamedTuple):
    """The rows of one bucket: counts, and counts by user or None.

    Both have `SORTED_BY` (texts as dictionaries, int32 positions, nights as int32 days since 1970)
    and the counts.
    """

    counts: pa.Table
    users: pa.Table | None = None


def query_buckets(queries: pa.Array, n_buckets: int) -> NDArray[np.int64]:
    """(n,) number of the bucket of each query text; equal on every machine."""
    return (hash_ids(queries) % np.uint64(n_buckets)).astype(np.int64)


def write_bucket(
    root: Place, prefix: str, bucket: int, tables: BucketTables, ending: str = ""
) -> list[tuple[str, NightTable]]:
    """Write the tables of a bucket, one for each night: a task.

    Parameters
    ----------
    root, prefix
        `DirectoryCommit.root`, and `DirectoryCommit.name` of ``parts/``.
    bucket
        Number of the bucket.
    tables
        The rows, in any order.
    ending
        Ending of the names of the files.

    Returns
    -------
    The date and the entry of each night, ascending.
    """
    written: list[tuple[str, NightTable]] = []
    if not tables.counts.num_rows:
        return written
    by_user = None if tables.users is None else _by_night(tables.users)
    for day, rows in _by_night(tables.counts).items():
        name = f"{prefix}{_date(day):%Y%m%d}-{bucket:06d}{ending}"
        users: dict[str, str] = {}
        if by_user is not None:
            users["users_name"] = f"{name}-users.parquet"
            users["users_checksum"] = write_table(root, users["users_name"], by_user[day])
        entry = NightTable(
            bucket=bucket,
            name=f"{name}.parquet",
            checksum=write_table(root, f"{name}.parquet", rows),
            n_rows=rows.num_rows,
            n_queries=len(rows.column(QUERY).unique()),
            n_impressions=pc.sum(rows.column(IMPRESSIONS)).as_py(),
            n_clicks=pc.sum(rows.column(CLICKS)).as_py(),
            **users,
        )
        written.append((_date(day).isoformat(), entry))
    return written


def finish_store(
    commit: DirectoryCommit,
    facts: Mapping[str, Any],
    nights: Sequence[Night],
) -> ClickStore:
    """Put the manifest of a store.

    Parameters
    ----------
    commit
        The directory.
    facts
        Entries of the manifest other than the nights.
    nights
        The nights, in any order.

    Raises
    ------
    UsageError
        If a table is not there, because a worker wrote it on a host that has another directory.
    """
    manifest = ClicksManifest(**facts, nights=tuple(sorted(nights, key=lambda night: night.date)))
    entries = [*manifest.nights, *(manifest.open.nights if manifest.open else ())]
    tables = [table for night in entries for table in night.tables]
    names = [name for table in tables for name in (table.name, table.users_name) if name]
    names += [file.name for file in manifest.open_files]
    commit.check_parts(name for name in names if commit.token in name)
    commit.finish(manifest_json(manifest))
    return ClickStore(commit.place)


def nights_of(tables: Sequence[tuple[str, NightTable]], sessions: Mapping[str, int]) -> list[Night]:
    """Entries of nights, from date and entry of each table, and the number of sessions by date."""
    by_date = defaultdict(list)
    for night, table in sorted(tables, key=lambda item: (item[0], item[1].bucket)):
        by_date[night].append(table)
    return [
        Night(date=night, n_sessions=sessions.get(night, 0), tables=tuple(of_night))
        for night, of_night in by_date.items()
    ]


def write_click_store(
    counts: ClickCounts, place: AnyPlace, *, n_buckets: int = 1, overwrite: bool = False
) -> ClickStore:
    """Write counts in memory as a click store, whole or not at all.

    The number of sessions of a night is unknown, and 0 in the store.

    Parameters
    ----------
    counts
        The counts. The sessions of a query are shown at its first night, 0 if they are unknown.
    place
        Directory to write.
    n_buckets
        Number of buckets.
    overwrite
        Replace a store that exists.

    Raises
    ------
    UsageError
        If the place exists and `overwrite` is false, or is not of the project.
    DataError, TryAgainError
        If a store of objects refuses access, or is out of reach.
    """
    rows = _rows_of(counts)
    buckets = query_buckets(pa.array(counts.query_ids.tolist(), pa.string()), n_buckets)
    facts = {
        "n_buckets": n_buckets,
        "salt": secrets.token_hex(16),
        "has_weights": counts.weight_sum is not None,
    }
    with begin_directory(place, overwrite=overwrite) as commit:
        commit.remove_replaced()
        tables = []
        for bucket in range(n_buckets):
            own = BucketTables(rows.filter(pa.array(buckets[counts.query] == bucket)))
            tables += write_bucket(commit.root, commit.name("parts/"), bucket, own)
        return finish_store(commit, facts, nights_of(tables, {}))


def _rows_of(counts: ClickCounts) -> pa.Table:
    names: dict[str, list[str]] = {
        QUERY: counts.query_ids.tolist(),
        DOCUMENT: counts.document_ids.tolist(),
        CONTEXT: list(counts.contexts),
        ARM: list(counts.arms),
    }
    columns: dict[str, Any] = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(getattr(counts, name).astype(np.int32)), pa.array(texts, pa.string())
        )
        for name, texts in names.items()
    }
    columns[POSITION] = pa.array(counts.position.astype(np.int32))
    days = counts.nights.astype("datetime64[D]").astype(np.int32)
    columns[NIGHT] = pa.array(days[counts.night])
    columns[IMPRESSIONS] = counts.impressions
    columns[CLICKS] = counts.clicks
    columns[SESSIONS] = _sessions_of_first_night(counts)
    for name in WEIGHT_SUMS:
        if getattr(counts, name) is not None:
            columns[name] = getattr(counts, name)
    return pa.table(columns)


def _sessions_of_first_night(counts: ClickCounts) -> NDArray[np.int64]:
    """(n_rows,) the sessions of a query in the rows of its first night, 0 in all others."""
    if counts.sessions is None:
        return np.zeros(len(counts.query), np.int64)
    first = np.full(len(counts.query_ids), len(counts.nights))
    np.minimum.at(first, counts.query, counts.night)
    return np.where(counts.night == first[counts.query], counts.sessions[counts.query], 0)


def _by_night(rows: pa.Table) -> dict[int, pa.Table]:
    """The rows of each night, sorted, without the column of the night."""
    keys = {name: sorted_texts(rows.column(name))[1] for name in IDS}
    for name in (NIGHT, POSITION, USER):
        if name in rows.column_names:
            keys[name] = rows.column(name).to_numpy()
    order = [NIGHT, *(name for name in (*SORTED_BY, USER) if name in keys and name != NIGHT)]
    words = packed_keys([keys[name] for name in order])
    sorted_rows = np.lexsort(words[::-1]) if len(words) > 1 else np.argsort(words[0])
    days = keys[NIGHT][sorted_rows]
    rows = rows.drop_columns([NIGHT]).take(pa.array(sorted_rows))
    starts = np.flatnonzero(np.append(True, days[1:] != days[:-1]))
    columns = {
        name: parts_of(rows.column(name), np.append(starts[1:], len(days)))
        for name in rows.column_names
    }
    return {
        day: pa.table({name: parts[number] for name, parts in columns.items()})
        for number, day in enumerate(days[starts].tolist())
    }


def _date(day: int) -> date:
    return date(1970, 1, 1) + timedelta(days=day)
