"""The tasks that build a click store: merge the counts of the sessions of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.counting.appends import closed_counts
from dranking.clicks.counting.build_tasks import TABLES
from dranking.clicks.counting.known_documents import KnownDocuments
from dranking.clicks.rows.groups import Groups
from dranking.clicks.rows.split_files import BucketParts, get_joined, joined, one_array
from dranking.clicks.sessions.row_sums import sums_of_rows
from dranking.clicks.sessions.runs import UNKNOWN, comparable
from dranking.clicks.store.manifest import NightTable
from dranking.clicks.store.night_tables import (
    CLICKS,
    DOCUMENT,
    IDS,
    IMPRESSIONS,
    NIGHT,
    OPEN,
    POSITION,
    QUERY,
    SESSIONS,
)
from dranking.clicks.store.write_store import BucketTables, write_bucket
from dranking.files.places import Place
from dranking.ingestion.rows.scratch import Scratch


@dataclass(frozen=True)
class MergeRules:
    """The place of merged tables, and the rules that leave out counts.

    Attributes
    ----------
    root, prefix
        Arguments of `write_bucket`.
    min_sessions
        A night has no counts of queries with fewer sessions in it.
    first_day
        Earlier nights are left out; in days since 1970.
    first_open_day
        Nights from this day on have tables of the closed sessions, too.
    known
        The documents of the data, if all other documents are left out; None if all documents count.
    """

    root: Place
    prefix: str
    min_sessions: int
    first_day: int
    first_open_day: int
    known: KnownDocuments | None = None


class MergedBucket(NamedTuple):
    """Date and entry of each table, and what the merge counted.

    Attributes
    ----------
    tables, closed
        Date and entry of each table, and of each one of the closed sessions.
    n_rare
        Number of rare queries, night by night.
    n_kept, n_absent
        Number of impressions of the other queries, and of those of absent documents among them.
    n_kept_clicks, n_absent_clicks
        Number of clicks of these impressions.
    """

    tables: list[tuple[str, NightTable]]
    closed: list[tuple[str, NightTable]]
    n_rare: int
    n_kept: int
    n_absent: int
    n_kept_clicks: int
    n_absent_clicks: int


def merge_bucket(
    scratch: Scratch,
    bucket: int,
    counts_of_sessions: BucketParts,
    before: Sequence[tuple[int, NightTable]],
    rules: MergeRules,
) -> MergedBucket:
    """Add the counts of all sessions for the queries of a bucket, and write them: a task.

    `before` are the days and the tables of the closed sessions that the store has counted.
    """
    parts = [closed_counts(rules.root, day, table) for day, table in before]
    if counts_of_sessions.names:
        own = get_joined(scratch, counts_of_sessions)
        parts.append(dict(zip(TABLES, own, strict=False)))
    found = {name: _joined([each[name] for each in parts], name) for name in parts[0]}
    found = {name: _recent(rows, rules) for name, rows in found.items()}
    if not found["counts"].num_rows:
        return MergedBucket([], [], 0, 0, 0, 0, 0)
    closed = write_bucket(rules.root, rules.prefix, bucket, _closed(found, rules), "-closed")
    found = {name: rows.drop_columns([OPEN]) for name, rows in found.items()}
    per_query = sums_of_rows(found["sessions"])
    n_rare = int((per_query.column(SESSIONS).to_numpy() < rules.min_sessions).sum())
    if n_rare:
        for name in (name for name in ("counts", "users") if name in found):
            frequent = _looked_up(per_query, found[name]) >= rules.min_sessions
            found[name] = found[name].filter(pa.array(frequent))
    counts = sums_of_rows(found["counts"])
    there = _there(counts, rules.known)
    impressions, clicks = (counts.column(name).to_numpy() for name in (IMPRESSIONS, CLICKS))
    n_absent = int(impressions[~there].sum())
    sums = int(impressions.sum()), n_absent, int(clicks.sum()), int(clicks[~there].sum())
    counts = counts.filter(pa.array(there)) if n_absent else counts
    users = None
    if "users" in found:
        users = sums_of_rows(found["users"])
        users = _whole(users.filter(pa.array(_there(users, rules.known))) if n_absent else users)
    counts = counts.append_column(SESSIONS, pa.array(_looked_up(per_query, counts)))
    tables = write_bucket(rules.root, rules.prefix, bucket, BucketTables(_whole(counts), users))
    return MergedBucket(tables, closed, n_rare, *sums)


def _joined(tables: Sequence[pa.Table], name: str) -> pa.Table:
    """Tables of counts one after another; if there are several, with all columns of the keys."""
    if len(tables) == 1:
        return tables[0]
    return joined(tables if name == "sessions" else [_whole(rows) for rows in tables])


def _closed(found: Mapping[str, pa.Table], rules: MergeRules) -> BucketTables:
    """The counts of closed sessions in the nights of open ones."""
    own = {}
    for name, rows in found.items():
        is_open, night = (rows.column(key).to_numpy() for key in (OPEN, NIGHT))
        chosen = pa.array((is_open == 0) & (night >= rules.first_open_day))
        own[name] = sums_of_rows(rows.filter(chosen).drop_columns([OPEN]))
    counts = own["counts"]
    if not counts.num_rows:
        return BucketTables(counts)
    counts = counts.append_column(SESSIONS, pa.array(_looked_up(own["sessions"], counts)))
    return BucketTables(_whole(counts), _whole(own["users"]) if "users" in own else None)


def _there(rows: pa.Table, known: KnownDocuments | None) -> NDArray[np.bool_]:
    """(n_rows,) whether the data has the document of each row."""
    if known is None or not rows.num_rows:
        return np.ones(rows.num_rows, bool)
    pair = Groups([comparable(rows.column(name)) for name in (QUERY, DOCUMENT)])
    first = rows.select([QUERY, DOCUMENT]).take(pa.array(pair.first))
    ids = [one_array(first.column(name)).cast(pa.string()) for name in (QUERY, DOCUMENT)]
    found: NDArray[np.bool_] = known.has(*ids)[pair.of_row]
    return found


def _recent(rows: pa.Table, rules: MergeRules) -> pa.Table:
    days = rows.column(NIGHT).to_numpy()
    return rows if (days >= rules.first_day).all() else rows.filter(days >= rules.first_day)


def _whole(rows: pa.Table) -> pa.Table:
    """Rows with all columns of the keys, in the types that tables of nights have."""
    for name in (POSITION, NIGHT):
        column = rows.column(name).cast(pa.int32())
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    for place, name in enumerate(IDS):
        if name not in rows.column_names:
            codes = pa.array(np.zeros(rows.num_rows, np.int32))
            empty = pa.DictionaryArray.from_arrays(codes, pa.array([""], pa.string()))
            rows = rows.add_column(place, name, empty)
    return rows


def _looked_up(per_query: pa.Table, counts: pa.Table) -> NDArray[np.int64]:
    """(n_rows,) the sessions of the query and night of each row."""
    known, own = (one_array(rows.column(QUERY)) for rows in (per_query, counts))
    code = np.asarray(pc.index_in(own.dictionary, known.dictionary).fill_null(UNKNOWN))
    queries = [known.indices.to_numpy(), code[own.indices.to_numpy()]]
    nights = [rows.column(NIGHT).to_numpy() for rows in (per_query, counts)]
    group = Groups([np.concatenate(queries), np.concatenate(nights)])
    sessions: NDArray[np.int64] = per_query.column(SESSIONS).to_numpy()
    return sessions[group.first[group.of_row[per_query.num_rows :]]]
