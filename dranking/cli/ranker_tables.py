"""Tables of a comparison of several rankers, as text, Markdown or LaTeX."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from dranking.cli.output import format_value, interval_text, note, print_line, print_table

if TYPE_CHECKING:
    from dranking.metrics.comparison.many_rankers import MeasureOfRankers, RankerComparison

MOST_PAIRS = 45
"""Largest number of pairs that are printed for a measure; ten rankers have so many."""


def print_rankers(result: RankerComparison, form: Literal["text", "markdown", "latex"]) -> None:
    """Print the means of all rankers; as text also pairs, intervals and the furthest queries.

    How many queries each ranker was trained on is a line below the text, and a note beside a table.
    """
    if form == "text":
        _print_text(result)
    elif form == "latex":
        table = result.to_frame().reset_index().style.hide(axis="index").format(escape="latex")
        table = table.format_index(escape="latex", axis=1)
        for line in table.to_latex(hrules=True).splitlines():
            print_line(line)
    else:
        columns, rows = _table(result)
        for cells in (columns, ["---"] * len(columns), *rows):
            print_line(f"| {' | '.join(_as_markdown(cell) for cell in cells)} |")
    say = print_line if form == "text" else note
    for name, overlap in result.trained_on.items():
        if overlap is not None:
            say(f"{name}: {overlap.text}")


def _table(result: RankerComparison) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the means of all rankers."""
    frame = result.to_frame()
    rows = [[str(index), *row] for index, row in zip(frame.index, frame.values, strict=True)]
    return ["ranker", *frame.columns], rows


def _as_markdown(cell: str) -> str:
    """A cell in which no character is a mark of Markdown."""
    return re.sub(r"([|*_<`])", r"\\\1", cell)


def _print_text(result: RankerComparison) -> None:
    """Print the means of all rankers, and the figures of each measure."""
    test = {"sign-flip": "random signs with Holm's correction", "tukey-hsd": "Tukey's test"}
    title = (
        f"{len(result.rankers)} rankers, {result.n_queries:,} queries; letters name the rankers "
        f"that are worse ({test[result.test]}, level {1 - result.confidence:.2g})"
    )
    print_table(title, *_table(result))
    for entry in result.metrics:
        _print_measure(entry, result)


def _print_measure(entry: MeasureOfRankers, result: RankerComparison) -> None:
    """Print the intervals, the pairs and the furthest queries of a measure."""
    letters, confidence = result.letters, f"{result.confidence:.0%}"
    means = [
        (f"{letters[r.ranker]} {r.ranker}", r.mean, interval_text(r.low, r.high))
        for r in entry.rankers
    ]
    counting = f"{entry.metric}: {entry.n_queries:,} queries count for all rankers"
    if entry.n_excluded:
        counting += f", {entry.n_excluded:,} do not"
    print_table(counting, ["ranker", "mean", confidence], means)
    pairs = [
        (
            f"{letters[pair.a]} - {letters[pair.b]}",
            f"{pair.difference:+.4f} {interval_text(pair.low, pair.high, '+')}",
            f"{format_value(pair.p_value)} ({format_value(pair.p_adjusted)})",
            f"{pair.wins} / {pair.ties} / {pair.losses}",
        )
        for pair in sorted(entry.pairs, key=lambda pair: pair.p_adjusted)[:MOST_PAIRS]
    ]
    headings = ["pair", f"difference [{confidence}]", "p (adjusted)", "win / tie / loss"]
    print_table(f"{entry.metric}: pairs", headings, pairs)
    if len(entry.pairs) > len(pairs):
        print_line(f"{len(entry.pairs) - len(pairs):,} further pairs: --json has all.")
    if entry.furthest:
        rows = [(query, *values) for query, values in entry.furthest]
        title = f"{entry.metric}: the queries whose values lie furthest apart"
        print_table(title, ["query", *(letters[name] for name in result.rankers)], rows)
