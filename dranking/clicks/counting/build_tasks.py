"""The tasks that build a click store: read, and count sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dranking.clicks.counting.appends import hours_of, kept_events
from dranking.clicks.logs.columns import LogColumns, LogForm, UbiRules
from dranking.clicks.logs.events import ASKED, Events, Privacy, row_events
from dranking.clicks.logs.files import LogPart
from dranking.clicks.logs.lists import list_events
from dranking.clicks.logs.problems import FUTURE
from dranking.clicks.logs.read import read_log
from dranking.clicks.logs.ubi import UBI_FIELDS, ubi_events
from dranking.clicks.logs.values import texts
from dranking.clicks.rows.split_files import (
    BucketParts,
    Routed,
    SplitFile,
    get_joined,
    one_array,
    put_split,
)
from dranking.clicks.sessions.nights import SessionRules
from dranking.clicks.sessions.runs import Runs, runs_of
from dranking.clicks.sessions.session_events import FRESH
from dranking.clicks.sessions.sessions import count_sessions
from dranking.clicks.store.manifest import StoredRows
from dranking.clicks.store.night_tables import QUERY, write_table
from dranking.clicks.store.write_store import query_buckets
from dranking.data.parquet.where import names_in_condition, rows_matching
from dranking.errors import DataError
from dranking.files.places import Place
from dranking.ingestion.rows.scratch import Scratch

TABLES = ("counts", "sessions", "users")
"""Tables of the counts of a bucket of sessions, in the order in which they are written; "users"
only if counts by user are made."""

OPTIONAL = ("user", "weight", "arm", "context", "page", "kind")
"""Columns of events that are constant in logs without such a column."""


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
    ubi
        The rules of logs of the form `ubi`.
    kept
        Names of the columns in which kept events of open sessions differ from the default; None if
        there are no such events.
    users
        Whether counts are made by user; else users are not kept.
    """

    form: LogForm
    columns: LogColumns
    privacy: Privacy
    latest: int
    where: str | None = None
    ubi: UbiRules = field(default_factory=UbiRules)
    kept: tuple[str, ...] | None = None
    users: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that every file must have."""
        names = () if self.form == "ubi" else self.columns.needed
        optional = {self.columns.position} if self.form == "lists" else set()
        return tuple(n for n in dict.fromkeys((*names, *self._filtered)) if n not in optional)

    @property
    def read(self) -> tuple[str, ...]:
        """Columns to read."""
        more = (*UBI_FIELDS, "_source", self.ubi.page) if self.form == "ubi" else ()
        names = (*self.columns.needed, *more, *self._filtered)
        return tuple(dict.fromkeys(name for name in names if name is not None))

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
            events = ubi_events(table, self.columns, self.privacy, self.ubi)
        else:
            of_form = row_events if self.form == "rows" else list_events
            events = of_form(table, self.columns, self.privacy)
        events.found["filtered_rows"] += n_rows - table.num_rows
        rows = self._until_latest(events)
        rows = rows.drop_columns([n for n in OPTIONAL if n not in self.varying])
        if self.kept is not None:
            rows = rows.append_column(FRESH, pa.array(np.ones(rows.num_rows, bool)))
        return Events(rows, events.found)

    def _until_latest(self, events: Events) -> pa.Table:
        """The events without those of wrong clocks, which are counted."""
        late = events.rows.column("time").to_numpy() > self.latest
        if not late.any():
            return events.rows
        events.found[FUTURE] += int(late.sum())
        return events.rows.filter(pa.array(~late))

    @property
    def varying(self) -> tuple[str, ...]:
        """Columns among `OPTIONAL` that are not constant, and sent to other tasks."""
        varies = {
            "user": self.users and self.columns.user is not None,
            "weight": self.columns.weight is not None,
            "arm": self.columns.arm is not None,
            "context": bool(self.columns.context) or self.ubi.pages == "all",
            "page": self.form == "ubi",
            "kind": self.form != "rows",
        }
        return tuple(name for name in OPTIONAL if varies[name] or name in (self.kept or ()))

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
    """The files with the events of a part of a log: one per table, split by bucket of sessions.

    Attributes
    ----------
    files
        The files.
    n_events
        Number of events.
    found
        Counts by problem.
    hours
        Number of events by hour since 1970.
    """

    files: list[SplitFile]
    n_events: int
    found: Counter[str]
    hours: Counter[int]


def read_part(
    part: LogPart, reading: LogReading, scratch: Scratch, name: str, n_buckets: int
) -> ReadPart:
    """Read a part of a log, and write its events by bucket of sessions: a task."""
    files, n_events, total, hours = [], 0, Counter[str](), Counter[int]()
    tables = read_log(part, reading.read, reading.needed, total, reading.single)
    for number, table in enumerate(tables):
        rows, found = reading.events(table)
        total += found
        hours += hours_of(rows)
        n_events += _n_events(rows)
        rows = rows.unify_dictionaries().combine_chunks()
        if rows.num_rows:
            files.append(_put_events(scratch, f"{name}-{number:06d}", rows, n_buckets))
    return ReadPart(files, n_events, total, hours)


def _n_events(rows: pa.Table) -> int:
    """Number of events that say what was shown or clicked."""
    if "kind" not in rows.column_names:
        return int(rows.num_rows)
    return int((rows.column("kind").to_numpy() != ASKED).sum())


def put_kept(
    root: Place,
    files: Sequence[StoredRows],
    columns: Sequence[str],
    scratch: Scratch,
    n_buckets: int,
) -> list[SplitFile]:
    """Write the kept events of open sessions by bucket of sessions: a task."""
    found = []
    for number, file in enumerate(files):  # one file is in memory at a time
        rows = kept_events(root, file, columns).unify_dictionaries().combine_chunks()
        found.append(_put_events(scratch, f"kept-{number:06d}", rows, n_buckets))
    return found


def _put_events(scratch: Scratch, name: str, events: pa.Table, n_buckets: int) -> SplitFile:
    """Write events by bucket of sessions, as runs."""
    runs = runs_of(events)
    sessions = runs.shared.column("session").to_numpy()
    buckets = (sessions % np.uint64(n_buckets)).astype(np.int64)
    tables = [Routed(runs.shared, buckets), Routed(runs.own, runs.of_events(buckets))]
    return put_split(scratch, name, tables, n_buckets)


class CountedSessions(NamedTuple):
    """The file with the counts of a bucket of sessions: `TABLES`, split by bucket of queries.

    Attributes
    ----------
    file
        The file.
    nights, closed, again, found, taken
        As in `SessionCounts`.
    open
        The entry of the file with the events of open sessions; None if there are none.
    """

    file: SplitFile
    nights: Counter[int]
    closed: Counter[int]
    again: Counter[int]
    found: Counter[str]
    taken: tuple[int, int] | None
    open: StoredRows | None


@dataclass(frozen=True)
class CountPlace:
    """The place of the counts of a bucket of sessions.

    Attributes
    ----------
    root, prefix
        Arguments of `write_bucket`.
    number
        Number of the bucket.
    n_buckets
        Number of buckets of queries.
    """

    root: Place
    prefix: str
    number: int
    n_buckets: int


def count_bucket(
    scratch: Scratch, events: BucketParts, rules: SessionRules, place: CountPlace
) -> CountedSessions:
    """Count the sessions of a bucket, and write the counts by bucket of queries: a task."""
    n_buckets = place.n_buckets
    counted = count_sessions(Runs(*get_joined(scratch, events)), rules)
    tables = []
    for rows in (counted.counts, counted.sessions, counted.users):
        if rows is not None:
            queries = one_array(rows.column(QUERY))
            of_text = query_buckets(queries.dictionary, n_buckets)
            tables.append(Routed(rows, of_text[queries.indices.to_numpy()]))
    written = put_split(scratch, f"counts-{place.number:06d}", tables, n_buckets)
    kept = None
    if counted.open.num_rows:
        name = f"{place.prefix}open-{place.number:06d}.parquet"
        of_file = write_table(place.root, name, counted.open)
        kept = StoredRows(name=name, checksum=of_file, n_rows=counted.open.num_rows)
    nights, closed, again, found = counted.nights, counted.closed, counted.again, counted.found
    return CountedSessions(written, nights, closed, again, found, counted.taken, kept)
