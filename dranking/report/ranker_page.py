"""Pages about several rankers, or about one ranker of which only its values are known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import dranking
from dranking.metrics.comparison.ranker_results import (
    MeasureOfRankers,
    RankerComparison,
    RankerMean,
    RankerPair,
)
from dranking.metrics.comparison.significance import FEWEST_QUERIES, rough_text
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.query_groups import and_all
from dranking.models.evaluation import Evaluation
from dranking.report.content import number
from dranking.report.page import Drawing, Page, Section, Table
from dranking.report.ranker_figures import (
    draw_furthest,
    draw_means,
    draw_pairs,
    draw_values,
    draw_wins,
)
from dranking.report.svg import SERIES
from dranking.tuning.curves import measure_label

MOST_DRAWN = 15
"""Largest number of pairs of a figure, those of the least p-values, and of queries of a table."""

ROUGH = (
    f"Intervals and p-values of fewer than {FEWEST_QUERIES} queries, or of queries whose weights "
    "count for fewer equal ones, are rough."
)
"""What a page says where few queries count."""

TESTS = {
    "sign-flip": "random signs of the differences, with Holm's correction over pairs and measures",
    "tukey-hsd": "Tukey's randomised test, which holds for rankers of equal noise",
}


def page_of_rankers(
    result: RankerComparison, title: str, facts: Mapping[str, str] | None = None
) -> Page:
    """The page of a comparison, whose first measure is the main one.

    Parameters
    ----------
    result
        The comparison.
    title
        Title of the page.
    facts
        Facts about files and run, for the footer: label to text.
    """
    main = result.metrics[0]
    best = _sorted(main)[0]
    trained = [f"{name}: {found.text}." for name, found in result.trained_on.items() if found]
    return Page(
        title=title,
        subtitle=" ".join([f"{len(result.rankers)} rankers{_under(result.convention)}.", *trained]),
        facts=[
            (
                f"best mean {measure_label(main.metric)}",
                f"{number(best.mean)} ({result.letters[best.ranker]})",
            ),
            ("rankers", f"{len(result.rankers):,}"),
            ("queries that count for all", f"{main.n_queries:,} of {result.n_queries:,}"),
        ],
        sections=tuple(_sections(result)),
        origin=[
            ("test of pairs", TESTS[result.test]),
            ("confidence", f"{result.confidence:g}"),
            ("random samples, seed", f"{result.n_resamples:,}, {result.seed}"),
            *_origin(facts),
        ],
    )


def page_of_values(result: Evaluation, title: str, facts: Mapping[str, str] | None = None) -> Page:
    """The page of one ranker, whose first measure is the main one; arguments as above."""
    n, main = result.n_queries, next(iter(result.metrics))
    rows = [
        (measure_label(name), mean, _interval(*result.intervals[name]), n - result.excluded[name])
        for name, mean in result.metrics.items()
    ]
    said = [] if result.trained_on is None else [f"{_sentence(result.trained_on.text)}"]
    if any(rough_text(result.n_effective(name)) for name in result.metrics):
        said.append(ROUGH)
    return Page(
        title=title,
        subtitle=f"{n:,} {'query' if n == 1 else 'queries'}{_under(result.per_query.convention)}.",
        facts=[
            (f"mean {measure_label(main)}", number(result.metrics[main])),
            ("queries that count", f"{n - result.excluded[main]:,} of {n:,}"),
        ],
        sections=(
            Section(
                "Means",
                said,
                tables=[Table(["measure", "mean", "95%", "queries that count"], rows)],
            ),
            *_segments_of_values(result),
            *_query_by_query(result, main),
        ),
        origin=_origin(facts),
    )


def _sections(result: RankerComparison) -> Iterator[Section]:
    """The sections of a comparison: figures of the main measure, and tables of all."""
    main = result.metrics[0]
    yield _means(result)
    yield _pairs(main, result)
    if result.by:
        yield Section("Segment by segment", [], tables=[_table_of_segments(main, result)])
    if main.furthest:
        yield _furthest(main, result)
    for entry in result.metrics[1:]:
        yield Section(
            measure_label(entry.metric),
            [_counting(entry)],
            tables=[
                _table_of_means(entry, result),
                *([_table_of_segments(entry, result)] if result.by else []),
            ],
            folded=Section("All pairs", tables=[_table_of_pairs(entry, entry.pairs, result)]),
        )


def _means(result: RankerComparison) -> Section:
    """Means of all measures; those of the main measure with their intervals as a figure."""
    main, letters = result.metrics[0], result.letters
    by_name = [{one.ranker: one for one in entry.rankers} for entry in result.metrics]
    rows = [
        (letters[one.ranker], one.ranker, *(_lettered(of[one.ranker], letters) for of in by_name))
        for one in _sorted(main)
    ]
    headings = ["", "ranker", *(measure_label(entry.metric) for entry in result.metrics)]
    return Section(
        "Means",
        [
            f"Letters behind a mean name the rankers that are worse, at a level of "
            f"{1 - result.confidence:.2g} for all pairs and measures together. {_counting(main)}"
        ],
        [
            Drawing(
                draw_means(_sorted(main), letters, main.metric),
                f"Mean {measure_label(main.metric)} of each ranker, with its "
                f"{result.confidence:.0%} interval.",
            )
        ],
        [Table(headings, rows)],
    )


def _pairs(entry: MeasureOfRankers, result: RankerComparison) -> Section:
    """Differences, wins and losses of the pairs of a measure: the clearest ones as figures."""
    label = measure_label(entry.metric)
    clearest = sorted(entry.pairs, key=lambda pair: (pair.p_adjusted, -abs(pair.difference)))
    drawn, letters = clearest[:MOST_DRAWN], result.letters
    labels = [f"{letters[pair.a]} - {letters[pair.b]}" for pair in drawn]
    which = (
        f"the {len(drawn)} clearest of {len(clearest)} pairs"
        if clearest[len(drawn) :]
        else ("each pair")
    )
    lower = "" if higher_is_better(entry.metric) else " Lower values are better."
    return Section(
        "Pair by pair",
        [
            f"Differences are those of mean {label}, the first of a pair minus the second.{lower} "
            "P-values are adjusted for all pairs and measures; intervals are those of one "
            "difference."
        ],
        [
            Drawing(
                draw_pairs(drawn, labels, 1 - result.confidence),
                f"Mean difference of {label} of {which}, with its {result.confidence:.0%} "
                "interval; grey where the test finds no difference.",
            ),
            Drawing(
                draw_wins(drawn, labels),
                f"Share of the queries that {which} wins, ties and loses in {label}.",
            ),
        ],
        [_table_of_pairs(entry, drawn, result)],
        folded=None
        if len(drawn) == len(clearest)
        else Section("All pairs", tables=[_table_of_pairs(entry, clearest, result)]),
    )


def _furthest(entry: MeasureOfRankers, result: RankerComparison) -> Section:
    """The queries on which the rankers differ most in a measure."""
    label, letters = measure_label(entry.metric), result.letters
    rows = [(str(query), *values) for query, values in entry.furthest]
    drawn = result.rankers[: len(SERIES)]
    which = "" if len(drawn) == len(result.rankers) else f" of the first {len(drawn)} rankers"
    return Section(
        "Queries on which the rankers differ most",
        [],
        [
            Drawing(
                draw_furthest(entry.furthest, drawn, letters, entry.metric),
                f"{label}{which} on the queries whose largest and least values lie furthest apart.",
            )
        ],
        [Table(["query", *(letters[name] for name in result.rankers)], rows)],
    )


def _table_of_means(entry: MeasureOfRankers, result: RankerComparison) -> Table:
    rows = [
        (one.ranker, _lettered(one, result.letters), _interval(one.low, one.high))
        for one in _sorted(entry)
    ]
    return Table(["ranker", "mean", f"{result.confidence:.0%}"], rows)


def _table_of_segments(entry: MeasureOfRankers, result: RankerComparison) -> Table:
    """The mean of each ranker over the queries of each segment, and over all."""
    return Table(*result.means_by_group(entry, f"segment, {measure_label(entry.metric)}"))


def _segments_of_values(result: Evaluation) -> Iterator[Section]:
    """The means of one ranker over the queries of each segment, and over all."""
    if result.groups is None:
        return
    main = next(iter(result.metrics))
    rows = [
        (
            label,
            *(_with_interval(part.metrics[m], *part.intervals[m]) for m in part.metrics),
            f"{part.n_queries:,}{rough_text(part.n_effective(main))}",
        )
        for label, part in and_all(result.by, result)
    ]
    headings = [result.groups.name, *map(measure_label, result.metrics), "queries"]
    yield Section("Segment by segment", [], tables=[Table(headings, rows)])


def _table_of_pairs(
    entry: MeasureOfRankers, pairs: Sequence[RankerPair], result: RankerComparison
) -> Table:
    letters = result.letters
    rows = [
        (
            f"{letters[pair.a]} - {letters[pair.b]}",
            f"{pair.difference:+.4f}",
            _interval(pair.low, pair.high, "+"),
            number(pair.p_value),
            number(pair.p_adjusted),
            f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}",
        )
        for pair in pairs
    ]
    interval = f"{result.confidence:.0%}"
    return Table(["pair", "difference", interval, "p", "adjusted", "win / tie / loss"], rows)


def _query_by_query(result: Evaluation, metric: str) -> Iterator[Section]:
    """The sorted values of a measure, and its worst queries; nothing if no query counts."""
    values = result.per_query.values[metric]
    counted = values[np.isfinite(values)]
    if not len(counted):
        return
    label, sign = measure_label(metric), 1.0 if higher_is_better(metric) else -1.0
    worst = np.argsort(sign * values, kind="stable")[: min(MOST_DRAWN, len(counted))].tolist()
    ids, measures = result.per_query.query_ids, result.per_query.values
    rows = [(str(ids[row]), *(float(found[row]) for found in measures.values())) for row in worst]
    yield Section(
        "Query by query",
        [],
        [Drawing(draw_values(counted, metric), f"{label} of each query, sorted.")],
        [Table(["worst queries", *map(measure_label, measures)], rows)],
    )


def _sorted(entry: MeasureOfRankers) -> list[RankerMean]:
    """The rankers of a measure, the best first."""
    sign = -1.0 if higher_is_better(entry.metric) else 1.0
    return sorted(entry.rankers, key=lambda one: sign * one.mean)


def _lettered(one: RankerMean, letters: Mapping[str, str]) -> str:
    """A mean with the letters of the rankers that are worse."""
    worse = "".join(letters[name] for name in one.better_than)
    return f"{one.mean:.4f} {worse}".rstrip()


def _counting(entry: MeasureOfRankers) -> str:
    n, left = entry.n_queries, entry.n_excluded
    said = f"{n:,} {'query counts' if n == 1 else 'queries count'} for all rankers"
    others = f"; {left:,} {'does' if left == 1 else 'do'} not" if left else ""
    return " ".join([f"{said}{others}.", *([ROUGH] if rough_text(entry.n_effective) else [])])


def _interval(low: float, high: float, sign: str = "") -> str:
    return "\N{EN DASH}" if math.isnan(low) else f"[{low:{sign}.4f}, {high:{sign}.4f}]"


def _with_interval(mean: float, low: float, high: float) -> str:
    return number(mean) if math.isnan(low) else f"{number(mean)} {_interval(low, high)}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _under(convention: str | None) -> str:
    return "" if convention is None else f", judged under the {convention} convention"


def _origin(facts: Mapping[str, str] | None) -> list[tuple[str, str]]:
    return [*(facts or {}).items(), ("page written by", f"dranking {dranking.__version__}")]
