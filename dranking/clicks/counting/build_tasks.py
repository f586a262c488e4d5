"""The tasks that build a click store: read, count sessions, merge the counts of queries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.counting.known_documents import KnownDocuments
from dranking.clicks.logs.columns import LogColumns, LogForm
from dranking.clicks.logs.events import FUTURE, Events, Privacy, row_events
from dranking.clicks.logs.files import LogPart
from dranking.clicks.logs.lists import UBI_FIELDS, list_events, ubi_events
from dranking.clicks.logs.read import read_log
from dranking.clicks.logs.values import texts
from dranking.clicks.rows.groups import Groups
from dranking.clicks.rows.split_files import (
    BucketParts,
    Routed,
    SplitFile,
    get_joined,
    one_array,
    put_split,
)
from dranking.clicks.sessions.row_sums import sums_of_rows
from dranking.clicks.sessions.runs import UNKNOWN, Runs, comparable, runs_of
from dranking.clicks.sessions.sessions import SessionRules, count_sessions
from dranking.clicks.store.manifest import NightTable
from dranking.clicks.store.night_tables import (
    DOCUMENT,
    IDS,
    IMPRESSIONS,
    NIGHT,
    POSITION,
    QUERY,
    SESSIONS,
)
from dranking.clicks.store.write_store import BucketTables, query_buckets, write_bucket
from dranking.data.parquet.where import names_in_condition, rows_matching
from dranking.errors import DataError
from dranking.files.places import Place
from dranking.ingestion.rows.scratch import Scratch

TABLES = ("counts", "sessions", "users")
"""Tables of the counts of a bucket of sessions, in the order in which they are written; "users"
only if counts by user are made."""


@dataclass(frozen=True)
class LogReading:
    """The rules by which a log is read.

    Attributes
    ----------
    form, columns
        Kind of the log, and its columns.
    privacy
        Salt of the hashes, and whether query texts are kept.
    latest
        Later times, in microseconds since 1970, are of wrong clocks.
    where
        Condition that rows of the log must fulfil, or None.
    click_actions
        Actions that are clicks, in logs of the form `ubi`.
    """

    form: LogForm
    columns: LogColumns
    privacy: Privacy
    latest: int
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
    def single(self) -> tuple[str, ...]:
        """Columns with one value a row."""
        own = self.columns
        names = (own.session, own.query, own.time, own.user, own.arm, *own.context)
        of_results = (own.document, own.position, own.clicked, own.weight)
        more = of_results if self.form == "rows" else ()
        return tuple(name for name in (*names, *more) if name is not None)

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
        rows = self._until_latest(events).drop_columns(self._constant)
        return Events(rows, events.found)

    def _until_latest(self, events: Events) -> pa.Table:
        """The events without those of wrong clocks, which are counted."""
        late = events.rows.column("time").to_numpy() > self.latest
        if not late.any():
            return events.rows
        events.found[FUTURE] += int(late.sum())
        return events.rows.filter(pa.array(~late))

    @property
    def _constant(self) -> list[str]:
        """Columns that are constant in the events of such a log, and not sent to other tasks."""
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
        return table.filter(pa.array(rows_matching(where, columns, "--filter")))


class ReadPart(NamedTuple):
    """The files with the events of a part of a log: one per table, split by bucket of sessions."""

    files: list[SplitFile]
    n_events: int
    found: Counter[str]


def read_part(
    part: LogPart, reading: LogReading, scratch: Scratch, name: str, n_buckets: int
) -> ReadPart:
    """Read a part of a log, and write its events by bucket of sessions: a task."""
    files, n_events, total = [], 0, Counter[str]()
    tables = read_log(part, reading.read, reading.needed, total, reading.single)
    for number, table in enumerate(tables):
        rows, found = reading.events(table)
        total += found
        n_events += rows.num_rows
        rows = rows.unify_dictionaries().combine_chunks()
        if rows.num_rows:
            files.append(_put_events(scratch, f"{name}-{number:06d}", rows, n_buckets))
    return ReadPart(files, n_events, total)


def _put_events(scratch: Scratch, name: str, events: pa.Table, n_buckets: int) -> SplitFile:
    """Write events by bucket of sessions, as runs."""
    runs = runs_of(events)
    sessions = runs.shared.column("session").to_numpy()
    buckets = (sessions % np.uint64(n_buckets)).astype(np.int64)
    tables = [Routed(runs.shared, buckets), Routed(runs.own, runs.of_events(buckets))]
    return put_split(scratch, name, tables, n_buckets)


class CountedSessions(NamedTuple):
    """The file with the counts of a bucket of sessions: `TABLES`, split by bucket of queries."""

    file: SplitFile
    nights: Counter[int]
    found: Counter[str]


def count_bucket(
    scratch: Scratch, events: BucketParts, rules: SessionRules, name: str, n_buckets: int
) -> CountedSessions:
    """Count the sessions of a bucket, and write the counts by bucket of queries: a task."""
    counted = count_sessions(Runs(*get_joined(scratch, events)), rules)
    tables = []
    for rows in (counted.counts, counted.sessions, counted.users):
        if rows is not None:
            queries = one_array(rows.column(QUERY))
            of_text = query_buckets(queries.dictionary, n_buckets)
            tables.append(Routed(rows, of_text[queries.indices.to_numpy()]))
    written = put_split(scratch, name, tables, n_buckets)
    return CountedSessions(written, counted.nights, counted.found)


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
    known
        The documents of the data, if all other documents are left out; None if all documents count.
    """

    root: Place
    prefix: str
    min_sessions: int
    first_day: int
    known: KnownDocuments | None = None


class MergedBucket(NamedTuple):
    """Date and entry of each table, and what the merge counted.

    Attributes
    ----------
    tables
        Date and entry of each table.
    n_rare
        Number of rare queries, night by night.
    n_kept, n_absent
        Number of impressions of the other queries, and of those of absent documents among them.
    """

    tables: list[tuple[str, NightTable]]
    n_rare: int
    n_kept: int
    n_absent: int


def merge_bucket(
    scratch: Scratch, bucket: int, counts_of_sessions: BucketParts, rules: MergeRules
) -> MergedBucket:
    """Add the counts of all sessions for the queries of a bucket, and write them: a task."""
    found = dict(zip(TABLES, get_joined(scratch, counts_of_sessions), strict=False))
    found = {name: _recent(rows, rules) for name, rows in found.items()}
    if not found["counts"].num_rows:
        return MergedBucket([], 0, 0, 0)
    per_query = sums_of_rows(found["sessions"])
    n_rare = int((per_query.column(SESSIONS).to_numpy() < rules.min_sessions).sum())
    if n_rare:
        for name in (name for name in ("counts", "users") if name in found):
            frequent = _looked_up(per_query, found[name]) >= rules.min_sessions
            found[name] = found[name].filter(pa.array(frequent))
    counts = sums_of_rows(found["counts"])
    there = _there(counts, rules.known)
    impressions = counts.column(IMPRESSIONS).to_numpy()
    n_kept, n_absent = int(impressions.sum()), int(impressions[~there].sum())
    counts = counts.filter(pa.array(there)) if n_absent else counts
    users = None
    if "users" in found:
        users = sums_of_rows(found["users"])
        users = _whole(users.filter(pa.array(_there(users, rules.known))) if n_absent else users)
    counts = counts.append_column(SESSIONS, pa.array(_looked_up(per_query, counts)))
    tables = write_bucket(rules.root, rules.prefix, bucket, BucketTables(_whole(counts), users))
    return MergedBucket(tables, n_rare, n_kept, n_absent)


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
