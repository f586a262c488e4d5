"""Counting of sessions: repeated events, clicks that came alone, nights, and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.hashes import NO_USER
from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.groups import Groups
from dranking.clicks.rows.split_files import one_array
from dranking.clicks.sessions.row_sums import sums_if_fewer
from dranking.clicks.sessions.runs import UNKNOWN, Runs, starts_of_runs
from dranking.clicks.sessions.session_events import Codes, Ints, SessionEvents
from dranking.clicks.store.night_tables import (
    CLICKS,
    IDS,
    IMPRESSIONS,
    NIGHT,
    POSITION,
    QUERY,
    SESSIONS,
    USER,
    WEIGHT_SQUARE_SUM,
    WEIGHT_SUM,
)


@dataclass(frozen=True)
class SessionRules:
    """The rules by which sessions count.

    Attributes
    ----------
    max_clicks
        Sessions with more clicks are dropped; None for no limit.
    first_day, last_day
        Nights to keep, in days since 1970, both included; None for no limit.
    weights, users
        Whether to sum weights, and to count by user also.
    """

    max_clicks: int | None = None
    first_day: int | None = None
    last_day: int | None = None
    weights: bool = False
    users: bool = False


class SessionCounts(NamedTuple):
    """Counts of some sessions.

    Attributes
    ----------
    counts
        Keys (texts as dictionaries, position, night in days since 1970) and sums; rows
        may have equal keys.
    sessions
        Table with the columns query, night, and number of sessions with the query.
    users
        Counts with the user as one more key, or None.
    nights
        Number of sessions by day.
    found
        Counts by the names of `events.PROBLEMS` and `events.NOTES`.
    """

    counts: pa.Table
    sessions: pa.Table
    users: pa.Table | None
    nights: Counter[int]
    found: Counter[str]


def count_sessions(events: Runs, rules: SessionRules) -> SessionCounts:
    """Count the impressions and clicks of whole sessions.

    One result of a session (its query, document, position, context and arm) is one impression,
    however often its event is there, and a click if one of these events is a click. The weight of
    the click is the largest weight of these events. A click that came alone belongs to the result
    of its session with the same document, and with the same position if the click has one; if there
    are several such results, it belongs to the one with the smallest position. The night of a
    session is the UTC date of its first event.

    Parameters
    ----------
    events
        All events of these sessions, with unified dictionaries. The columns of users, weights,
        arms, contexts and of what was shown may be absent.
    rules
        The rules by which sessions count.
    """
    found: Counter[str] = Counter()
    session = Groups([events.shared.column("session").to_numpy()])
    # The bytes of a narrow integer do not hold DAY, nor the negative of the smallest time.
    time = events.shared.column("time").to_numpy().astype(np.int64, copy=False)
    first_time, last_time = session.least(time), -session.least(-time)
    log = _with_queries(SessionEvents.of(events, session.of_row), session, found)
    texts = _texts(events)
    results = _results(log, list(texts), found)
    results = _with_clicks(log, results, found)
    day = first_time // DAY
    kept = _kept_sessions(session, results, day, rules, found)
    found["sessions_over_midnight"] += int((kept & (last_time // DAY > day)).sum())
    results = results.only(kept[results.session])
    night = day[results.session]
    users = None
    if rules.users:
        users = sums_if_fewer(_rows(results, night, texts, rules, users=True))
    return SessionCounts(
        counts=sums_if_fewer(_rows(results, night, texts, rules, users=False)),
        sessions=_sessions_of_queries(results, night, texts),
        users=users,
        nights=Counter(dict(zip(*_tally(day[kept]), strict=True))),
        found=+found,
    )


def _tally(values: Ints) -> tuple[list[int], list[int]]:
    distinct, counts = np.unique(values, return_counts=True)
    return distinct.tolist(), counts.tolist()


def _with_queries(log: SessionEvents, session: Groups, found: Counter[str]) -> SessionEvents:
    """The events with the query of their session where they have none; others are left out."""
    without = log.query == UNKNOWN
    if not without.any():
        return log
    query = np.full(len(session), UNKNOWN)
    rows = np.flatnonzero(~without)[::-1]
    query[log.session[rows]] = log.query[rows]  # the first event with a query is last here
    log = log.replaced(query=np.where(without, query[log.session], log.query))
    log = _shifted(log, session, found)
    lost = log.query == UNKNOWN
    found["clicks_without_impressions"] += int(lost.sum())
    return log.only(~lost)


def _shifted(log: SessionEvents, session: Groups, found: Counter[str]) -> SessionEvents:
    """Move results to the positions that the events of their session tell.

    A list of results begins at position 1, or, on a later page, at the position that its events
    have. Where events of one session tell different beginnings, the results stay where they are,
    and the events count as contradicting.
    """
    key = [log.session, log.document]
    result = Groups(key)
    listed = np.full(len(result), 0)
    rows = np.flatnonzero(log.shown)[::-1]
    listed[result.of_row[rows]] = log.position[rows]
    told = ~log.shown & (log.position > 0) & (listed[result.of_row] > 0)
    shift = log.position - listed[result.of_row]
    low = np.full(len(session), np.iinfo(np.int64).max)
    high = np.full(len(session), np.iinfo(np.int64).min)
    np.minimum.at(low, log.session[told], shift[told])
    np.maximum.at(high, log.session[told], shift[told])
    agrees = (low == high) & (low >= 0)
    wrong = told & ~agrees[log.session]
    found["contradicting_positions"] += int(wrong.sum())
    moved = np.where(agrees, low, 0)[log.session]
    position = np.where(log.shown, log.position + moved, log.position)
    return log.replaced(position=position).only(~wrong)


def _results(log: SessionEvents, ids: Sequence[str], found: Counter[str]) -> SessionEvents:
    """One row for each result that a session was shown."""
    shown = log.only(log.shown)
    if not len(shown):
        return shown
    key = [getattr(shown, name) for name in ("session", *ids, "position")]
    group = Groups(key)
    found["repeated_events"] += len(shown) - len(group)
    if len(shown) == len(group):
        return shown.replaced(weight=np.where(shown.clicked, shown.weight, 0.0))
    clicked = group.any(shown.clicked)
    weight = group.greatest(np.where(shown.clicked, shown.weight, -np.inf))
    user = _one_user(shown.user, group)
    weight = np.where(clicked, weight, 0.0)
    return shown.only(group.first).replaced(clicked=clicked, weight=weight, user=user)


def _one_user(users: NDArray[np.uint64], group: Groups) -> NDArray[np.uint64]:
    """The least id of a user in each group, as a signed number; `NO_USER` if there is none."""
    has_id = users != NO_USER
    numbers = np.where(has_id, users.view(np.int64), np.iinfo(np.int64).max)
    return np.where(group.any(has_id), group.least(numbers).view(np.uint64), NO_USER)


def _with_clicks(log: SessionEvents, results: SessionEvents, found: Counter[str]) -> SessionEvents:
    """The results with the clicks that came alone."""
    clicks = log.only(~log.shown)
    n_clicks, n_results = len(clicks), len(results)
    if not n_clicks:
        return results
    key = [
        np.concatenate([getattr(results, name), getattr(clicks, name)])
        for name in ("session", "query", "document")
    ]
    group = Groups(key)
    order = np.lexsort((np.arange(n_results), results.position))[::-1]
    target = np.full(len(group), UNKNOWN)
    target[group.of_row[order]] = order  # the smallest position is last, and stays
    found_at = target[group.of_row[n_results:]]
    matches = found_at != UNKNOWN
    found["clicks_without_impressions"] += int((~matches).sum())
    clicked, weight = results.clicked.copy(), results.weight.copy()
    hit, value = found_at[matches], clicks.weight[matches]
    first = np.unique(hit)
    found["repeated_events"] += int(len(hit) - (~clicked[first]).sum())
    np.maximum.at(weight, hit, value)
    clicked[hit] = True
    return results.replaced(clicked=clicked, weight=weight)


def _kept_sessions(
    session: Groups, results: SessionEvents, day: Ints, rules: SessionRules, found: Counter[str]
) -> NDArray[np.bool_]:
    """(n_sessions,) whether a session counts: it was shown a result, in a night asked for."""
    n_clicks = np.bincount(results.session[results.clicked], minlength=len(session))
    shown = np.zeros(len(session), bool)
    shown[results.session] = True
    first = -np.inf if rules.first_day is None else rules.first_day
    last = np.inf if rules.last_day is None else rules.last_day
    in_time = (day >= first) & (day <= last)
    found["sessions_of_other_nights"] += int((shown & ~in_time).sum())
    calm = n_clicks <= (np.inf if rules.max_clicks is None else rules.max_clicks)
    found["sessions_over_max_clicks"] += int((shown & in_time & ~calm).sum())
    kept: NDArray[np.bool_] = shown & in_time & calm
    return kept


def _texts(events: Runs) -> dict[str, pa.Array]:
    """The texts of the columns of text that the events have."""
    tables = (events.shared, events.own)
    return {
        name: one_array(table.column(name)).dictionary
        for table in tables
        for name in IDS
        if name in table.column_names
    }


def _rows(
    results: SessionEvents,
    night: Ints,
    texts: Mapping[str, pa.Array],
    rules: SessionRules,
    *,
    users: bool,
) -> pa.Table:
    """The results as rows of counts, without the columns of text that the log lacks."""
    columns: dict[str, Any] = {
        name: _named(texts[name], getattr(results, name)) for name in IDS if name in texts
    }
    columns[POSITION] = results.position
    columns[NIGHT] = night
    if users:
        columns[USER] = results.user
    columns[IMPRESSIONS] = np.ones(len(results), np.int8)
    columns[CLICKS] = results.clicked.astype(np.int8)
    if rules.weights:
        columns[WEIGHT_SUM] = results.weight
        columns[WEIGHT_SQUARE_SUM] = results.weight**2
    return pa.table(columns)


def _sessions_of_queries(
    results: SessionEvents, night: Ints, texts: Mapping[str, pa.Array]
) -> pa.Table:
    some = starts_of_runs([results.session, results.query])
    session, query, night = results.session[some], results.query[some], night[some]
    pair = Groups([session, query]).first
    query, night = query[pair], night[pair]
    group = Groups([query, night])
    return pa.table(
        {
            QUERY: _named(texts[QUERY], query[group.first]),
            NIGHT: pa.array(night[group.first].astype(np.int32)),
            SESSIONS: pa.array(group.count()),
        }
    )


def _named(texts: pa.Array, codes: Codes) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32, copy=False)), texts)
