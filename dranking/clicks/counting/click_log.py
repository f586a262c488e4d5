"""The description of a log of clicks, the rules by which its sessions count, and the findings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from dranking.clicks.logs.columns import LogColumns, LogForm, UbiRules
from dranking.clicks.logs.problems import (
    ABSENT,
    ALONE,
    ALONE_LOST,
    ALONE_WRONG,
    AT_0,
    CLICKS,
    CLICKS_LOST,
    FOUND_LATER,
    NOTES,
    POSITIONS_FROM_0,
    PROBLEMS,
    READ,
)
from dranking.clicks.logs.ubi import UBI
from dranking.clicks.sessions.session_events import OF_LOG
from dranking.clicks.store.click_store import check_date
from dranking.errors import DataError, UsageError

MAX_BUCKETS: Final = 4096

MOST_AT_0: Final = 0.05
"""Largest share of sessions in which a position of 0 can be a stray one."""


@dataclass(frozen=True, kw_only=True)
class ClickLog:
    """The form and columns of a log of clicks, and the rules by which its sessions count.

    Attributes
    ----------
    form
        Form of the log: `rows`, `lists` or `ubi`; see `dranking.clicks.logs`.
    columns
        Names of the columns. Logs of the form `ubi` use only user, arm, weight, context,
        filters and the first position.
    ubi
        Rules of logs of the form `ubi`: actions that are clicks, and pages.
    where
        A condition on columns that rows of the log must fulfil, such as ``device == 'mobile'``; see
        `dranking.data.parquet.where`.
    max_clicks
        Sessions with more clicks are dropped; None for no limit.
    since, until
        First and last night to keep, such as ``2026-11-01``. With the logs of the days before and
        after, sessions over midnight are whole. Times more than a day after the build are an error
        unless a last night is given.
    min_sessions
        Queries with fewer sessions in a night have no counts in that night. The rule looks at each
        night by itself, so that nights may be appended one by one or built together.
    max_unmatched
        Largest share of events that cannot be used; above it the log is refused.
    keep_queries
        Keep query texts in place of salted hashes. Data finds its queries in both.
    users
        Count by user also, for intervals that resample users.
    salt
        Salt of the hashes of users and queries; None takes the salt of the store, or a random one.
    n_buckets
        Number of buckets of a new store; None to choose by the number of events.
    """

    form: LogForm = "rows"
    columns: LogColumns = field(default_factory=LogColumns)
    ubi: UbiRules = field(default_factory=UbiRules)
    where: str | None = None
    max_clicks: int | None = None
    since: str | None = None
    until: str | None = None
    min_sessions: int = 1
    max_unmatched: float = 0.05
    keep_queries: bool = False
    users: bool = False
    salt: str | None = None
    n_buckets: int | None = None


class ClickFacts(NamedTuple):
    """The numbers that a build found in a log.

    Attributes
    ----------
    n_events
        Number of events: results that were shown, and clicks that came alone.
    problems
        Number of events that were left out for each cause (`problems.PROBLEMS`).
    notes
        Other numbers that explain the counts (`problems.NOTES`).
    n_kept
        Number of impressions in the nights that are kept, with those of documents that the data
        lacks.
    """

    n_events: int
    problems: dict[str, int]
    notes: dict[str, int]
    n_kept: int = 0

    @classmethod
    def of(cls, n_kept: int, found: Counter[str]) -> ClickFacts:
        """The facts of a log of which `n_kept` events were read, and counts by cause."""
        problems = {name: found[name] for name in PROBLEMS}
        n_dropped = sum(n for name, n in problems.items() if name not in FOUND_LATER) - found[READ]
        return cls(n_kept + n_dropped, problems, {name: found[name] for name in NOTES})

    @property
    def unmatched_share(self) -> float:
        """The share of the events that were left out.

        Documents are compared with the data in the nights that are kept only, so that the share of
        absent ones is one of these nights.
        """
        n_absent = self.problems[ABSENT]
        n_lost = sum(self.problems.values()) - n_absent
        return _left_out(n_lost, self.n_events, n_absent, self.n_kept)

    def check(self, most: float) -> None:
        """Raise DataError if a larger share of the events than `most` was left out."""
        if self.unmatched_share <= most:
            return
        causes = "\n".join(f"  {n:,}: {PROBLEMS[name]}" for name, n in self.problems.items() if n)
        kept = f" ({self.n_kept:,} in the nights kept)" if self.n_kept else ""
        raise DataError(
            f"{self.unmatched_share:.1%} of {self.n_events:,} events{kept} cannot be used, more "
            f"than {most:.1%} (--max-unmatched):\n{causes}\n"
            "Correct the log or the names of its columns."
        )


def check_first_position(found: Counter[str]) -> None:
    """Raise DataError if a log that is said to count positions from 1 counts from 0, or reversely.

    The first results of its sessions would be lost, and all others would count one position too
    high. On long pages they are fewer than the events that may be unmatched.
    """
    if found["positions_of_0"] > max(1, MOST_AT_0 * found[OF_LOG]):
        raise DataError(
            f"{found['positions_of_0']:,} events in {found[OF_LOG]:,} sessions are at position 0. "
            "If the log counts positions from 0, give --first-position 0; if such a position is a "
            "missing one, leave these rows out with --filter."
        )
    if not found[AT_0] and MOST_AT_0 * found[POSITIONS_FROM_0] >= 1:
        raise DataError(
            f"none of {found[POSITIONS_FROM_0]:,} events is at position 0, so that the log counts "
            "positions from 1; leave --first-position 0 out."
        )


def check_each_kind(
    facts: ClickFacts, found: Counter[str], most: float, absent_clicks: tuple[int, int] = (0, 0)
) -> None:
    """Raise DataError if a larger share than `most` of clicks, or of impressions, was left out.

    Clicks are few beside impressions, so that the share of all events says little about them. One
    click may always be left out. `absent_clicks` are the numbers of clicks on documents that the
    data lacks, and of all clicks, in the nights that are kept.
    """
    without = found["clicks_without_impressions"]
    of_alone = {
        "clicks_without_impressions": without,
        "contradicting_positions": found[ALONE_WRONG],
    }
    lost = {"other causes": found[ALONE_LOST] + found[CLICKS_LOST]}
    lost |= {PROBLEMS[name]: n for name, n in of_alone.items()}
    _check_kind("clicks", lost, absent_clicks, found[ALONE] + found[CLICKS], most, 1)
    problems = {name: n for name, n in facts.problems.items() if name != ABSENT}
    lost = {PROBLEMS[name]: n - of_alone.get(name, 0) for name, n in problems.items()}
    absent = facts.problems[ABSENT], facts.n_kept
    lost["clicks that came alone"] = -found[ALONE_LOST]
    n_shown = facts.n_events - found[ALONE]
    if found[ALONE]:  # otherwise all events are impressions
        _check_kind("impressions", lost, absent, n_shown, most, 0)


def _check_kind(
    name: str,
    lost: dict[str, int],
    absent: tuple[int, int],
    n_all: int,
    most: float,
    spared: int,
) -> None:
    n_lost, (n_absent, n_kept) = sum(lost.values()), absent
    share = _left_out(n_lost, n_all, n_absent, n_kept)
    if share <= most or n_lost + n_absent <= spared:
        return
    causes = "".join(f"\n  {n:,}: {cause}" for cause, n in lost.items() if n > 0)
    if n_absent:
        causes += f"\n  {n_absent:,} (of {n_kept:,} in the nights kept): {PROBLEMS[ABSENT]}"
    raise DataError(
        f"{n_lost + n_absent:,} of {n_all:,} {name} cannot be used, more than {most:.1%} "
        f"(--max-unmatched):{causes}\nCorrect the log or the names of its columns."
    )


def _left_out(n_lost: int, n_all: int, n_absent: int, n_kept: int) -> float:
    """The share of events that were left out; absent documents are a share of the nights kept."""
    unused = n_lost / max(n_all, 1)
    return unused + (1 - unused) * n_absent / max(n_kept, 1)


def checked_log(log: ClickLog) -> ClickLog:
    """The log with its options checked; `ubi` has columns of its own.

    Raises
    ------
    UsageError
        If an option is wrong.
    """
    if not 0 <= log.max_unmatched <= 1:
        raise UsageError(f"max_unmatched is {log.max_unmatched}; it is a share from 0 to 1.")
    if log.n_buckets is not None and not 1 <= log.n_buckets <= MAX_BUCKETS:
        raise UsageError(f"n_buckets is {log.n_buckets}; it is from 1 to {MAX_BUCKETS}.")
    for name in ("since", "until"):
        if (day := getattr(log, name)) is not None:
            check_date(day, name)
    own = log.columns
    if log.form != "ubi":
        if own.clicked_ids and log.form == "rows":
            raise UsageError("lists of clicked documents (clicked_ids) are of the form lists only.")
        if log.ubi != UbiRules():
            raise UsageError(
                f"the form {log.form} has no actions, and no pages but columns: actions and pages "
                "are of ubi only. --context-columns counts pages apart, --filter leaves some out."
            )
        return log
    for name in ("session", "query", "document", "position", "clicked", "time", "clicked_ids"):
        if getattr(own, name) != getattr(LogColumns(), name):
            raise UsageError(
                f"User Behavior Insights have a {name.replace('_', ' ')} of their own, so that an "
                "option for it says nothing; leave it out, or read such a log as rows or lists."
            )
    user = own.user or UBI.user
    names = ("arm", "weight", "context", "filters", "first_position")
    given = {name: getattr(own, name) for name in names}
    return replace(log, columns=replace(UBI, user=user, **given))


def parse_window(window: str) -> int:
    """Number of nights of a window such as ``28d``.

    Raises
    ------
    UsageError
        If `window` has another form.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,4})d", window)
    if not found:
        raise UsageError(f"window is {window!r}; write a number of days such as 28d.")
    return int(found[1])
