"""Requests of User Behavior Insights: the events of a session meet its queries and its lists.

A request is a query of a session. Where it has a list of results, the list gives their positions,
and those of events are compared with it; else the events that say what was seen are the results.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.hashes import NO_USER
from dranking.clicks.logs.events import ASKED, AT_ZERO, CLICK, SEEN, SHOWN
from dranking.clicks.logs.problems import ALONE_WRONG, READ
from dranking.clicks.rows.groups import Groups
from dranking.clicks.sessions.runs import UNKNOWN
from dranking.clicks.sessions.session_events import Ints, SessionEvents


def with_requests(log: SessionEvents, n_sessions: int, found: Counter[str]) -> SessionEvents:
    """The results and the clicks of requests; events that belong to none are left out."""
    if (log.kind == SHOWN).all():
        return log
    log = _with_queries(log, n_sessions, found)
    request = Groups([log.session, log.query])
    listed = request.any(log.kind == SHOWN)[request.of_row]
    seen = (log.kind == SEEN) & ~listed
    for problem, position in (("missing_positions", 0), ("positions_of_0", AT_ZERO)):
        n_lost = int((seen & (log.position == position) & log.fresh).sum())
        found[problem] += n_lost
        found[READ] += n_lost
    log = _as_asked(log, seen, request)
    wrong = _contradicting(log, listed, request)
    found["contradicting_positions"] += int((wrong & log.fresh).sum())
    found[ALONE_WRONG] += int((wrong & (log.kind == CLICK) & log.fresh).sum())
    kind = np.where(seen & (log.position > 0), SHOWN, log.kind)
    stays = (kind == SHOWN) | ((kind == CLICK) & ~wrong)
    return log.replaced(kind=kind).only(stays)


def _with_queries(log: SessionEvents, n_sessions: int, found: Counter[str]) -> SessionEvents:
    """The events with a query of their session: their own one, or else the first one."""
    asks = _first_rows((log.kind == SHOWN) | (log.kind == ASKED), log.session, n_sessions)
    first = np.where(asks == UNKNOWN, UNKNOWN, log.query[asks])[log.session]
    pair = Groups([log.session, log.query])
    is_asked = pair.any((log.kind == SHOWN) | (log.kind == ASKED))[pair.of_row]
    query = np.where(is_asked | (first == UNKNOWN), log.query, first)
    lost = query == UNKNOWN
    found["clicks_without_impressions"] += int((lost & (log.kind == CLICK) & log.fresh).sum())
    n_lost = int((lost & (log.kind == SEEN) & log.fresh).sum())
    found["missing_ids"] += n_lost
    found[READ] += n_lost
    return log.replaced(query=query).only(~lost)


def _first_rows(chosen: NDArray[np.bool_], group: Ints, n_groups: int) -> Ints:
    """(n_groups,) the first chosen row of each group; `UNKNOWN` if there is none."""
    first = np.full(n_groups, UNKNOWN)
    rows = np.flatnonzero(chosen)[::-1]
    first[group[rows]] = rows
    return first


def _as_asked(log: SessionEvents, seen: NDArray[np.bool_], request: Groups) -> SessionEvents:
    """The events with context, arm, page and user of their request where they say what was seen."""
    asked = _first_rows(log.kind == ASKED, request.of_row, len(request))[request.of_row]
    takes = seen & (asked != UNKNOWN)
    columns = {
        name: np.where(takes, getattr(log, name)[asked], getattr(log, name))
        for name in ("context", "arm", "page")
    }
    nobody = takes & (log.user == NO_USER)
    return log.replaced(**columns, user=np.where(nobody, log.user[asked], log.user))


def _contradicting(
    log: SessionEvents, listed: NDArray[np.bool_], request: Groups
) -> NDArray[np.bool_]:
    """(n_events,) events whose position is not that in the list, or that saw what is not in it.

    The events of a request may count from 0. Positions on later pages may count on, or begin again,
    and are not compared.
    """
    result = Groups([log.session, log.query, log.document])
    row = _first_rows(log.kind == SHOWN, result.of_row, len(result))[result.of_row]
    event = listed & ((log.kind == CLICK) | (log.kind == SEEN))
    told = event & (row != UNKNOWN) & (log.position != 0) & (log.page[row] <= 1)
    ordinal = np.where(log.position == AT_ZERO, 0, log.position).astype(np.int64)
    off = ordinal - log.position[row]
    lower = told & (log.position[row] > 1)  # clients that count from 0 may write 1 for 0
    from_0 = (off == -1) & ~request.any(lower & (off != -1))[request.of_row]
    wrong = told & (off != 0) & ~from_0
    wrong |= event & (log.kind == SEEN) & (row == UNKNOWN)
    contradicts: NDArray[np.bool_] = wrong
    return contradicts
