"""Output of the commands: one JSON object or tables on stdout; progress and notes on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dranking.engine.shown_progress import literal, notes, reporting_shown
from dranking.errors import (
    AccuracyWarning,
    ClickWarning,
    ComparisonWarning,
    DataWarning,
    RetrainWarning,
    SelectionWarning,
    TuningWarning,
)
from dranking.files.json_files import finite
from dranking.redaction import redacted

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


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; a number that is not finite becomes null."""
    sys.stdout.write(json.dumps(finite(result), allow_nan=False) + "\n")
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


def format_value(value: Any) -> str:
    """Format a value for tables."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.4g}"


def interval_text(low: float, high: float, sign: str = "") -> str:
    """The ends of an interval in brackets; empty where there is none.

    Examples
    --------
    >>> interval_text(0.02, 0.18, "+")
    '[+0.0200, +0.1800]'
    """
    return "" if math.isnan(low) else f"[{low:{sign}.4f}, {high:{sign}.4f}]"


@contextmanager
def progress_shown() -> Iterator[None]:
    """Show the progress that is reported inside: bars on a terminal, JSON lines elsewhere."""
    with warnings.catch_warnings():
        for category in SHOWN_WARNINGS:
            warnings.simplefilter("always", category)
        # By module: to name scikit-learn's ConvergenceWarning would import scikit-learn.
        warnings.filterwarnings("always", category=UserWarning, module=r"dranking\.")
        warnings.showwarning = _show_warning
        with reporting_shown():
            yield


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"warning: {message}")
