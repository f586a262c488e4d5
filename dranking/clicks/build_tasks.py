"""The tasks that build a click store: read, count sessions, merge the counts of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.exchange import get_joined, joined, put_split
from dranking.clicks.groups import Groups
from dranking.clicks.known_documents import KnownDocuments
from dranking.clicks.logs.columns import LogColumns, LogForm
from dranking.clicks.logs.events import Events, Privacy, row_events
from dranking.clicks.logs.files import LogPart
from dranking.clicks.logs.lists import UBI_FIELDS, list_events, ubi_events
from dranking.clicks.logs.read import read_log
from dranking.clicks.logs.values import texts
from dranking.clicks.manifest import NightTable
from dranking.clicks.night_tables import (
    CLICKS,
    DOCUMENT,
    IDS,
    IMPRESSIONS,
    NIGHT,
    POSITION,
    QUERY,
    SESSIONS,
    USER,
    WEIGHT_SUMS,
)
from dranking.clicks.sessions import SessionRules, count_sessions
from dranking.clicks.write_store import BucketTables, query_buckets, write_bucket
from dranking.data.ingest.scan import Span
from dranking.data.ingest.scratch import Scratch
from dranking.data.parquet.where import names_in_condition, rows_matching
from dranking.errors import DataError
from dranking.files.places import Place

TABLES = ("counts", "sessions", "users")


@dataclass(frozen=True)
class LogReading:
    """How a log is read.

    Attributes
    ----------
    form, columns
        Kind of the log, and its columns.
    privacy
        How ids are kept.
    where
        Condition that rows of the log must fulfil, or None.
    click_actions
        `ubi`: actions that are clicks.
    """

    form: LogForm
    columns: LogColumns
    privacy: Privacy
    where: str | None = None
    click_actions: tuple[str, ...] = ("click",)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that every file must have."""
        names = () if self.form == "ubi" else self.columns.needed
        optional = {self.columns.position} if self.form == "lists" else set()
        return tuple(n for n in dict.fromkeys((*names, *self._filtered)) if n not in optional)

    @property
    def read(self) -> tuple[str, ...]:
        """Columns to read."""
        more = (*UBI_FIELDS, "_source") if self.form == "ubi" else ()
        return tuple(dict.fromkeys((*self.columns.needed, *more, *self._filtered)))

    @property
    def _filtered(self) -> tuple[str, ...]:
        return () if self.where is None else tuple(names_in_condition(self.where, "--filter"))

    def events(self, table: pa.Table) -> Events:
        """The events of a table of the log."""
        n_rows = table.num_rows
        if self.where is not None:
            table = self._matching(table, self.where)
        if self.form == "ubi":
            events = ubi_events(table, self.columns, self.privacy, self.click_actions)
        else:
            of_form = row_events if self.form == "rows" else list_events
            events = of_form(table, self.columns, self.privacy)
        events.found["filtered_rows"] += n_rows - table.num_rows
        return Events(events.rows.drop_columns(self._constant), events.found)

    @property
    def _constant(self) -> list[str]:
        """Columns of events that say nothing of such a log, and are not sent from task to task."""
        given = {
            "user": self.columns.user is not None,
            "weight": self.columns.weight is not None,
            "arm": self.columns.arm is not None,
            "context": bool(self.columns.context),
            "shown": self.form != "rows",
        }
        return [name for name, is_given in given.items() if not is_given]

    def _matching(self, table: pa.Table, where: str) -> pa.Table:
        columns = {}
        for name in self._filtered:
            if name not in table.column_names:
                raise DataError(f"--filter {where!r}: the log has no column {name!r}.")
            values = table.column(name).combine_chunks()
            if pa.types.is_boolean(values.type):
                values = values.cast(pa.string())
            columns[name] = texts(values)[0].cast(pa.string())
        return table.filter(pa.array(rows_matching(where, columns, table.num_rows, "--filter")))


class ReadPart(NamedTuple):
    """Where the events of a part of a log are: for each bucket of sessions, one span a table."""

    spans: list[list[Span | None]]
    n_events: int
    found: Counter[str]


def read_part(
    part: LogPart, reading: LogReading, scratch: Scratch, name: str, n_buckets: int
) -> ReadPart:
    """Read a part of a log, and write its events by bucket of sessions: a task."""
    spans, n_events, total = [], 0, Counter[str]()
    for number, table in enumerate(read_log(part, reading.read, reading.needed, total)):
        rows, found = reading.events(table)
        total += found
        n_events += rows.num_rows
        rows = rows.unify_dictionaries().combine_chunks()
        if rows.num_rows:
            buckets = (rows.column("session").to_numpy() % np.uint64(n_buckets)).astype(np.int64)
            spans.append(put_split(scratch, f"{name}-{number:06d}", rows, buckets, n_buckets))
    return ReadPart(spans, n_events, total)


class CountedSessions(NamedTuple):
    """Where the counts of a bucket of sessions are: for each of `TABLES`, spans by query bucket."""

    spans: dict[str, list[Span | None]]
    nights: Counter[int]
    found: Counter[str]


def count_bucket(
    scratch: Scratch, spans: Sequence[Span], rules: SessionRules, name: str, n_buckets: int
) -> CountedSessions:
    """Count the sessions of a bucket, and write the counts by bucket of queries: a task."""
    counted = count_sessions(get_joined(scratch, spans), rules)
    written = {}
    for table in TABLES:
        rows: pa.Table | None = getattr(counted, table)
        if rows is not None and rows.num_rows:
            queries = rows.column(QUERY).combine_chunks()
            of_text = query_buckets(queries.dictionary, n_buckets)
            buckets = of_text[queries.indices.to_numpy()]
            written[table] = put_split(scratch, f"{name}-{table}", rows, buckets, n_buckets)
    return CountedSessions(written, counted.nights, counted.found)


@dataclass(frozen=True)
class MergeRules:
    """Where merged tables are written, and what is left out.

    Attributes
    ----------
    root, prefix
        As of `write_bucket`.
    min_sessions
        Queries with fewer sessions, in the nights that are merged, are left out.
    first_day
        Earlier nights are left out; in days since 1970.
    known
        The documents of the data, where others are left out; None if all count.
    """

    root: Place
    prefix: str
    min_sessions: int
    first_day: int
    known: KnownDocuments | None = None


class MergedBucket(NamedTuple):
    """Date and entry of each table, and how many queries and impressions were left out."""

    tables: list[tuple[str, NightTable]]
    n_rare: int
    n_absent: int


def merge_bucket(
    scratch: Scratch, bucket: int, spans: Mapping[str, Sequence[Span]], rules: MergeRules
) -> MergedBucket:
    """Add the counts of all sessions for the queries of a bucket, and write them: a task."""
    found = {name: _recent(get_joined(scratch, own), rules) for name, own in spans.items() if own}
    if not found or not found["counts"].num_rows:
        return MergedBucket([], 0, 0)
    per_query = _added(found["sessions"], (QUERY,), (NIGHT,))
    kept = _frequent(per_query, rules.min_sessions)
    n_rare = len(set(per_query.column(QUERY).to_pylist())) - len(kept)
    counts = _added(_of_queries(found["counts"], kept), IDS, (POSITION, NIGHT))
    there = _there(counts, rules.known)
    n_absent = int(counts.column(IMPRESSIONS).to_numpy()[~there].sum())
    counts = counts.filter(pa.array(there)) if n_absent else counts
    users = None
    if "users" in found:
        users = _added(_of_queries(found["users"], kept), IDS, (POSITION, NIGHT, USER))
        users = users.filter(pa.array(_there(users, rules.known))) if n_absent else users
    counts = counts.append_column(SESSIONS, pa.array(_looked_up(per_query, counts)))
    tables = write_bucket(rules.root, rules.prefix, bucket, BucketTables(counts, users))
    return MergedBucket(tables, n_rare, n_absent)


def _there(rows: pa.Table, known: KnownDocuments | None) -> NDArray[np.bool_]:
    """(n_rows,) whether the data has the document of each row."""
    if known is None or not rows.num_rows:
        return np.ones(rows.num_rows, bool)
    pair = Groups([_codes(rows, QUERY), _codes(rows, DOCUMENT)])
    first = rows.select([QUERY, DOCUMENT]).take(pa.array(pair.first))
    ids = [first.column(name).combine_chunks().cast(pa.string()) for name in (QUERY, DOCUMENT)]
    found: NDArray[np.bool_] = known.has(*ids)[pair.of_row]
    return found


def _recent(rows: pa.Table, rules: MergeRules) -> pa.Table:
    days = rows.column(NIGHT).to_numpy()
    return rows if (days >= rules.first_day).all() else rows.filter(days >= rules.first_day)


def _frequent(per_query: pa.Table, min_sessions: int) -> list[str]:
    """The queries with enough sessions in all nights."""
    queries = per_query.column(QUERY).combine_chunks()
    total = np.bincount(
        queries.indices.to_numpy(), per_query.column(SESSIONS).to_numpy(), len(queries.dictionary)
    )
    used = np.unique(queries.indices.to_numpy())
    names: list[str] = queries.dictionary.take(
        pa.array(used[total[used] >= min_sessions])
    ).to_pylist()
    return names


def _of_queries(rows: pa.Table, kept: Sequence[str]) -> pa.Table:
    queries = rows.column(QUERY).combine_chunks()
    chosen = np.isin(queries.dictionary.to_pylist(), list(kept))
    mask = chosen[queries.indices.to_numpy()]
    return rows if mask.all() else rows.filter(pa.array(mask))


def _added(rows: pa.Table, texts: Sequence[str], numbers: Sequence[str]) -> pa.Table:
    """One row for each key, with sums of all other columns, added in the order of the rows."""
    if not rows.num_rows:
        return rows
    keys = [_codes(rows, name) for name in texts]
    keys += [rows.column(name).to_numpy().view() for name in numbers]
    group = Groups(keys)
    first = rows.take(pa.array(group.first))
    for name in (IMPRESSIONS, CLICKS, SESSIONS, *WEIGHT_SUMS):
        if name in rows.column_names:
            values = rows.column(name).to_numpy()
            sums = group.sum(values) if name in WEIGHT_SUMS else group.total(values)
            first = first.set_column(first.schema.get_field_index(name), name, pa.array(sums))
    return first


def _codes(rows: pa.Table, name: str) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = rows.column(name).combine_chunks().indices.to_numpy()
    return codes


def _looked_up(per_query: pa.Table, counts: pa.Table) -> NDArray[np.int64]:
    """(n_rows,) the sessions of the query and night of each row."""
    both = joined([per_query.select([QUERY, NIGHT]), counts.select([QUERY, NIGHT])])
    group = Groups([_codes(both, QUERY), both.column(NIGHT).to_numpy()])
    sessions: NDArray[np.int64] = per_query.column(SESSIONS).to_numpy()
    return sessions[group.first[group.of_row[per_query.num_rows :]]]
