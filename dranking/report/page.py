"""The page itself: sections of text, tables and figures, in one self-contained HTML file."""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    environment.filters |= {"cell": cell_text, "svg": inline_svg, "is_number": _is_number}
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


def cell_text(value: Any) -> str:
    """A cell as text: four significant digits, thousands apart, a dash for nothing."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, float):
        if value != value:
            return "\N{EN DASH}"
        return f"{value:.4g}"
    return f"{value:,}" if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
