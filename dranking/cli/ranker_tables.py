"""Tables of a comparison of several rankers, as text, Markdown or LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dranking.cli.output import format_value, interval_text, print_line, print_table

if TYPE_CHECKING:
    from dranking.metrics.comparison.many_rankers import MeasureOfRankers, RankerComparison

MOST_PAIRS = 45
"""Largest number of pairs that are printed for a measure; ten rankers have so many."""


def print_rankers(result: RankerComparison, form: Literal["text", "markdown", "latex"]) -> None:
    """Print the means of all rankers; as text also pairs, intervals and the furthest queries."""
    frame = result.to_frame()
    if form == "latex":
        table = frame.reset_index().style.hide(axis="index").format(escape="latex")
        for line in table.to_latex(hrules=True).splitlines():
            print_line(line)
        return
    if form == "markdown":
        rows = [[str(index), *row] for index, row in zip(frame.index, frame.values, strict=True)]
        for cells in (["ranker", *frame.columns], ["---"] * (1 + len(frame.columns)), *rows):
            print_line(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        return
    test = {"sign-flip": "random signs with Holm's correction", "tukey-hsd": "Tukey's test"}
    title = (
        f"{len(result.rankers)} rankers, {result.n_queries:,} queries; letters name the rankers "
        f"that are worse ({test[result.test]}, level {1 - result.confidence:.2g})"
    )
    rows = [[str(index), *row] for index, row in zip(frame.index, frame.values, strict=True)]
    print_table(title, ["ranker", *frame.columns], rows)
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
