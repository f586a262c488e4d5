"""What a log of clicks looks like, which of its sessions count, and what was found in it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from dranking.clicks.logs.columns import LogColumns, LogForm
from dranking.clicks.logs.events import FOUND_LATER, NOTES, PROBLEMS
from dranking.clicks.logs.lists import UBI
from dranking.clicks.store.click_store import check_date
from dranking.errors import DataError, UsageError

MAX_BUCKETS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class ClickLog:
    """What a log of clicks looks like, and which of its sessions count.

    Attributes
    ----------
    form
        Kind of the log: `rows`, `lists` or `ubi`, see `dranking.clicks.logs`.
    columns
        Names of the columns. Of `ubi`, only user, arm, weight and context are used.
    click_actions
        `ubi`: values of ``action_name`` that are clicks.
    where
        A condition on columns that rows of the log must fulfil, such as ``device == 'mobile'``; see
        `dranking.data.parquet.where`.
    max_clicks
        Sessions with more clicks are dropped; None for no limit.
    since, until
        First and last night to keep, such as ``2026-11-01``. With the logs of the days before and
        after, sessions over midnight are whole.
    min_sessions
        A night has no counts of queries with fewer sessions in it. The rule looks at one night, so
        that nights that are appended one by one are those of one build.
    max_unmatched
        Largest share of events that cannot be used; above it the log is refused.
    hash_queries
        Keep salted hashes in place of query texts.
    users
        Count by user also, for intervals that resample users.
    salt
        Salt of hashes of users and queries; None for a random one, or that of the store.
    n_buckets
        Number of buckets of a new store; None to choose by the number of events.
    """

    form: LogForm = "rows"
    columns: LogColumns = field(default_factory=LogColumns)
    click_actions: tuple[str, ...] = ("click",)
    where: str | None = None
    max_clicks: int | None = None
    since: str | None = None
    until: str | None = None
    min_sessions: int = 1
    max_unmatched: float = 0.05
    hash_queries: bool = False
    users: bool = False
    salt: str | None = None
    n_buckets: int | None = None


class ClickFacts(NamedTuple):
    """What a build found in a log.

    Attributes
    ----------
    n_events
        Events: results that were shown, and clicks alone.
    problems
        Events that were left out, by cause (`events.PROBLEMS`).
    notes
        What else was counted (`events.NOTES`).
    """

    n_events: int
    problems: dict[str, int]
    notes: dict[str, int]

    @classmethod
    def of(cls, n_kept: int, found: Counter[str]) -> ClickFacts:
        """The facts of a log of which `n_kept` events were read, and counts by cause."""
        problems = {name: found[name] for name in PROBLEMS}
        n_dropped = sum(n for name, n in problems.items() if name not in FOUND_LATER)
        return cls(n_kept + n_dropped, problems, {name: found[name] for name in NOTES})

    @property
    def unmatched_share(self) -> float:
        """The share of the events that were left out."""
        return sum(self.problems.values()) / max(self.n_events, 1)

    def check(self, most: float) -> None:
        """Raise DataError if a larger share of the events than `most` was left out."""
        if self.unmatched_share <= most:
            return
        causes = "\n".join(f"  {n:,}: {PROBLEMS[name]}" for name, n in self.problems.items() if n)
        raise DataError(
            f"{self.unmatched_share:.1%} of {self.n_events:,} events cannot be used, more than "
            f"{most:.1%} (--max-unmatched):\n{causes}\nCorrect the log or the names of its columns."
        )


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
    if log.form != "ubi":
        return log
    own = log.columns
    user = own.user or UBI.user
    columns = replace(UBI, user=user, arm=own.arm, weight=own.weight, context=own.context)
    return replace(log, columns=columns)


def parse_window(window: str) -> int:
    """Number of nights of a window such as ``28d``.

    Raises
    ------
    UsageError
        If it is no such text.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,4})d", window)
    if not found:
        raise UsageError(f"window is {window!r}; write a number of days such as 28d.")
    return int(found[1])
