"""Events: the rows of every log in one form, with salted hashes for sessions and users."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.hashes import hashed_texts, hashed_users, session_key
from dranking.clicks.logs.columns import LogColumns, column_of
from dranking.clicks.logs.problems import (
    ALONE,
    ALONE_LOST,
    AT_0,
    CLICKS,
    CLICKS_LOST,
    POSITIONS_FROM_0,
)
from dranking.clicks.logs.values import (
    NO_TEXT,
    NO_TIME,
    as_float,
    missing_numbers,
    repeated_texts,
    texts,
    truths,
    utc_microseconds,
)
from dranking.data.regrouping.query_lines import hash_ids

FILTERED: Final = " | "
"""Separator of a query and the values of its filters, and of these values."""

AT_ZERO: Final = -1
"""Position of a click or of a result seen that is at 0 in a log that counts from 1: some clients
count from 0, and where there is a list of results, it tells the position anyway."""

CLICK, SHOWN, SEEN, ASKED = range(4)
"""Kinds of events: a click alone; a result that was shown; an event that says where a result was
seen, beside the list of results if there is one; a query without its results."""

MAX_POSITION = 10_000
"""Deeper positions are mistakes, and tables by position are as wide as the deepest one."""

MAX_WEIGHT = 1e100  # sums of squares of more weights than there are stay finite


@dataclass(frozen=True)
class Privacy:
    """The salt of the hashes that stand for ids, and whether query texts are kept as they are."""

    salt: str
    keep_queries: bool = False


class Events(NamedTuple):
    """Events, and how many were left out by cause.

    Attributes
    ----------
    rows
        Columns: ``session`` and ``user``, uint64 hashes; ``query`` (null means the query of the
        session), ``document``, ``context`` and ``arm``, dictionaries of texts; ``position``, int32,
        0 for unknown, or `AT_ZERO`; ``page``, int32, the first is 1, 0 for unknown; ``kind``;
        ``clicked``; ``time``, int64 microseconds since 1970 in UTC;
        ``weight``, float64.
    found
        Counts by the names of `problems.PROBLEMS` and `problems.NOTES`.
    """

    rows: pa.Table
    found: Counter[str]


@dataclass(frozen=True)
class Raw:
    """Columns of events as the log has them, one value for each event."""

    session: pa.Array
    user: pa.Array
    query: pa.Array | None
    document: pa.Array
    position: pa.Array | None
    clicked: pa.Array
    time: pa.Array
    arm: pa.Array
    weight: pa.Array
    context: tuple[pa.Array, ...]
    first_position: int
    page: pa.Array | None = None


def row_events(table: pa.Table, columns: LogColumns, privacy: Privacy) -> Events:
    """Events of a log with a row for each result that was shown."""
    raw = Raw(
        session=column_of(table, columns.session),
        user=column_of(table, columns.user),
        query=query_of(table, columns),
        document=column_of(table, columns.document),
        position=column_of(table, columns.position),
        clicked=column_of(table, columns.clicked),
        time=column_of(table, columns.time),
        arm=column_of(table, columns.arm),
        weight=column_of(table, columns.weight),
        context=tuple(column_of(table, name) for name in columns.context),
        first_position=columns.first_position,
    )
    return make_events(raw, privacy, SHOWN)


def make_events(raw: Raw, privacy: Privacy, kind: int) -> Events:
    """Check columns, and give them the one form.

    Parameters
    ----------
    raw
        The columns. Without `query`, events take the query of their session.
    privacy
        Salt of the hashes, and whether query texts are kept.
    kind
        Kind of the events. Only results that were shown need positions.
    """
    checks = _Checks(len(raw.session))
    session, document = checks.ids(raw.session, repeated_texts), checks.ids(raw.document)
    query = None if raw.query is None else checks.ids(raw.query, needed=kind in (SHOWN, ASKED))
    position = _positions(raw, checks, kind == SHOWN)
    time, n_shifted = utc_microseconds(raw.time)
    checks.drop("unreadable_times", time == NO_TIME)
    clicked, unclear = truths(raw.clicked)
    checks.drop("unreadable_clicks", unclear)
    weight = _weights(raw.weight, clicked, checks)
    rows = pa.table(
        {
            "session": _session_hashes(session, privacy),
            "user": _user_hashes(raw.user, privacy),
            "query": _queries(query, len(position), privacy),
            "document": document,
            "context": _joined(raw.context, len(position)),
            "arm": _named(raw.arm),
            "position": position,
            "page": _pages(raw.page, len(position), kind),
            "kind": np.full(len(position), kind, np.int8),
            "clicked": clicked,
            "time": time,
            "weight": weight,
        }
    )
    checks.found["times_in_other_zones"] += n_shifted
    if kind == SHOWN:
        checks.found[CLICKS] += int(clicked.sum())
        checks.found[CLICKS_LOST] += int((clicked & ~checks.kept).sum())
    elif kind == CLICK:
        checks.found[ALONE] += len(session)
        checks.found[ALONE_LOST] += int((~checks.kept).sum())
    return Events(rows if checks.kept.all() else rows.filter(pa.array(checks.kept)), +checks.found)


class _Checks:
    """The events to keep, and how many are left out; an event counts for its first problem."""

    def __init__(self, n_events: int) -> None:
        self.kept = np.ones(n_events, bool)
        self.found: Counter[str] = Counter()

    def drop(self, problem: str, wrong: NDArray[np.bool_]) -> None:
        if not wrong.any():
            return
        self.found[problem] += int((wrong & self.kept).sum())
        self.kept &= ~wrong

    def ids(
        self, values: pa.Array, as_texts: Any = texts, *, needed: bool = True
    ) -> pa.DictionaryArray:
        ids, wrong = as_texts(values)
        self.drop("ids_of_other_types", wrong)
        if ids.null_count and needed:
            self.drop("missing_ids", np.asarray(ids.is_null()) & ~wrong)
        return ids


def _positions(raw: Raw, checks: _Checks, needed: bool) -> NDArray[np.int32]:
    """(n,) positions from 1, 0 for unknown ones."""
    values = raw.position
    if values is None:
        return np.zeros(len(checks.kept), np.int32)
    if pa.types.is_integer(values.type) and not values.null_count:
        whole = values.to_numpy()
        return _in_range(whole, raw, checks, needed)
    numbers = as_float(values)
    missing = np.isnan(numbers)
    fraction = ~missing & ((numbers != np.floor(numbers)) | np.isinf(numbers))
    checks.drop("missing_positions", fraction | missing if needed else fraction)
    found = _in_range(np.where(missing | fraction, 1.0, numbers), raw, checks, needed)
    return np.where(missing, 0, found)


def _in_range(
    positions: NDArray[Any], raw: Raw, checks: _Checks, needed: bool
) -> NDArray[np.int32]:
    """Whole numbers as positions from 1 where they can be one."""
    first = raw.first_position
    low, deep = positions < first, positions > MAX_POSITION - 1 + first
    zeros = low & (positions == 0)
    if needed:
        checks.drop("positions_of_0", zeros)
    checks.drop("negative_positions", positions < 0)
    checks.drop("positions_too_deep", deep)
    if first == 0:
        checks.found[POSITIONS_FROM_0] += len(positions)
        checks.found[AT_0] += int((positions == 0).sum())
    # Narrow types would wrap.
    found = np.where(low | deep, first - 1, positions).astype(np.int32) + np.int32(1 - first)
    return np.where(zeros, np.int32(AT_ZERO), found)


def _pages(values: pa.Array | None, n_rows: int, kind: int) -> NDArray[np.int32]:
    """(n,) pages from 1; an unknown page of results is taken for the first one."""
    unknown = int(kind in (SHOWN, ASKED))
    if values is None:
        return np.full(n_rows, unknown, np.int32)
    pages = as_float(values)
    known = (pages >= 1) & (pages <= MAX_POSITION)
    return np.where(known, pages, unknown).astype(np.int32)


def _weights(values: pa.Array, clicked: NDArray[np.bool_], checks: _Checks) -> NDArray[np.float64]:
    """(n,) weights, 0 where there is none; those of results without a click say nothing."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values))
    weights, missing = as_float(values), missing_numbers(values)
    readable = (weights >= 0) & (weights <= MAX_WEIGHT)
    checks.drop("unreadable_weights", clicked & ~readable & ~missing)
    return np.where(readable, weights, 0.0)


def _session_hashes(ids: pa.DictionaryArray, privacy: Privacy) -> NDArray[np.uint64]:
    hashes = hash_ids(ids.dictionary, session_key(privacy.salt))
    return _take(hashes, ids)


def _user_hashes(values: pa.Array, privacy: Privacy) -> NDArray[np.uint64]:
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.uint64)
    ids, _ = repeated_texts(values)
    return _take(hashed_users(ids.dictionary.to_pylist(), privacy.salt), ids)


def _take(values: NDArray[np.uint64], ids: pa.DictionaryArray) -> NDArray[np.uint64]:
    """The value of each row's id; 0 for none."""
    codes = pc.fill_null(ids.indices, len(values)) if ids.null_count else ids.indices
    taken: NDArray[np.uint64] = np.append(values, np.uint64(0))[codes.to_numpy()]
    return taken


def _queries(ids: pa.DictionaryArray | None, n_rows: int, privacy: Privacy) -> pa.DictionaryArray:
    if ids is None:
        return pa.DictionaryArray.from_arrays(
            pa.nulls(n_rows, pa.int32()), pa.array([], pa.string())
        )
    if privacy.keep_queries:
        return ids
    hashed = pa.array(hashed_texts(ids.dictionary.to_pylist(), privacy.salt), pa.string())
    return pa.DictionaryArray.from_arrays(ids.indices, hashed)


def query_of(table: pa.Table, columns: LogColumns) -> pa.Array:
    """The queries, with the values of their filters."""
    queries = column_of(table, columns.query)
    if not columns.filters:
        return queries
    ids, wrong = texts(queries)
    ids = ids.cast(pa.string())
    values = [_filter_texts(column_of(table, name)) for name in columns.filters]
    has_value = np.any([np.asarray(pc.not_equal(each, "")) for each in values], axis=0)
    filtered = pc.binary_join_element_wise(ids, *values, FILTERED)
    queries = pc.if_else(pa.array(has_value), filtered, ids)
    return pc.if_else(pa.array(wrong), NO_TEXT, queries)


def _filter_texts(values: pa.Array) -> pa.Array:
    """Values of a filter as texts; those of a list have no order."""
    kind = values.type
    if pa.types.is_null(kind):
        return pa.array([""] * len(values))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        entries = _filter_texts(values.flatten()).to_pylist()
        stops = np.cumsum(pc.fill_null(pc.list_value_length(values), 0).to_numpy())
        starts = np.append(0, stops)
        own = [sorted(entries[i:j]) for i, j in zip(starts, stops, strict=False)]
        return pa.array([",".join(filter(None, each)) for each in own], pa.string())
    if pa.types.is_boolean(kind):
        values = values.cast(pa.string())
    names, wrong = texts(values)
    return pc.if_else(pa.array(wrong), NO_TEXT, pc.fill_null(names.cast(pa.string()), ""))


def _named(values: pa.Array) -> pa.DictionaryArray:
    """Names of arms or contexts; the empty name where there is none."""
    if pa.types.is_null(values.type):
        nothing = pa.array(np.zeros(len(values), np.int32))
        return pa.DictionaryArray.from_arrays(nothing, pa.array([""], pa.string()))
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.string())
    names, _ = texts(values)
    if not names.null_count:
        return names
    dictionary = pa.concat_arrays([names.dictionary, pa.array([""], pa.string())])
    codes = pc.fill_null(names.indices, len(names.dictionary))
    return pa.DictionaryArray.from_arrays(codes, dictionary)


def _joined(columns: tuple[pa.Array, ...], n_rows: int) -> pa.DictionaryArray:
    """The context: the values of its columns, joined by commas."""
    if not columns:
        return _named(pa.nulls(n_rows))
    if len(columns) == 1:
        return _named(columns[0])
    parts = [_named(values).cast(pa.string()) for values in columns]
    return pc.binary_join_element_wise(*parts, ",").dictionary_encode()
