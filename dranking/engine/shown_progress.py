"""Progress on stderr: bars on a terminal and in notebooks, JSON lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dranking.engine.progress import is_reported, reporting

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LOG_SECONDS = 10.0
"""Least time between two log lines of a stage, in seconds."""

notes = Console(stderr=True)


def progress_of(verbose: bool | None) -> AbstractContextManager[None]:
    """Show the progress of what is done inside, unless a caller shows it.

    True shows it; None on a terminal only; False never.
    """
    if verbose is False or is_reported() or (verbose is None and not notes.is_terminal):
        return nullcontext()
    return reporting_shown()


def with_progress(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, which also takes ``verbose``, as `progress_of` does."""

    @wraps(function)
    def shown(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        verbose: Any = options.pop("verbose", None)
        with progress_of(verbose):
            return function(*args, **options)

    return shown


@contextmanager
def reporting_shown() -> Iterator[None]:
    """Show the progress that is reported inside."""
    if notes.is_terminal or notes.is_jupyter:
        with _bars() as reporter, reporting(reporter):
            yield
    else:
        with reporting(_LogLines()):
            yield


class _Pace:
    """Pace of every stage since its first report, without the work of an interrupted job."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, float]] = {}

    def seconds_left(self, stage: str, done: int, total: int | None) -> float | None:
        """Seconds until a stage ends at its pace so far; None if not known."""
        now = time.monotonic()
        first, begun = self._first.setdefault(stage, (done, now))
        if total is None or done <= first:
            return None
        return (now - begun) * (total - done) / (done - first)


class _LogLines:
    """Progress as JSON lines on stderr, every few seconds for each stage; none for short jobs."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._last: dict[str, float] = {}
        self._pace = _Pace()

    def __call__(self, stage: str, done: int, total: int | None, facts: dict[str, Any]) -> None:
        now = time.monotonic()
        left = self._pace.seconds_left(stage, done, total)
        passed = now - self._last.get(stage, self._begun)
        if passed >= (LOG_SECONDS / 4 if done == total else LOG_SECONDS):
            self._last[stage] = now
            seconds = {} if left is None else {"seconds_left": round(left, 1)}
            time_of_day = datetime.now(UTC).isoformat(timespec="seconds")
            line = {"time": time_of_day, "stage": stage, "done": done, "total": total}
            line |= {**facts, **seconds}
            notes.print(literal(json.dumps(line)), soft_wrap=True)


@contextmanager
def _bars() -> Iterator[Any]:
    """A reporter that shows a progress bar for every stage."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[facts]}", style="dim", markup=False),
    )
    with Progress(*columns, console=notes, transient=True) as progress:
        bars: dict[str, Any] = {}
        pace = _Pace()

        def show(stage: str, done: int, total: int | None, facts: dict[str, Any]) -> None:
            if stage not in bars:
                name = literal(stage).plain
                bars[stage] = progress.add_task(name, total=total, facts="", left="")
            left = pace.seconds_left(stage, done, total)
            text = "" if left is None else f"{timedelta(seconds=round(left))} left"
            shown = " ".join(_fact(name, value) for name, value in facts.items())
            progress.update(bars[stage], completed=done, total=total, facts=shown, left=text)

        yield show


def _fact(name: str, value: Any) -> str:
    """Format a fact for progress bars."""
    from dranking.files.sizes import format_bytes

    if name.startswith("bytes_"):
        return f"{format_bytes(value)} {name.removeprefix('bytes_')}"
    return f"{name} {literal(str(value)).plain}"


def literal(text: str, style: str = "") -> Text:
    r"""Text that is printed as it is: names in data may hold markup and control characters.

    Examples
    --------
    >>> literal("bm25[title] [/x]\x1b[2J").plain
    'bm25[title] [/x]\\x1b[2J'
    """
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return Text("".join(escaped), style)
