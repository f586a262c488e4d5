"""The second half of a build: the counts of sessions become the nights of a store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from dranking.clicks.counting.appends import dropped_results
from dranking.clicks.counting.known_documents import known_documents
from dranking.clicks.counting.merge_tasks import MergedBucket, MergeRules, merge_bucket
from dranking.clicks.counting.session_pass import Build, Counted, date_of, day_of
from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.split_files import BucketParts
from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.manifest import (
    Night,
    NightTable,
    OpenSessions,
    StoredRows,
    TakenFile,
)
from dranking.clicks.store.write_store import finish_store, nights_of
from dranking.engine.tile_tasks import given
from dranking.errors import DataError
from dranking.ingestion.gathering import results_of


def merged_nights(build: Build, counted: Counted, first_day: int) -> list[MergedBucket]:
    """Merge the counts of all sessions, and write the tables."""
    known = None
    if build.data is not None:
        salt = None if build.log.keep_queries else build.facts["salt"]
        known = known_documents(build.data, salt, build.executor)
    root, prefix = build.commit.root, build.commit.name("parts/")
    open_day = counted.open_since // DAY
    rules = MergeRules(root, prefix, build.log.min_sessions, first_day, open_day, known)
    shared = build.executor.submit(given, rules, name="rules")
    files = [each.file for each in counted.buckets]
    before: dict[int, list[tuple[int, NightTable]]] = defaultdict(list)
    for date_of_night, night in build.closed.items():
        for table in night.tables:
            before[table.bucket].append((day_of(date_of_night), table))
    parts = [BucketParts.of(files, bucket) for bucket in range(counted.n_buckets)]
    tasks = [
        build.executor.submit(
            merge_bucket, build.scratch, bucket, own, before[bucket], shared, name="merge"
        )
        for bucket, own in enumerate(parts)
        if own.names or before[bucket]
    ]
    return list(results_of(build.executor, tasks, "merge"))


def finished_store(
    build: Build,
    counted: Counted,
    merged: Sequence[MergedBucket],
    first_day: int,
    keys: Sequence[str],
) -> ClickStore:
    """Put the manifest."""
    before, first = build.before, date_of(first_day)
    counted_anew = _nights(build, counted.nights, [t for each in merged for t in each.tables])
    changed = set(map(date_of, counted.nights)) | set(build.closed)
    nights = [
        *counted_anew,
        *(
            n
            for n in (before.nights if before else ())
            if n.date >= first and n.date not in changed
        ),
    ]
    if not nights:
        raise DataError(
            "no night would be left in the store: all queries have fewer sessions in a night than "
            "--min-sessions, or all documents are absent from the data. Allow more, or build from "
            "more of the log."
        )
    taken = {file.key: file.night for file in (before.taken if before else ())}
    for key, day in zip(keys, counted.newest, strict=True):
        newest = max(night.date for night in nights) if day is None else date_of(day)
        taken[key] = max(newest, taken.get(key, ""))
    files = [TakenFile(key=key, night=night) for key, night in taken.items() if night >= first]
    kept = OpenSessions(
        border=counted.border,
        columns=counted.columns,
        files=_open_files(build, counted, first_day),
        nights=_closed_nights(build, counted, merged, first_day),
    )
    manifest = {"n_buckets": counted.n_buckets, "open": kept, "taken": tuple(files)}
    build.scratch.clear()
    return finish_store(build.commit, {**build.facts, **manifest}, nights)


def _nights(
    build: Build, sessions: Counter[int], tables: Sequence[tuple[str, NightTable]]
) -> list[Night]:
    """Nights of tables; closed sessions that the store had counted are added to the `sessions`."""
    n_sessions = {date_of(day): n for day, n in sessions.items()}
    for date, night in build.closed.items():
        n_sessions[date] = n_sessions.get(date, 0) + night.n_sessions
    return nights_of(tables, n_sessions)


def _open_files(build: Build, counted: Counted, first_day: int) -> tuple[StoredRows, ...]:
    """The files of open sessions, without the results of nights before the first day."""
    files = [each.open for each in counted.buckets if each.open]
    if counted.open_since >= first_day * DAY:
        return tuple(files)
    run, root = build.executor, build.commit.root
    tasks = [run.submit(dropped_results, root, file, first_day, name="dropped") for file in files]
    return tuple(results_of(run, tasks, "dropped"))


def _closed_nights(
    build: Build, counted: Counted, merged: Sequence[MergedBucket], first_day: int
) -> tuple[Night, ...]:
    """The nights of open sessions with the counts of their closed ones, which may be none.

    Nights before the first day are left out, also where sessions of theirs are open: an append
    takes these sessions for those of a night that was dropped.
    """
    sessions: Counter[int] = Counter()
    for each in counted.buckets:
        sessions.update(each.closed)
    found = _nights(build, sessions, [table for each in merged for table in each.closed])
    first = max(counted.open_since // DAY, first_day)
    without = {date_of(day) for day in sessions if day >= first}
    without -= {night.date for night in found}
    found += [Night(date=date, n_sessions=0, tables=()) for date in without]
    return tuple(sorted(found, key=lambda night: night.date))


def check_nights(build: Build, counted: Counted) -> int:
    """Return the first day to keep, and tell what the window drops.

    Raises
    ------
    DataError
        If the log has no night, or a night that is in the store already.
    """
    nights = counted.nights
    if not nights or not counted.n_events:
        raise DataError("there is no session to count: the log is empty, or nothing of it is kept.")
    there = build.before.nights if build.before else ()
    again = {day for each in counted.buckets for day in each.again}
    again |= {*nights} & {day_of(n.date) for n in there if n.date not in build.closed}
    if again:
        raise DataError(
            f"{build.commit.place}: the night {date_of(min(again))} is there already, and "
            f"{len(again)} nights of the log in all. Give --since and --until to append other "
            "nights only, or build the store anew with --overwrite."
        )
    if build.window is None:
        return -(2**31)
    newest = max([*nights, *(day_of(night.date) for night in there)])
    first = newest - build.window + 1
    if gone := [night for night in there if night.date < date_of(first)]:
        n_rows = sum(table.n_rows for night in gone for table in night.tables)
        build.tell(
            f"the window of {build.window}d up to {date_of(newest)} drops {len(gone)} "
            f"nights of the store, {gone[0].date} to {gone[-1].date}, with {n_rows:,} rows"
        )
    return first
