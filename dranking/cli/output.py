"""What the commands print: one JSON object or a table on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dranking.engine.progress import reporting
from dranking.errors import RetrainWarning, SelectionWarning, TuningWarning
from dranking.files.redaction import redacted

LOG_SECONDS = 10.0

WIDE = 120

# Where nobody's terminal sets the width, tables need not fold at 80 columns.
console = Console(width=None if sys.stdout.isatty() else WIDE)
notes = Console(stderr=True)


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; a number that is not finite becomes null."""
    sys.stdout.write(json.dumps(_finite(result), allow_nan=False) + "\n")
    sys.stdout.flush()


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a title and a table on stdout; numbers stand to the right."""
    table = Table()
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], (int, float)) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(format_value(value) for value in row))
    console.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
    console.print(table)


def format_value(value: Any) -> str:
    """A value as tables show it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.4g}"


def note(message: str) -> None:
    """Print a remark on stderr, without the credentials that URLs in it may hold."""
    notes.print(redacted(message), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_shown() -> Iterator[None]:
    """Show the progress reported inside: bars on a terminal, JSON lines elsewhere."""
    with warnings.catch_warnings():
        for category in (RetrainWarning, SelectionWarning, TuningWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = _show_warning
        if notes.is_terminal:
            with _bars() as reporter, reporting(reporter):
                yield
        else:
            with reporting(_LogLines()):
                yield


class _Pace:
    """How fast stages go, from their first report on: a resumed job finds some of them done."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, float]] = {}

    def seconds_left(self, stage: str, done: int, total: int | None) -> float | None:
        """Until a stage ends, at the pace so far; None where that is not known."""
        now = time.monotonic()
        first, begun = self._first.setdefault(stage, (done, now))
        if total is None or done <= first:
            return None
        return (now - begun) * (total - done) / (done - first)


class _LogLines:
    """Progress as JSON lines on stderr, now and then of each stage: a short job has none."""

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
            line = {"stage": stage, "done": done, "total": total, **facts, **seconds}
            notes.print(json.dumps(line), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _bars() -> Iterator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[facts]}", style="dim"),
    )
    with Progress(*columns, console=notes, transient=True) as progress:
        bars: dict[str, Any] = {}
        pace = _Pace()

        def show(stage: str, done: int, total: int | None, facts: dict[str, Any]) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total, facts="", left="")
            left = pace.seconds_left(stage, done, total)
            text = "" if left is None else f"{timedelta(seconds=round(left))} left"
            shown = " ".join(_fact(name, value) for name, value in facts.items())
            progress.update(bars[stage], completed=done, total=total, facts=shown, left=text)

        yield show


def _fact(name: str, value: Any) -> str:
    """A fact of progress as bars show it."""
    from dranking.engine.memory import format_bytes

    if name.startswith("bytes_"):
        return f"{format_bytes(value)} {name.removeprefix('bytes_')}"
    return f"{name} {value}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"warning: {message}")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
