"""The page itself: sections of text, tables and figures, in one self-contained HTML file."""

from __future__ import annotations

import io
import math
import re
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DECIMALS = 4
TINY, HUGE = 1e-5, 1e6
"""Sizes beyond which numbers of a column are not written with the same decimals."""
LONG = 24  # characters without a space


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    columns
        Headings; a column whose first cell is a number is aligned to the right.
    rows
        Cells: text, numbers or None.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Drawing:
    """A figure, and what it shows in words, for those who cannot see it."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    title
        Its heading.
    paragraphs
        Text; nothing in it is markup.
    drawings, tables
        What follows the text.
    code
        Commands to repeat it.
    """

    title: str
    paragraphs: Sequence[str] = ()
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()
    code: str = ""


@dataclass(frozen=True)
class Page:
    """What a report says.

    Attributes
    ----------
    title, subtitle
        Above everything.
    facts
        The few figures that matter most, with their labels.
    sections
        In order.
    good
        Whether the verdict is favourable; None if there is none.
    """

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default_factory=tuple)
    good: bool | None = None


def render(page: Page) -> str:
    """The page as HTML: no script, no other file, nothing from the network."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("dranking.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cells": cells, "svg": inline_svg, "look": look}
    return environment.get_template("page.html").render(page=page)


def inline_svg(drawing: Drawing) -> Any:
    """A figure as an SVG element that scales with the page and names what it shows."""
    from markupsafe import Markup, escape
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Paths for letters: the reader's fonts do not matter. A fixed salt: the same bytes each time.
    with (
        rc_context({"svg.fonttype": "path", "svg.hashsalt": drawing.caption}),
        warnings.catch_warnings(),
    ):
        # Names in scripts that the font lacks: boxes in the figure, letters in the table.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        drawing.figure.draw_without_rendering()
        drawing.figure.set_layout_engine("none")  # laid out once: again would move things a little
        drawing.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    svg = text[text.index("<svg") :]
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = _private_ids(rest, f"f{zlib.crc32(drawing.caption.encode()):x}-")
    label = escape(drawing.caption)
    return Markup(f'{opening} role="img" aria-label="{label}">{rest}')


def _private_ids(svg: str, prefix: str) -> str:
    """Identifiers that no other figure of the page has."""
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    return re.sub(r'href="#', f'href="#{prefix}', svg)


def cells(table: Table) -> list[list[tuple[str, str]]]:
    """The cells of a table: texts, those of a column with the same decimals, and their looks."""
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
    """Decimals that tell the numbers of a column apart; None if it has tiny or huge ones."""
    sizes = [abs(v) for v in column if isinstance(v, float) and math.isfinite(v) and v != 0]
    if sizes and (min(sizes) < TINY or max(sizes) >= HUGE):
        return None
    return max(DECIMALS, 1 - math.floor(math.log10(min(sizes, default=1.0))))


def cell_text(value: Any, places: int | None = None) -> str:
    """A cell as text: so many decimals or four digits, thousands apart, a dash for nothing."""
    if value is None or value != value:
        return "\N{EN DASH}"
    if isinstance(value, float):
        return f"{value:.4g}" if places is None else f"{value:.{places}f}"
    return f"{value:,}" if _is_number(value) else str(value)


def look(value: Any) -> str:
    """The class of a cell: numbers stand to the right, verdicts in colour, digests may break."""
    if _is_number(value):
        return "number"
    if value in ("passed", "failed"):
        return "good" if value == "passed" else "bad"
    return "long" if isinstance(value, str) and len(value) > LONG and " " not in value else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
