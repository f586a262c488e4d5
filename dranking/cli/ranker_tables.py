"""Tables of a comparison of two rankers, and of several as text, Markdown or LaTeX."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from dranking.cli.output import format_value, interval_text, note, print_line, print_table

if TYPE_CHECKING:
    from dranking.metrics.comparison.compare import Comparison, MetricComparison
    from dranking.metrics.comparison.ranker_results import (
        MeasureOfRankers,
        RankerComparison,
    )

MOST_PAIRS = 45
"""Largest number of pairs that are printed for a measure; ten rankers have so many."""


def print_two(result: Comparison, title: str, by: str | None) -> None:
    """Print a row for each metric, and how many queries each model was trained on.

    Where queries have groups, under the name `by`, tables of each metric have a row for each group.
    Holm's correction is there over measures and groups; the row of all queries is no part of it.
    """
    from dranking.metrics.query_groups import and_all

    headings = ["A", "B", f"A - B [{result.confidence:.0%}]", "p (Holm)", "p of signs"]
    headings += ["win / tie / loss", "queries that count"]
    rows = [(entry.metric, *_cells(entry)) for entry in result.metrics]
    print_table(f"{title}: {result.n_queries:,} queries", ["metric", *headings], rows)
    for whole in result.metrics if by else ():
        entries = [(label, e) for label, of in result.by.items() for e in of]
        parts = {label: e for label, e in entries if e.metric == whole.metric}
        named = and_all(parts, whole)
        rows = [(label, *_cells(e, with_holm=e is not whole)) for label, e in named]
        print_table(f"{whole.metric} by {by}", [str(by), *headings], rows)
    for name, overlap in result.trained_on.items():
        if overlap is not None:
            print_line(f"{name.upper()}: {overlap.text}")


def _cells(entry: MetricComparison, *, with_holm: bool = True) -> tuple[Any, ...]:
    """Figures of a measure of two rankers."""
    from dranking.metrics.comparison.compare import interval_text

    holm = f" ({format_value(entry.p_holm)})" if with_holm and entry.n_queries else ""
    return (
        entry.mean_a,
        entry.mean_b,
        f"{entry.difference:+.4f} {interval_text(entry)}" if entry.n_queries else "nan (no query)",
        f"{format_value(entry.p_value)}{holm}",
        format_value(entry.p_permutation),
        f"{entry.wins} / {entry.ties} / {entry.losses}",
        entry.n_queries,
    )


def print_rankers(
    result: RankerComparison, form: Literal["text", "markdown", "latex"], by: str | None
) -> None:
    """Print the means of all rankers; as text also pairs, intervals and the furthest queries.

    How many queries each ranker was trained on is a line below the text, and a note beside a table.
    Where queries have groups, under the name `by`, the text has the means of each group.
    """
    if form == "text":
        _print_text(result)
        for entry in result.metrics if by else ():
            title = f"{entry.metric} by {by}: means [{result.confidence:.0%}]"
            print_table(title, *result.means_by_group(entry, str(by)))
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
