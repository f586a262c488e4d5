"""Output of the commands: one JSON object or tables on stdout; progress and notes on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dranking.engine.progress import reporting
from dranking.errors import (
    AccuracyWarning,
    ClickWarning,
    ComparisonWarning,
    DataWarning,
    RetrainWarning,
    SelectionWarning,
    TuningWarning,
)
from dranking.redaction import redacted

LOG_SECONDS = 10.0
"""Least time between two log lines of a stage, in seconds."""

WIDE = 120
"""Width of tables where neither a terminal nor COLUMNS sets the width."""

SHOWN_WARNINGS = (
    AccuracyWarning,
    ClickWarning,
    ComparisonWarning,
    DataWarning,
    RetrainWarning,
    SelectionWarning,
    TuningWarning,
)

console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)
notes = Console(stderr=True)


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; a number that is not finite becomes null."""
    sys.stdout.write(json.dumps(_finite(result), allow_nan=False) + "\n")
    sys.stdout.flush()


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a title and a table on stdout; columns of numbers are aligned to the right.

    Where a table would be too wide even with its cells wrapped, every row is printed as lines of
    its own, so that no value is cut. A table of facts, whose first column has no name, has a line
    for each fact there.
    """
    texts = [[literal(format_value(value)) for value in row] for row in rows]
    print_line(title, style="bold")
    cells = [[literal(column), *(row[i] for row in texts)] for i, column in enumerate(columns)]
    widths = _widths(cells, console.width)
    if widths is None:
        if columns[0] or len(columns) > 2:
            _print_row_by_row(columns, texts)
        else:
            _print_facts(texts)
        return
    table = Table()
    for index, width in enumerate(widths):
        numeric = all(isinstance(row[index], (int, float)) for row in rows)
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(cells[index][0], justify=justify, width=width)
    for row in texts:
        table.add_row(*row)
    console.print(table)


def _widths(cells: Sequence[Sequence[Text]], width: int) -> list[int] | None:
    """Widths of the columns of a table, in characters, in which every word stands whole.

    Rich by itself narrows the widest columns first, below the length of their words, which it then
    cuts. Here the narrowest columns are widened first, from the length of their longest word.

    Parameters
    ----------
    cells
        The texts of each column, its name among them.
    width
        Width of the whole table with its frame: 3 characters for each column, and 1.

    Returns
    -------
    The width of each column; None if the longest words do not fit beside each other.
    """
    endless = console.options.update(max_width=10_000)
    sizes = [[Measurement.get(console, endless, text) for text in column] for column in cells]
    widths = [max(size.minimum for size in column) for column in sizes]
    wanted = [max(size.maximum for size in column) for column in sizes]
    spare = width - (sum(widths) + 3 * len(widths) + 1)
    if spare < 0:
        return None
    while spare > 0 and widths != wanted:
        narrowest = min(
            (i for i in range(len(widths)) if widths[i] < wanted[i]), key=widths.__getitem__
        )
        widths[narrowest] += 1
        spare -= 1
    return widths


def _print_row_by_row(columns: Sequence[str], texts: Sequence[Sequence[Text]]) -> None:
    """Print every row as lines of its own, one for each column with a text."""
    for index, row in enumerate(texts):
        if index:
            console.print()
        lines = Table.grid(padding=(0, 2))
        lines.add_column(no_wrap=True)
        lines.add_column(overflow="fold")
        for column, text in zip(columns, row, strict=True):
            if text.plain:
                lines.add_row(literal(column, "dim"), text)
        console.print(lines)


def _print_facts(texts: Sequence[Sequence[Text]]) -> None:
    """Print names and values beside each other; values that are too long go on below."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", overflow="fold")
    lines.add_column(overflow="fold")
    for row in texts:
        lines.add_row(*row)
    console.print(lines)


def print_facts(title: str, facts: Mapping[str, Any], column: str = "value") -> None:
    """Print a table of facts on stdout; ``n_documents`` is shown as ``documents``."""
    rows = [(name.removeprefix("n_").replace("_", " "), value) for name, value in facts.items()]
    print_table(title, ["", column], rows)


def print_line(text: str, style: str = "") -> None:
    """Print a line of text on stdout."""
    console.print(literal(text, style), soft_wrap=True)


def note(message: str) -> None:
    """Print a message on stderr, without the credentials that URLs may hold."""
    for line in redacted(message).split("\n"):
        notes.print(literal(line), soft_wrap=True)


def literal(text: str, style: str = "") -> Text:
    r"""Text that is printed as it is: names in data may hold markup and control characters.

    Examples
    --------
    >>> literal("bm25[title] [/x]\x1b[2J").plain
    'bm25[title] [/x]\\x1b[2J'
    """
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return Text("".join(escaped), style)


def format_value(value: Any) -> str:
    """Format a value for tables."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.4g}"


@contextmanager
def progress_shown() -> Iterator[None]:
    """Show the progress that is reported inside: bars on a terminal, JSON lines elsewhere."""
    with warnings.catch_warnings():
        for category in SHOWN_WARNINGS:
            warnings.simplefilter("always", category)
        # By module: to name scikit-learn's ConvergenceWarning would import scikit-learn.
        warnings.filterwarnings("always", category=UserWarning, module=r"dranking\.")
        warnings.showwarning = _show_warning
        if notes.is_terminal:
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
