"""The nights of sessions: which are asked for, which the store has, and which it can add to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.logs.values import DAY
from dranking.clicks.rows.groups import Groups
from dranking.clicks.sessions.session_events import Ints

NEVER: Final = int(np.iinfo(np.int64).max)
"""A time that no event has."""


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
    open_since
        Sessions that began then or later may go on; microseconds since 1970.
    longest
        Microseconds that a session is taken to last at most.
    first_pages
        Whether results of later pages are left out.
    there
        Nights that the store has, each with the time from which sessions that the store does not
        know may have begun; `NEVER` for nights whose counts cannot be added to.
    """

    max_clicks: int | None = None
    first_day: int | None = None
    last_day: int | None = None
    weights: bool = False
    users: bool = False
    open_since: int = NEVER
    longest: int = NEVER
    first_pages: bool = True
    there: tuple[tuple[int, int], ...] = ()


def first_times(
    time: Ints, fresh: NDArray[np.bool_], session: Groups, rules: SessionRules
) -> tuple[Ints, NDArray[np.bool_]]:
    """(n_sessions,) the time at which each session began, and whether a window dropped its night.

    An event that comes late may be of an earlier night than the events that the store knows of its
    session. If the store cannot add to that night, the session stays where it is.

    Parameters
    ----------
    time, fresh
        (n_runs,) times, and whether they are of the log, not of events that the store has kept.
    session
        The sessions of the runs.
    rules
        The rules by which sessions count.
    """
    first, kept = session.least(time), session.least(np.where(fresh, NEVER, time))
    known = kept != NEVER
    over = [night for night, since in rules.there if since == NEVER]
    added_to = [night for night, since in rules.there if since != NEVER]
    stays = known & np.isin(first // DAY, over)
    return np.where(stays, kept, first), known & ~np.isin(kept // DAY, added_to)


def in_time(day: Ints, rules: SessionRules) -> NDArray[np.bool_]:
    """(n_sessions,) whether the night of a session was asked for."""
    first = -np.inf if rules.first_day is None else rules.first_day
    last = np.inf if rules.last_day is None else rules.last_day
    return (day >= first) & (day <= last)


def may_be_there(day: Ints, first_time: Ints, rules: SessionRules) -> NDArray[np.bool_]:
    """(n_sessions,) whether the store may have counted a session whose id it does not know."""
    found = np.zeros(len(day), bool)
    for night, since in rules.there:
        found |= (day == night) & (first_time < since)
    return found
