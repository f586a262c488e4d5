"""The preference of users for one of two rankers, with an interval for looks at every day.

The independent units are users, each with one number: the mean credit of the pages of the user's
first day (UTC). A user who comes back on another day stays one unit, and changes nothing: values
that entered a confidence sequence must stay as they are. So days that may not be over yet do not
count, and neither do the later days of a user.

Conditions: users arrive from one population, one user does not sway another, and the two rankers
stay the same. Where one person has several ids, the interval is too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.interleaving.credit_files import Credits
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.confidence_sequences import (
    confidence_sequence,
    expected_half_width,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Verdict: TypeAlias = Literal["a", "b", "futile", "changed", "open"]

NEITHER: Final = 0.5
WEEK: Final = 7
MAX_POINTS: Final = 2_000
"""Largest number of points of a figure; more points could not be told apart by eye."""


@dataclass(frozen=True)
class Units:
    """One value for each user, in the order of arrival.

    Attributes
    ----------
    values
        (n_users,) float64 mean credit of the user's first day.
    arrival
        (n_users,) datetime64[us], ascending: the time of the user's first page.
    n_pages
        Number of pages over which the values are means.
    n_later_pages
        Number of pages of later days of users, which do not count.
    n_open_pages
        Number of pages of days that may not be over, which do not count yet.
    until
        The first day that does not count.
    """

    values: Array
    arrival: NDArray[np.datetime64]
    n_pages: int
    n_later_pages: int
    n_open_pages: int
    until: date


@dataclass(frozen=True)
class PreferenceSequence:
    """The interval of the mean preference for ranker b after every user.

    Attributes
    ----------
    units
        The users.
    lower, upper
        (n_users,) ends of the intervals; with probability 1 - alpha all of them hold the mean.
    alpha
        Probability that some interval misses the mean.
    margin
        Preference beyond 1/2 that would be worth the change to b.
    verdict
        "b" or "a": the interval excludes 1/2 on that side. "futile": b is not better by `margin`.
        "changed": two intervals contradict each other, so that the mean has moved. Else "open".
    decided_after
        Number of users after which the verdict was reached; None for "open".
    """

    units: Units
    lower: Array
    upper: Array
    alpha: float
    margin: float
    verdict: Verdict
    decided_after: int | None

    @property
    def users_a_day(self) -> float:
        """New users a day, over the last seven days that count."""
        end = np.datetime64(self.units.until)
        days = min(WEEK, int((end - self.units.arrival[0].astype("datetime64[D]")).astype(int)))
        return int((self.units.arrival >= end - np.timedelta64(days, "D")).sum()) / days

    @property
    def in_a_week(self) -> tuple[int, float]:
        """Users in a week at this traffic, and half of the width of the interval expected then."""
        n_users = len(self.units.values) + round(WEEK * self.users_a_day)
        mean, variance = float(self.units.values.mean()), float(np.var(self.units.values))
        return n_users, expected_half_width(n_users, mean, min(variance, 0.25), self.alpha)

    def as_json(self) -> dict[str, Any]:
        """The figures of the analysis."""
        n_users, half_width = self.in_a_week
        decided = self.decided_after
        return {
            "n_users": len(self.units.values),
            "n_pages": self.units.n_pages,
            "n_later_pages": self.units.n_later_pages,
            "n_open_pages": self.units.n_open_pages,
            "until": self.units.until.isoformat(),
            "mean": float(self.units.values.mean()),
            "interval": [float(self.lower[-1]), float(self.upper[-1])],
            "confidence": 1.0 - self.alpha,
            "margin": self.margin,
            "verdict": self.verdict,
            "decided_after_users": decided,
            "decided_at": None if decided is None else str(self.units.arrival[decided - 1]),
            "users_a_day": self.users_a_day,
            "in_a_week": {"n_users": n_users, "half_width": half_width},
        }


def first_days(credits: Credits, until: date | None = None) -> Units:
    """One value for each user: the mean credit of the pages of the user's first day.

    Parameters
    ----------
    until
        The first day that does not count; None means the last day of the credits, which may not be
        over.

    Raises
    ------
    DataError
        If no day counts.
    """
    if not len(credits.credit):
        raise DataError("there are no credits.")
    days = credits.time.astype("datetime64[D]")
    end = np.datetime64(until) if until is not None else days.max()
    counts = np.flatnonzero(days < end)
    if not len(counts):
        raise DataError(
            f"no day before {end} has credits; the last day counts once it is over: say so with "
            f"--until {end + 1}."
        )
    order = counts[np.lexsort((credits.time[counts], credits.user[counts]))]
    user = credits.user[order]
    starts = np.flatnonzero(np.append(True, user[1:] != user[:-1]))
    sizes = np.diff(np.append(starts, len(user)))
    on_first_day = days[order] == np.repeat(days[order[starts]], sizes)
    sums = np.add.reduceat(np.where(on_first_day, credits.credit[order], 0.0), starts)
    n_pages = np.add.reduceat(on_first_day.astype(np.int64), starts)
    arrival = credits.time[order[starts]]
    arrived = np.lexsort((user[starts], arrival))
    return Units(
        values=np.clip(sums / n_pages, 0.0, 1.0)[arrived],
        arrival=arrival[arrived],
        n_pages=int(n_pages.sum()),
        n_later_pages=len(order) - int(n_pages.sum()),
        n_open_pages=len(days) - len(counts),
        until=end.astype(date),
    )


def preference_sequence(
    units: Units, alpha: float = 0.05, margin: float = 0.01
) -> PreferenceSequence:
    """Follow the mean preference from user to user.

    Raises
    ------
    UsageError
        If `alpha` is not between 0 and 1, or `margin` not from 0 to 1/2.
    """
    if not 0.0 <= margin < NEITHER:
        raise UsageError(f"margin is {margin}; it must be at least 0 and below 0.5.")
    lower, upper = confidence_sequence(units.values, alpha)
    reached: dict[Verdict, NDArray[np.bool_]] = {
        "changed": lower > upper,
        "b": lower > NEITHER,
        "a": upper < NEITHER,
        "futile": upper < NEITHER + margin,
    }
    verdict: Verdict = next((name for name, when in reached.items() if when[-1]), "open")
    after = int(np.argmax(reached[verdict])) + 1 if verdict in reached else None
    return PreferenceSequence(units, lower, upper, alpha, margin, verdict, after)


def plot_preference(sequence: PreferenceSequence) -> Figure:
    """Draw mean and interval against the number of users; `save_figure` writes the figure."""
    from matplotlib.figure import Figure

    n = len(sequence.units.values)
    users = np.unique(np.geomspace(1, n, min(n, MAX_POINTS)).round().astype(int))
    means = np.cumsum(sequence.units.values)[users - 1] / users
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(
        users,
        sequence.lower[users - 1],
        sequence.upper[users - 1],
        color="#2f5d8a",
        alpha=0.25,
        linewidth=0,
        label=f"{1 - sequence.alpha:.0%} at all times",
    )
    axes.plot(users, means, color="#2f5d8a", label="mean")
    axes.axhline(NEITHER, color="0.4", linewidth=0.8)
    axes.axhline(NEITHER + sequence.margin, color="0.4", linewidth=0.8, linestyle=":")
    axes.set(xlabel="users", ylabel="preference for b", ylim=_limits(sequence, users))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def _limits(sequence: PreferenceSequence, users: NDArray[np.int64]) -> tuple[float, float]:
    """Limits that show the second half of the sequence, and 1/2."""
    half = users[len(users) // 2] - 1
    low = min(float(sequence.lower[half]), NEITHER - sequence.margin)
    high = max(float(sequence.upper[half]), NEITHER + sequence.margin)
    return low - 0.02, high + 0.02
