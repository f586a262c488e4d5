"""Building click stores from logs, as tasks on threads or on a cluster.

Sessions meet, and then queries, by an exchange of rows by hash. The group-bys and the join of
`dask.dataframe` give the same counts, in twice the time and with a quarter more memory a worker on
500,000 impressions (topic "dask" of `pipelines.benchmarks.clicks`), but not the rules of sessions,
windows and bad events, which look at a session's events one after the other.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dranking.clicks.counting.appends import keys_of, not_taken, parse_duration
from dranking.clicks.counting.build_tasks import LogReading
from dranking.clicks.counting.click_log import (
    ClickFacts,
    ClickLog,
    check_each_kind,
    check_first_position,
    checked_log,
    parse_window,
)
from dranking.clicks.counting.night_pass import check_nights, finished_store, merged_nights
from dranking.clicks.counting.session_pass import Build, counted_sessions
from dranking.clicks.logs.csv_records import with_states
from dranking.clicks.logs.events import Privacy
from dranking.clicks.logs.files import find_logs
from dranking.clicks.logs.problems import ABSENT
from dranking.clicks.logs.values import DAY
from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.manifest import ClicksManifest
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.errors import UsageError
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.commit import begin_directory
from dranking.ingestion.ingest import job_scratch
from dranking.ingestion.open import as_paths

_LOG = logging.getLogger(__name__)


def build_clicks(  # noqa: PLR0913 - one call with keywords, as commands have options
    logs: AnyPlace | Sequence[AnyPlace],
    output: AnyPlace,
    log: ClickLog | None = None,
    *,
    data: Dataset | None = None,
    window: str | None = None,
    append: bool = False,
    longest_session: str = "2h",
    overwrite: bool = False,
    scratch: AnyPlace | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
    tell: Callable[[str], None] = _LOG.info,
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
        Add nights to a store that exists, and events to sessions that were not over. A night that
        is there already is an error, unless its sessions began less than `longest_session` before
        the last events of the store. Files that the store has counted are passed over.
    longest_session
        Longest time from the first to the last event of a session, such as ``90m``, ``2h`` or
        ``1d``: an append adds later events to the sessions that may not have been over.
    overwrite
        Replace a store that exists.
    scratch
        A folder or URL that all workers see, for temporary files, as in `dranking.ingest`.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.
    executor
        An executor, a `distributed.Client`, or "threads"; None means the current Dask client, or
        threads.
    tell
        Called with a line that says which nights the window drops, before anything is changed.

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
    parse_duration(longest_session)
    running, place = get_executor(executor), as_place(output, storage_options)
    temporary = None if scratch is None else as_place(scratch, storage_options)
    with (
        begin_directory(place, overwrite=overwrite, append=append) as commit,
        job_scratch(commit, temporary, running) as files,
    ):
        before = ClickStore(place).manifest if append else None
        facts = _facts(log, longest_session, before)
        build = Build(log, facts, before, commit, files, running, n_nights, data, tell)
        return _run(build, as_paths(logs, storage_options))


def _facts(log: ClickLog, longest_session: str, before: ClicksManifest | None) -> dict[str, Any]:
    """Entries of the manifest; if the store exists, its entries must be the same."""
    facts = {
        "keep_queries": log.keep_queries,
        "has_users": log.users,
        "has_weights": log.columns.weight is not None,
        "context_columns": (*log.columns.context, *(("page",) if log.ubi.pages == "all" else ())),
        "filter_columns": log.columns.filters,
        "longest_session": longest_session,
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


def _run(build: Build, sources: Sequence[AnyPlace]) -> tuple[ClickStore, ClickFacts]:
    log, before = build.log, build.before
    reading = LogReading(
        log.form,
        log.columns,
        Privacy(build.facts["salt"], log.keep_queries),
        latest_time(),
        log.where,
        log.ubi,
        before.open.columns if before and before.open else None,
        log.users,
    )
    parts = find_logs(sources, reading.needed)
    keys = keys_of(parts, log, build.facts["salt"], build.executor)
    left, keys = not_taken(parts, keys, before)
    n_taken = len({part.place for part in parts}) - len({part.place for part in left})
    if parts and not left:
        facts = ClickFacts.of(0, Counter(files_taken_before=n_taken))
        return ClickStore(build.commit.place), facts
    counted = counted_sessions(build, with_states(left, build.executor), reading)
    found = counted.found + Counter(files_taken_before=n_taken)
    facts = ClickFacts.of(counted.n_events, found)
    check_first_position(found)
    facts.check(log.max_unmatched)
    check_each_kind(facts, found, log.max_unmatched)
    first_day = check_nights(build, counted)
    merged = merged_nights(build, counted, first_day)
    facts.notes["sessions_before_window"] += sum(
        n for day, n in counted.nights.items() if day < first_day
    )
    facts.notes["rare_queries"] = sum(each.n_rare for each in merged)
    facts.problems[ABSENT] = sum(each.n_absent for each in merged)
    facts = facts._replace(n_kept=sum(each.n_kept for each in merged))
    facts.check(log.max_unmatched)
    absent = sum(each.n_absent_clicks for each in merged)
    clicks = absent, sum(each.n_kept_clicks for each in merged)
    check_each_kind(facts, found, log.max_unmatched, clicks)
    return finished_store(build, counted, merged, first_day, keys), facts


def latest_time() -> int:
    """Microseconds from 1970 to one day from now: later times in a log are of wrong clocks."""
    return time.time_ns() // 1_000 + DAY
