"""What a store keeps so that appends count each session, and each file of a log, once.

A session is taken to last no longer than the longest session. The border of a store is an hour by
which nearly all counted events had happened. The store keeps the events of sessions that began less
than twice the longest session before its border, and for their nights the counts of all other
sessions. An append adds events to these sessions and counts them anew; nothing is subtracted. A
session that the store does not know is new if it begins less than the longest session before the
border: had it been counted, its events would have been kept. A known session stays in its night
where a late event is of an earlier night that is over, and is not counted where a window dropped
its night.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.logs.events import SHOWN
from dranking.clicks.logs.files import LogPart
from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.groups import Groups
from dranking.clicks.rows.split_files import parts_of
from dranking.clicks.sessions.nights import NEVER
from dranking.clicks.sessions.runs import comparable
from dranking.clicks.sessions.session_events import FRESH
from dranking.clicks.sessions.sessions import NO_RESULT
from dranking.clicks.store.manifest import ClicksManifest, NightTable, StoredRows
from dranking.clicks.store.night_tables import (
    IDS,
    NIGHT,
    OPEN,
    QUERY,
    SESSIONS,
    read_table,
    write_table,
)
from dranking.engine.executor import Executor
from dranking.errors import UsageError
from dranking.files.places import Place, is_local
from dranking.files.reading import open_input
from dranking.files.requests import request
from dranking.files.writing.object_store import version
from dranking.ingestion.gathering import results_of

HOUR: Final = 3_600_000_000
_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}

MOST_BEYOND: Final = 0.001
"""Largest share of the events beyond the border's hour: some clocks run ahead."""

DEFAULTS: Final = {
    "session": np.uint64(0),
    "time": np.int64(0),
    "position": np.int32(1),
    "clicked": False,
    "user": np.uint64(0),
    "weight": 0.0,
    "page": np.int32(1),
    "kind": np.int8(SHOWN),
}
"""Values of columns that events lack; those of `IDS` are no text."""


def parse_duration(text: str) -> int:
    """Microseconds of a duration such as ``90m``, ``2h`` or ``1d``.

    Raises
    ------
    UsageError
        If the text has another form.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhd])", text)
    if not found:
        raise UsageError(f"longest_session is {text!r}; write a duration such as 90m, 2h or 1d.")
    return int(found[1]) * _SECONDS[found[2]] * 1_000_000


def hours_of(events: pa.Table) -> Counter[int]:
    """Number of events by hour since 1970."""
    hours, counts = np.unique(events.column("time").to_numpy() // HOUR, return_counts=True)
    return Counter(dict(zip(hours.tolist(), counts.tolist(), strict=True)))


def border_of(hours: Counter[int], before: int | None, now: int) -> int:
    """Beginning of the first hour beyond which there are hardly any events, or the border before.

    It is no later than `now`, in microseconds since 1970: events beyond are of clocks that run
    ahead. One event of several may always be. `NEVER` if there are neither events nor a border.
    """
    n_events = sum(hours.values())
    beyond, most = 0, max(MOST_BEYOND * n_events, min(n_events - 1, 1))
    for hour in sorted(hours, reverse=True):
        beyond += hours[hour]
        if beyond > most:
            border = min(hour, now // HOUR) * HOUR
            return border if before is None else max(border, before)
    return NEVER if before is None else before


def kept_events(root: Place, file: StoredRows, columns: Sequence[str]) -> pa.Table:
    """Events of open sessions, with values in all the columns that the events of a log have."""
    rows = read_table(root, file.name, file.checksum)
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, _default(name, rows.num_rows))
    return rows.append_column(FRESH, pa.array(np.zeros(rows.num_rows, bool)))


def dropped_results(root: Place, file: StoredRows, first_day: int) -> StoredRows:
    """The entry of a file of kept events, of which dropped nights lose theirs: a task.

    Of a session of a night before the first day only its hash and its time are left, so that a
    later event of the session is known as one of a dropped night, and counts nowhere.
    """
    rows = read_table(root, file.name, file.checksum)
    times = rows.column("time").to_numpy()
    session = Groups([rows.column("session").to_numpy()])
    began = session.least(times)
    dropped = began // DAY < first_day
    if not dropped.any():
        return file
    stays = rows.filter(pa.array(~dropped[session.of_row]))
    empty = rows.take(pa.array(session.first[dropped]))
    columns: dict[str, Any] = {name: _default(name, empty.num_rows) for name in rows.column_names}
    columns |= {"session": empty.column("session"), "time": pa.array(began[dropped])}
    columns["position"] = pa.array(np.full(empty.num_rows, NO_RESULT))
    whole = pa.concat_tables([stays, pa.table(columns).cast(rows.schema)]).unify_dictionaries()
    end, names = np.array([whole.num_rows]), rows.column_names
    rows = pa.table({name: parts_of(whole.column(name), end)[0] for name in names})
    of_file = write_table(root, file.name, rows)
    return StoredRows(name=file.name, checksum=of_file, n_rows=rows.num_rows)


def _default(name: str, n_rows: int) -> pa.Array:
    if name in IDS:
        codes = pa.array(np.zeros(n_rows, np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([""], pa.string()))
    return pa.array(np.full(n_rows, DEFAULTS[name]))


def closed_counts(root: Place, day: int, table: NightTable) -> dict[str, pa.Table]:
    """Counts of the closed sessions of a night, as tasks that count sessions write them."""
    rows = _of_night(read_table(root, table.name, table.checksum), day)
    codes = comparable(rows.column(QUERY))
    of_queries = pa.array(Groups([codes]).first)
    found = {
        "counts": rows.drop_columns([SESSIONS]),
        "sessions": rows.select([QUERY, NIGHT, OPEN, SESSIONS]).take(of_queries),
    }
    if table.users_name is not None:
        users = read_table(root, table.users_name, str(table.users_checksum))
        found["users"] = _of_night(users, day)
    return found


def _of_night(rows: pa.Table, day: int) -> pa.Table:
    rows = rows.unify_dictionaries().combine_chunks()
    night = pa.array(np.full(rows.num_rows, day, np.int32))
    closed = pa.array(np.zeros(rows.num_rows, np.int8))
    return rows.append_column(NIGHT, night).append_column(OPEN, closed)


def keys_of(parts: Sequence[LogPart], log: ClickLog, salt: str, run: Executor) -> list[str]:
    """The key of each part's file: a salted hash of its content and of the rules of its reading."""
    rules = (log.form, log.columns, log.ubi, log.where, log.max_clicks)
    text = repr((*rules, log.since, log.until))
    files = {part.place: repr((text, part.folders)) for part in parts}
    tasks = [run.submit(file_key, file, own, salt, name="keys") for file, own in files.items()]
    keys = dict(zip(files, results_of(run, tasks, "keys"), strict=True))
    return [keys[part.place] for part in parts]


def file_key(file: Place, rules: str, salt: str) -> str:
    """Hash of a file and of rules: a task."""
    if is_local(file):
        with open_input(file) as opened:
            content = request(file, lambda: hashlib.file_digest(opened, "blake2b").hexdigest())
    else:
        content = str(version(file))
    key = hashlib.blake2b(salt.encode(), digest_size=32).digest()
    return hashlib.blake2b(f"{content} {rules}".encode(), digest_size=16, key=key).hexdigest()


def not_taken(
    parts: Sequence[LogPart], keys: Sequence[str], before: ClicksManifest | None
) -> tuple[list[LogPart], list[str]]:
    """The parts of files that a store has not counted, and their keys."""
    taken = {file.key for file in before.taken} if before else set()
    pairs = [pair for pair in zip(parts, keys, strict=True) if pair[1] not in taken]
    return [part for part, _ in pairs], [key for _, key in pairs]
