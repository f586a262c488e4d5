"""Figures as SVG within a page, in colours of the page's style sheet, so that dark mode applies."""

from __future__ import annotations

import io
import re
import warnings
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, THEIRS, BAD = "#2f5d8a", "#8a8f98", "#b3261e"
LINE, AXIS = "#e6e6e6", "#4c4c4c"
SERIES = ("#3b3f8c", "#2f6f9f", "#1f8a80", "#3f9b4f", "#93a82e", "#c98a1b", "#c4562e", "#9c3f77")
"""Colours of lines that are compared with one another, in a fixed order."""

COLOURS = {
    OURS: "var(--accent)",
    THEIRS: "var(--soft)",
    BAD: "var(--bad)",
    LINE: "var(--line)",
    AXIS: "var(--ink)",
    "#cccccc": "var(--line)",
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#1f77b4": "var(--accent)",
    "#ff7f0e": "var(--bad)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES)},
}
"""Colours in figures -> colours of the page. The last two plain ones are matplotlib's first two."""

_COLOUR = re.compile("#[0-9a-f]{6}")


def inline_svg(figure: Figure, caption: str) -> Any:
    """Render a figure as an SVG element that scales with the page and takes its colours.

    The caption describes the figure to screen readers.
    """
    from markupsafe import Markup, escape
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    # Letters are drawn as paths, so that no font is needed. The salt makes the bytes reproducible.
    with (
        rc_context({"svg.fonttype": "path", "svg.hashsalt": caption}),
        warnings.catch_warnings(),
    ):
        # Scripts that the font lacks are boxes in the figure; the table shows these names.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        # `savefig` would draw three times: for the layout, for the size, and for the file.
        if engine := figure.get_layout_engine():
            engine.execute(figure)
        figure.set_layout_engine("none")  # a second layout would move parts
        canvas: Any = FigureCanvasSVG(figure)  # matplotlib does not say the types of this method
        canvas.print_svg(buffer)
    text = buffer.getvalue()
    svg = text[text.index("<svg") :]
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = _COLOUR.sub(lambda found: COLOURS.get(found[0], found[0]), rest)
    rest = _private_ids(rest, f"f{zlib.crc32(caption.encode()):x}-")
    label = escape(caption)
    return Markup(f'{opening} role="img" aria-label="{label}">{rest}')


def _private_ids(svg: str, prefix: str) -> str:
    """Make the identifiers of a figure unique on the page."""
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    return re.sub(r'href="#', f'href="#{prefix}', svg)
