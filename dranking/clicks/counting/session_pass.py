"""The first half of a build: sessions are counted, those of the log and the open ones before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from dranking.clicks.counting.appends import HOUR, border_of, parse_duration
from dranking.clicks.counting.build_tasks import (
    CountedSessions,
    CountPlace,
    LogReading,
    ReadPart,
    count_bucket,
    put_kept,
    read_part,
)
from dranking.clicks.counting.click_log import MAX_BUCKETS, ClickLog
from dranking.clicks.counting.log_rows import Wanted, named_rows
from dranking.clicks.logs.files import LogPart
from dranking.clicks.logs.problems import FUTURE
from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.split_files import BucketParts
from dranking.clicks.sessions.nights import NEVER, SessionRules
from dranking.clicks.store.manifest import ClicksManifest, Night
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.errors import DataError
from dranking.files.writing.commit import DirectoryCommit
from dranking.ingestion.gathering import results_of
from dranking.ingestion.rows.scratch import Scratch

EVENTS_PER_BUCKET = 1 << 20
"""Largest number of events whose sessions one task counts; with the tables made of them, they take
about 300 MB of memory."""

QUICK_EVENTS = 1 << 18
"""Number of events whose tables of groups fit in the processor's caches: a log is cut into buckets
of about so many events."""

MOST_QUICK = 64
"""Largest number of such buckets: writing more files would cost more time than the caches save."""

NIGHTS = 28
"""Number of nights that a new store is expected to hold, each as large as the first log."""

ROWS_PER_BUCKET = 1 << 23
"""Largest number of rows that a bucket of queries is expected to have after `NIGHTS` nights.
Results that were shown more than once share rows, so that buckets have far fewer."""

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Build:
    """A build: the log, where it goes, and how it runs."""

    log: ClickLog
    facts: Mapping[str, Any]
    before: ClicksManifest | None
    commit: DirectoryCommit
    scratch: Scratch
    executor: Executor
    window: int | None
    data: Dataset | None
    tell: Callable[[str], None]

    @property
    def closed(self) -> Mapping[str, Night]:
        """By date, the counts of closed sessions that the store has in nights of open ones."""
        kept = self.before.open if self.before else None
        return {night.date: night for night in kept.nights} if kept else {}


@dataclass(frozen=True)
class Counted:
    """Counts of the sessions of a log, and of open sessions before it.

    Attributes
    ----------
    buckets
        The counts of each bucket of sessions.
    n_buckets
        Number of buckets of queries.
    n_events
        Number of events of the log.
    found
        Counts by problem and note.
    border, open_since
        Border of the store with this log, and the time from which sessions are open.
    columns
        Names of the columns in which events differ from the default.
    newest
        The day of the newest event of each part of the log; None for a part without events.
    """

    buckets: Sequence[CountedSessions]
    n_buckets: int
    n_events: int
    found: Counter[str]
    border: int
    open_since: int
    columns: tuple[str, ...]
    newest: tuple[int | None, ...]

    @property
    def nights(self) -> Counter[int]:
        """Number of sessions by day."""
        return sum((each.nights for each in self.buckets), Counter())


def counted_sessions(build: Build, parts: Sequence[LogPart], reading: LogReading) -> Counted:
    """Read a log and count its sessions."""
    read, events = _read(build, parts, reading)
    _check_clock(build, parts, reading, read)
    n_events = sum(each.n_events for each in read)
    longest, last_day = parse_duration(build.facts["longest_session"]), _day_if(build.log.until)
    hours: Counter[int] = sum((each.hours for each in read), Counter())
    if last_day is not None:
        hours = Counter({h: n for h, n in hours.items() if h * HOUR < (last_day + 1) * DAY})
    before = build.before.open.border if build.before and build.before.open else None
    border = border_of(hours, before, reading.latest - DAY)
    open_since = border - 2 * longest
    rules = SessionRules(
        build.log.max_clicks,
        _day_if(build.log.since),
        last_day,
        weights=build.facts["has_weights"],
        users=build.log.users,
        open_since=open_since,
        longest=longest,
        first_pages=build.log.ubi.pages == "first",
        there=_nights_there(build, NEVER if before is None else before - longest),
    )
    buckets, n_buckets = _count(build, events, n_events, rules)
    _check_places(build, parts, reading, buckets)
    found: Counter[str] = sum((each.found for each in read), Counter())
    found = sum((each.found for each in buckets), found)
    newest = tuple(max(each.hours) * HOUR // DAY if each.hours else None for each in read)
    return Counted(buckets, n_buckets, n_events, found, border, open_since, reading.varying, newest)


def _nights_there(build: Build, late_since: int) -> tuple[tuple[int, int], ...]:
    """The nights of the store, and since when sessions that it does not know may have begun."""
    dates = {night.date for night in build.before.nights} if build.before else set()
    dates |= set(build.closed)
    return tuple(
        (day_of(night), late_since if night in build.closed else NEVER) for night in sorted(dates)
    )


def _read(
    build: Build, parts: Sequence[LogPart], reading: LogReading
) -> tuple[list[ReadPart], list[BucketParts]]:
    """Read all parts, and find the events of each bucket of sessions, in the order of the log."""
    kept = build.before.open_files if build.before else ()
    n_events = sum(part.n_events for part in parts) + sum(file.n_rows for file in kept)
    quick = min(-(-n_events // QUICK_EVENTS), MOST_QUICK)
    n_buckets = max(-(-n_events // EVENTS_PER_BUCKET), quick)
    run, scratch, root = build.executor, build.scratch, build.commit.root
    shared = run.submit(given, reading, name="reading")
    before = run.submit(put_kept, root, kept, reading.varying, scratch, n_buckets, name="kept")
    tasks = [
        run.submit(read_part, part, shared, scratch, f"events-{n:06d}", n_buckets, name="read")
        for n, part in enumerate(parts)
    ]
    files, *read = results_of(run, [before, *tasks], "read")
    files += [file for each in read for file in each.files]
    buckets = [BucketParts.of(files, bucket) for bucket in range(n_buckets)] if files else []
    return read, [events for events in buckets if events.names]


def _count(
    build: Build, events: Sequence[BucketParts], n_events: int, rules: SessionRules
) -> tuple[list[CountedSessions], int]:
    """Count the sessions of all buckets."""
    n_buckets = build.facts.get("n_buckets") or build.log.n_buckets or _n_buckets(n_events)
    build.commit.remove_replaced()
    root, prefix = build.commit.root, build.commit.name("parts/")
    tasks = [
        build.executor.submit(
            count_bucket,
            build.scratch,
            own,
            rules,
            CountPlace(root, prefix, n, n_buckets),
            name="sessions",
        )
        for n, own in enumerate(events)
    ]
    return list(results_of(build.executor, tasks, "sessions")), n_buckets


def _n_buckets(n_events: int) -> int:
    """Number of buckets of queries of a new store: a power of two, as if the log were one night."""
    wanted = -(-n_events * NIGHTS // ROWS_PER_BUCKET)
    small = n_events <= EVENTS_PER_BUCKET
    return 1 if small else min(1 << (wanted - 1).bit_length(), MAX_BUCKETS)


def _check_clock(
    build: Build, parts: Sequence[LogPart], reading: LogReading, read: Sequence[ReadPart]
) -> None:
    """Raise DataError if the log has nights that are still to come, and no last night is given.

    Such a night would be the newest one, back from which a window counts.
    """
    last = _day_if(build.log.until)
    late = [part for part, each in zip(parts, read, strict=True) if each.found[FUTURE]]
    if not late or (last is not None and last <= reading.latest // DAY):
        return
    own = [part for part in parts if part.place == late[0].place]
    row = named_rows(own, reading, Wanted(later_than=reading.latest), build.executor)
    raise DataError(
        f"{row}: the time is more than a day ahead of the clock of this machine, as "
        f"{sum(each.found[FUTURE] for each in read):,} events of the log are. Correct the times, "
        "leave such rows out with --filter, or give --until DATE, the last night to keep."
    )


def _check_places(
    build: Build, parts: Sequence[LogPart], reading: LogReading, buckets: Sequence[CountedSessions]
) -> None:
    """Raise DataError if a session has two documents at one place, in logs of rows or of lists.

    In logs of the form `ubi`, such results are counted as events that cannot be used.
    """
    taken = [each.taken for each in buckets if each.taken]
    if not taken or build.log.form == "ubi":
        return
    session, position = taken[0]
    n_rows = 2 if build.log.form == "rows" else 1
    rows = named_rows(parts, reading, Wanted(None, session, position), build.executor, n_rows)
    n_taken = sum(each.found["places_taken"] for each in buckets)
    raise DataError(
        f"{rows}: two documents are at position {position} for one session and query, and "
        f"{n_taken:,} such results are in the log. If positions begin again on every page, name "
        "the column of pages in --context-columns, or leave later pages out with --filter; if a "
        "session saw several lists of one query, give each an id of a session of its own."
    )


def date_of(day: int) -> str:
    """The date of a day since 1970, such as ``2026-11-01``."""
    return date.fromordinal(max(day + _EPOCH.toordinal(), 1)).isoformat()


def day_of(text: str) -> int:
    """The day since 1970 of a date."""
    return (date.fromisoformat(text) - _EPOCH).days


def _day_if(text: str | None) -> int | None:
    """The day since 1970 of a date; None for no date."""
    return None if text is None else day_of(text)
