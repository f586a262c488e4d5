"""A page of text, tables and figures, rendered as one self-contained HTML file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.report.svg import SERIES, inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates"
DECIMALS = 4
TINY, HUGE = 1e-5, 1e6
"""Numbers beyond these magnitudes are not written with the number of decimals of their column."""
LONG = 24
"""Length of a text without spaces from which lines may break anywhere."""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    columns
        Headings. A column is aligned to the right if its first cell is a number.
    rows
        Cells: text, numbers or None.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Drawing:
    """A figure, and a caption that also describes the figure to screen readers."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes
    ----------
    title
        Heading of the section.
    paragraphs
        Plain text, without markup.
    drawings, tables
        Figures and tables after the text.
    code
        Commands, shown in a fixed-width font.
    folded
        A section that is shown when its title is clicked.
    """

    title: str
    paragraphs: Sequence[str] = ()
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()
    code: str = ""
    folded: Section | None = None


@dataclass(frozen=True)
class Page:
    """The page of a report.

    Attributes
    ----------
    title, subtitle
        Heading of the page, and the line below it.
    facts
        The most important numbers: label and text.
    sections
        The sections, in order.
    good
        Whether the verdict is favourable; None without a verdict.
    origin
        Origin of the page and of the model, for the footer: label and text.
    links
        Other pages: text, and place relative to this page.
    """

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default_factory=tuple)
    good: bool | None = None
    origin: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()


def check_page_name(path: Place) -> None:
    """Raise UsageError if the name of a file promises another form than HTML."""
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise UsageError(
            f"{path}: a report is an HTML page; name a file that ends in .html. Browsers print it "
            "as PDF."
        )


def render(page: Page) -> str:
    """Render a page as HTML, without scripts, other files or anything from the network."""
    return str(_template().render(page=page, series=SERIES))


@cache
def _template() -> Any:
    """The template of all pages, which takes a tenth of a second to compile."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cells": cells, "svg": _svg_of, "look": look}
    return environment.get_template("page.html")


def _svg_of(drawing: Drawing) -> Any:
    return inline_svg(drawing.figure, drawing.caption)


def cells(table: Table) -> list[list[tuple[str, str]]]:
    """Text and CSS class of every cell; numbers of a column have equal decimals."""
    columns = [list(column) for column in zip(*table.rows, strict=True)]
    texts = [
        [cell_text(value, places) for value in column]
        for column, places in zip(columns, map(decimals, columns), strict=True)
    ]
    looks = [[look(value) for value in column] for column in columns]
    return [
        list(zip(of_row, looks_of_row, strict=True))
        for of_row, looks_of_row in zip(
            zip(*texts, strict=True), zip(*looks, strict=True), strict=True
        )
    ]


def decimals(column: Sequence[Any]) -> int | None:
    """Decimals for the numbers of a column; None if there are tiny or huge numbers."""
    sizes = [abs(v) for v in column if isinstance(v, float) and math.isfinite(v) and v != 0]
    if sizes and (min(sizes) < TINY or max(sizes) >= HUGE):
        return None
    return max(DECIMALS, 1 - math.floor(math.log10(min(sizes, default=1.0))))


def cell_text(value: Any, places: int | None = None) -> str:
    """Format a cell: with some decimals, or four digits if None; a dash for None and NaN."""
    if value is None or value != value:
        return "\N{EN DASH}"
    if isinstance(value, float):
        return f"{value:.4g}" if places is None else f"{value:.{places}f}"
    return f"{value:,}" if _is_number(value) else str(value)


def look(value: Any) -> str:
    """CSS class of a cell: for numbers, dates, verdicts, and long texts without spaces."""
    if _is_number(value):
        return "number"
    if isinstance(value, date):
        return "day"
    if value in ("passed", "failed"):
        return "good" if value == "passed" else "bad"
    return "long" if isinstance(value, str) and len(value) > LONG and " " not in value else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
