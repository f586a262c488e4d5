"""Building click stores from logs, as tasks on threads or on a cluster.

Sessions meet, and then queries, by an exchange of rows by hash. The group-bys and the join of
`dask.dataframe` give the same counts, in twice the time and with a quarter more memory a worker on
500,000 impressions (topic "dask" of `pipelines.benchmarks.clicks`), but not the rules of sessions,
windows and bad events, which look at a session's events one after the other.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from dranking.clicks.counting.build_tasks import (
    CountedSessions,
    LogReading,
    MergedBucket,
    MergeRules,
    ReadPart,
    count_bucket,
    merge_bucket,
    read_part,
)
from dranking.clicks.counting.click_log import (
    MAX_BUCKETS,
    ClickFacts,
    ClickLog,
    check_clicks_alone,
    check_first_position,
    checked_log,
    parse_window,
)
from dranking.clicks.counting.known_documents import known_documents
from dranking.clicks.counting.log_rows import Wanted, named_rows
from dranking.clicks.logs.csv_records import with_states
from dranking.clicks.logs.events import FUTURE, Privacy
from dranking.clicks.logs.files import LogPart, find_logs
from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.split_files import BucketParts
from dranking.clicks.sessions.sessions import SessionRules
from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.manifest import ClicksManifest
from dranking.clicks.store.write_store import finish_store
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.ingestion.gathering import results_of
from dranking.ingestion.ingest import job_scratch
from dranking.ingestion.open import as_paths
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
class _Build:
    """A build: the log, where it goes, and how it runs."""

    log: ClickLog
    facts: Mapping[str, Any]
    before: ClicksManifest | None
    commit: DirectoryCommit
    scratch: Scratch
    executor: Executor
    window: int | None
    data: Dataset | None


def build_clicks(  # noqa: PLR0913 - one call with keywords, as commands have options
    logs: AnyPlace | Sequence[AnyPlace],
    output: AnyPlace,
    log: ClickLog | None = None,
    *,
    data: Dataset | None = None,
    window: str | None = None,
    append: bool = False,
    overwrite: bool = False,
    scratch: AnyPlace | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
) -> tuple[ClickStore, ClickFacts]:
    """Count the clicks of logs, and store the counts by night, whole or not at all.

    The result does not depend on the executor, in any bit. Sums of weights depend in their last
    bits on the order of the files; everything else does not.

    Parameters
    ----------
    logs
        Parquet files, JSON lines (``.ndjson``, ``.jsonl``, ``.json``) and CSV (``.csv``, ``.tsv``),
        text also with ``.gz``; or folders of them, whose folders ``key=value`` are columns.
    output
        Directory of the store, a path or a URL.
    log
        Form and columns of the log, and the rules by which sessions count.
    data
        A data set: impressions of documents that it lacks are counted, and left out.
    window
        Number of nights to keep, counted back from the newest, such as ``28d``; None keeps all.
    append
        Add nights to a store that exists. A night that is there already is an error.
    overwrite
        Replace a store that exists.
    scratch
        A folder or URL that all workers see, for temporary files, as in `dranking.ingest`.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.
    executor
        An executor, a `distributed.Client`, or "threads"; None means the current Dask client, or
        threads.

    Returns
    -------
    store
        The store.
    facts
        Numbers of events, of problems and of other findings in the log.

    Raises
    ------
    DataError
        If the logs are missing or damaged, lack a column, hold no session, or more of their events
        than `max_unmatched` cannot be used; if a time is more than a day ahead and `ClickLog.until`
        is not given; if no night is left, or one is in the store already.
    UsageError
        If the output exists and neither `overwrite` nor `append` is true, or an option is wrong.
    TryAgainError
        If a store or the cluster is out of reach, or another process changes the store.
    """
    log = checked_log(log or ClickLog())
    n_nights = None if window is None else parse_window(window)
    running, place = get_executor(executor), as_place(output, storage_options)
    temporary = None if scratch is None else as_place(scratch, storage_options)
    with (
        begin_directory(place, overwrite=overwrite, append=append) as commit,
        job_scratch(commit, temporary, running) as files,
    ):
        before = ClickStore(place).manifest if append else None
        facts = _facts(log, before)
        build = _Build(log, facts, before, commit, files, running, n_nights, data)
        return _run(build, as_paths(logs, storage_options))


def _facts(log: ClickLog, before: ClicksManifest | None) -> dict[str, Any]:
    """Entries of the manifest; if the store exists, its entries must be the same."""
    facts = {
        "keep_queries": log.keep_queries,
        "has_users": log.users,
        "has_weights": log.columns.weight is not None,
        "context_columns": log.columns.context,
        "filter_columns": log.columns.filters,
    }
    if before is None:
        return {**facts, "salt": log.salt or secrets.token_hex(16)}
    for name, value in facts.items():
        if value != (was := getattr(before, name)):
            raise UsageError(
                f"the store was built with {name} {was}, and this call has {value}; append with "
                "the same options, or build the store anew."
            )
    if log.salt not in (None, before.salt):
        raise UsageError("the store has another salt; leave the salt out to append.")
    return {**facts, "salt": before.salt, "n_buckets": before.n_buckets}


def _run(build: _Build, sources: Sequence[AnyPlace]) -> tuple[ClickStore, ClickFacts]:
    reading = LogReading(
        build.log.form,
        build.log.columns,
        Privacy(build.facts["salt"], build.log.keep_queries),
        latest_time(),
        build.log.where,
        build.log.click_actions,
    )
    parts = with_states(find_logs(sources, reading.needed), build.executor)
    read, events = _read(build, parts, reading)
    _check_clock(build, parts, reading, read)
    n_events = sum(each.n_events for each in read)
    counted, n_buckets = _count(build, events, n_events)
    found: Counter[str] = sum((each.found for each in read), Counter())
    found = sum((each.found for each in counted), found)
    facts = ClickFacts.of(n_events, found)
    nights: Counter[int] = sum((each.nights for each in counted), Counter())
    dropped = found["sessions_over_max_clicks"] + found["sessions_of_other_nights"]
    check_first_position(found, sum(nights.values()) + dropped)
    facts.check(build.log.max_unmatched)
    check_clicks_alone(found, build.log.max_unmatched)
    first_day = _check_nights(build, nights)
    merged = _merge(build, counted, n_buckets, first_day)
    facts.notes["sessions_before_window"] = sum(n for day, n in nights.items() if day < first_day)
    facts.notes["rare_queries"] = sum(each.n_rare for each in merged)
    facts.problems["absent_documents"] = sum(each.n_absent for each in merged)
    facts = facts._replace(n_kept=sum(each.n_kept for each in merged))
    facts.check(build.log.max_unmatched)
    tables = [table for each in merged for table in each.tables]
    kept = [n for n in build.before.nights if n.date >= _date_of(first_day)] if build.before else []
    if not tables and not kept:
        raise DataError(
            "no night would be left in the store: all queries have fewer sessions in a night than "
            "--min-sessions, or all documents are absent from the data. Allow more, or build from "
            "more of the log."
        )
    build.scratch.clear()
    store = finish_store(
        build.commit,
        {**build.facts, "n_buckets": n_buckets},
        tables,
        {_date_of(day): n for day, n in nights.items() if day >= first_day},
        kept,
    )
    return store, facts


def _read(
    build: _Build, parts: Sequence[LogPart], reading: LogReading
) -> tuple[list[ReadPart], list[BucketParts]]:
    """Read all parts, and find the events of each bucket of sessions, in the order of the log."""
    n_events = sum(part.n_events for part in parts)
    quick = min(-(-n_events // QUICK_EVENTS), MOST_QUICK)
    n_buckets = max(-(-n_events // EVENTS_PER_BUCKET), quick)
    shared = build.executor.submit(given, reading, name="reading")
    tasks = [
        build.executor.submit(
            read_part, part, shared, build.scratch, f"events-{n:06d}", n_buckets, name="read"
        )
        for n, part in enumerate(parts)
    ]
    read: list[ReadPart] = list(results_of(build.executor, tasks, "read"))
    files = [file for each in read for file in each.files]
    buckets = [BucketParts.of(files, bucket) for bucket in range(n_buckets)] if files else []
    return read, [events for events in buckets if events.names]


def _count(
    build: _Build, events: Sequence[BucketParts], n_events: int
) -> tuple[list[CountedSessions], int]:
    """Count the sessions of all buckets."""
    log = build.log
    n_buckets = build.facts.get("n_buckets") or log.n_buckets or _n_buckets(n_events)
    rules = SessionRules(
        log.max_clicks,
        _day_of(log.since),
        _day_of(log.until),
        weights=build.facts["has_weights"],
        users=log.users,
    )
    tasks = [
        build.executor.submit(
            count_bucket, build.scratch, own, rules, f"counts-{n:06d}", n_buckets, name="sessions"
        )
        for n, own in enumerate(events)
    ]
    return list(results_of(build.executor, tasks, "sessions")), n_buckets


def _n_buckets(n_events: int) -> int:
    """Number of buckets of queries of a new store: a power of two, as if the log were one night."""
    wanted = -(-n_events * NIGHTS // ROWS_PER_BUCKET)
    small = n_events <= EVENTS_PER_BUCKET
    return 1 if small else min(1 << (wanted - 1).bit_length(), MAX_BUCKETS)


def _merge(
    build: _Build, counted: Sequence[CountedSessions], n_buckets: int, first_day: int
) -> list[MergedBucket]:
    """Merge the counts of all sessions, and write the tables."""
    known = None
    if build.data is not None:
        salt = None if build.log.keep_queries else build.facts["salt"]
        known = known_documents(build.data, salt, build.executor)
    root, prefix = build.commit.root, build.commit.name("parts/")
    rules = MergeRules(root, prefix, build.log.min_sessions, first_day, known)
    shared = build.executor.submit(given, rules, name="rules")
    files = [each.file for each in counted]
    parts = [BucketParts.of(files, bucket) for bucket in range(n_buckets)]
    tasks = [
        build.executor.submit(merge_bucket, build.scratch, bucket, own, shared, name="merge")
        for bucket, own in enumerate(parts)
        if own.names
    ]
    return list(results_of(build.executor, tasks, "merge"))


def _check_nights(build: _Build, nights: Counter[int]) -> int:
    """Return the first day to keep.

    Raises
    ------
    DataError
        If the log has no night, or a night that is in the store already.
    """
    if not nights:
        raise DataError("there is no session to count: the log is empty, or nothing of it is kept.")
    there = {night.date for night in build.before.nights} if build.before else set()
    again = sorted(there & {_date_of(day) for day in nights})
    if again:
        raise DataError(
            f"{build.commit.place}: the night {again[0]} is there already, and {len(again)} nights "
            "of the log in all. Give --since and --until to append other nights only, or build the "
            "store anew with --overwrite."
        )
    if build.window is None:
        return -(2**31)
    newest = max(nights)
    if there:
        newest = max(newest, _day_of(max(there)) or newest)
    return newest - build.window + 1


def _check_clock(
    build: _Build, parts: Sequence[LogPart], reading: LogReading, read: Sequence[ReadPart]
) -> None:
    """Raise DataError if the log has nights that are still to come, and no last night is given.

    Such a night would be the newest one, back from which a window counts.
    """
    last = _day_of(build.log.until)
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


def latest_time() -> int:
    """Microseconds from 1970 to one day from now: later times in a log are of wrong clocks."""
    return time.time_ns() // 1_000 + DAY


def _date_of(day: int) -> str:
    return date.fromordinal(max(day + _EPOCH.toordinal(), 1)).isoformat()


def _day_of(text: str | None) -> int | None:
    return None if text is None else (date.fromisoformat(text) - _EPOCH).days
