"""Counting of sessions: repeated events, clicks that came alone, nights, and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.hashes import NO_USER
from dranking.clicks.logs.events import AT_ZERO, CLICK, SHOWN
from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.groups import Groups
from dranking.clicks.sessions.count_rows import (
    count_rows,
    events_of_runs,
    sessions_of_queries,
    texts_of,
)
from dranking.clicks.sessions.nights import SessionRules, first_times, in_time, may_be_there
from dranking.clicks.sessions.requests import with_requests
from dranking.clicks.sessions.row_sums import sums_if_fewer
from dranking.clicks.sessions.runs import UNKNOWN, Runs, comparable
from dranking.clicks.sessions.session_events import FRESH, OF_LOG, Ints, SessionEvents
from dranking.clicks.store.night_tables import DOCUMENT, NIGHT, OPEN, USER

NO_RESULT: Final = np.int32(AT_ZERO - 1)
"""Position of the event that stands for a session of a dropped night, below all others."""


class SessionCounts(NamedTuple):
    """Counts of some sessions.

    Attributes
    ----------
    counts
        Keys (texts as dictionaries, position, night in days since 1970, whether the session may go
        on) and sums; rows may have equal keys.
    sessions
        Table with the columns query, night, open, and number of sessions with the query.
    users
        Counts with the user as one more key, or None.
    nights, closed
        Number of sessions by day, and of those among them that cannot go on; days on which only
        sessions began that may go on are in `closed` with 0.
    again
        Number of sessions by day that the store has, or may have, without their ids.
    taken
        Hash of a session, and a position, at which it has two documents; None if there is none.
    open
        Events of the sessions that may go on.
    found
        Counts by the names of `problems.PROBLEMS` and `problems.NOTES`.
    """

    counts: pa.Table
    sessions: pa.Table
    users: pa.Table | None
    nights: Counter[int]
    closed: Counter[int]
    again: Counter[int]
    taken: tuple[int, int] | None
    open: pa.Table
    found: Counter[str]


def count_sessions(events: Runs, rules: SessionRules) -> SessionCounts:
    """Count the impressions and clicks of whole sessions.

    One result of a session (its query, document, position, context and arm) is one impression,
    however often its event is there, and a click if one of these events is a click. The weight of
    the click is the largest weight of these events. A click that came alone belongs to the result
    of its session with the same document; if there are several such results, it belongs to the one
    with the smallest page and position. The night of a
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
    fresh = _fresh(events)
    first_time, dropped = first_times(time, fresh, session, rules)
    last_time = -session.least(-time)
    log = SessionEvents.of(events, session.of_row)
    dropped[log.session[log.position == NO_RESULT]] = True
    log = log.only(~dropped[log.session])
    known = session.any(~fresh)
    log = with_requests(log, len(session), found)
    texts = texts_of(events)
    day = first_time // DAY
    asked = known | in_time(day, rules)
    results, taken = _seen_results(log, list(texts), rules, found)
    of_log = session.any(fresh)
    found[OF_LOG] += int(of_log.sum())
    found["sessions_before_window"] += int((dropped & of_log).sum())
    kept = _kept_sessions(session, results, taken, asked, rules, found)
    found["sessions_over_midnight"] += int((kept & (last_time // DAY > day)).sum())
    found["long_sessions"] += int((kept & of_log & (last_time - first_time > rules.longest)).sum())
    taken = taken.only(taken.fresh & kept[taken.session])
    found["places_taken"] += len(taken)
    is_open = asked & (first_time >= rules.open_since)
    again = kept & ~known & may_be_there(day, first_time, rules)
    results = results.only(kept[results.session])
    keys: dict[str, NDArray[Any]] = {
        NIGHT: day[results.session],
        OPEN: is_open[results.session].astype(np.int8),
    }
    closed = Counter(dict.fromkeys(np.unique(day[is_open & ~dropped]).tolist(), 0))
    closed.update(_tally(day[kept & ~is_open]))
    users = None
    if rules.users:
        of_users = {**keys, USER: results.user}
        users = sums_if_fewer(count_rows(results, of_users, texts, weights=rules.weights))
    return SessionCounts(
        counts=sums_if_fewer(count_rows(results, keys, texts, weights=rules.weights)),
        sessions=sessions_of_queries(results, keys[NIGHT], keys[OPEN], texts),
        users=users,
        nights=_tally(day[kept]),
        closed=closed,
        again=_tally(day[again]),
        taken=_named_place(events, session, taken),
        open=events_of_runs(
            _since(events, first_time[session.of_row]),
            is_open[session.of_row] & ~(fresh & dropped[session.of_row]),
        ),
        found=+found,
    )


def _seen_results(
    log: SessionEvents,
    ids: Sequence[str],
    rules: SessionRules,
    found: Counter[str],
) -> tuple[SessionEvents, SessionEvents]:
    """The results that sessions saw, with their clicks, and those at a place of another document.

    The latter do not count.
    """
    shown = log.only(log.kind == SHOWN)
    of_places = [name for name in ids if name != DOCUMENT]
    shown, taken = _without_taken(shown, of_places)
    results = _with_clicks(log, _results(shown, ids, found), found)
    return (_first_pages(results, found) if rules.first_pages else results), taken


def _named_place(events: Runs, session: Groups, taken: SessionEvents) -> tuple[int, int] | None:
    """Hash of the session, and position, of the first result at a place of another; or None."""
    if not len(taken):
        return None
    hashes = events.shared.column("session").to_numpy()
    return int(hashes[session.first[taken.session[0]]]), int(taken.position[0])


def _fresh(events: Runs) -> NDArray[np.bool_]:
    """(n_runs,) whether a run is of the log, and not of the events that the store has kept."""
    if FRESH not in events.shared.column_names:
        return np.ones(events.shared.num_rows, bool)
    fresh: NDArray[np.bool_] = comparable(events.shared.column(FRESH))
    return fresh


def _since(events: Runs, first_time: Ints) -> Runs:
    """The events with no time before the (n_runs,) times at which their sessions began."""
    names = events.shared.column_names
    time = events.shared.column("time").to_numpy()
    if (time >= first_time).all():
        return events
    column = pa.array(np.maximum(time, first_time))
    return events._replace(shared=events.shared.set_column(names.index("time"), "time", column))


def _tally(values: Ints) -> Counter[int]:
    distinct, counts = np.unique(values, return_counts=True)
    return Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))


def _without_taken(shown: SessionEvents, ids: Sequence[str]) -> tuple[SessionEvents, SessionEvents]:
    """The results without those at a place where another document is, and the latter."""
    if not len(shown):
        return shown, shown
    place = Groups([getattr(shown, name) for name in ("session", *ids, "page", "position")])
    taken = shown.document != shown.document[place.first][place.of_row]
    return shown.only(~taken), shown.only(taken)


def _first_pages(results: SessionEvents, found: Counter[str]) -> SessionEvents:
    """The results of first pages."""
    later = results.page > 1
    found["later_pages"] += int((later & results.fresh).sum())
    return results.only(~later)


def _results(shown: SessionEvents, ids: Sequence[str], found: Counter[str]) -> SessionEvents:
    """One row for each result that a session was shown."""
    if not len(shown):
        return shown
    key = [getattr(shown, name) for name in ("session", *ids, "page", "position")]
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
    clicks = log.only(log.kind == CLICK)
    n_clicks, n_results = len(clicks), len(results)
    if not n_clicks:
        return results
    key = [
        np.concatenate([getattr(results, name), getattr(clicks, name)])
        for name in ("session", "query", "document")
    ]
    group = Groups(key)
    order = np.lexsort((np.arange(n_results), results.position, results.page))[::-1]
    target = np.full(len(group), UNKNOWN)
    target[group.of_row[order]] = order  # the smallest position is last, and stays
    found_at = target[group.of_row[n_results:]]
    matches = found_at != UNKNOWN
    found["clicks_without_impressions"] += int((~matches & clicks.fresh).sum())
    clicked, weight = results.clicked.copy(), results.weight.copy()
    hit, value = found_at[matches], clicks.weight[matches]
    first = np.unique(hit)
    found["repeated_events"] += int(len(hit) - (~clicked[first]).sum())
    np.maximum.at(weight, hit, value)
    clicked[hit] = True
    return results.replaced(clicked=clicked, weight=weight)


def _kept_sessions(
    session: Groups,
    results: SessionEvents,
    taken: SessionEvents,
    in_time: NDArray[np.bool_],
    rules: SessionRules,
    found: Counter[str],
) -> NDArray[np.bool_]:
    """(n_sessions,) whether a session counts: it was shown a result, in a night asked for.

    Clicks on `taken` results, which do not count, are clicks of the session.
    """
    n_clicks = np.bincount(results.session[results.clicked], minlength=len(session))
    if taken.clicked.any():
        clicked = taken.only(taken.clicked)
        others = Groups([clicked.session, clicked.query, clicked.document])
        n_clicks += np.bincount(clicked.session[others.first], minlength=len(session))
    shown = np.zeros(len(session), bool)
    shown[results.session] = True
    found["sessions_of_other_nights"] += int((shown & ~in_time).sum())
    calm = n_clicks <= (np.inf if rules.max_clicks is None else rules.max_clicks)
    found["sessions_over_max_clicks"] += int((shown & in_time & ~calm).sum())
    kept: NDArray[np.bool_] = shown & in_time & calm
    return kept
