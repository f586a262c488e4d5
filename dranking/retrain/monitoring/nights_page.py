"""The page over all nights of a registry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise

import dranking
from dranking.report.content import number
from dranking.report.figures import NOT_PROMOTED, draw_days, draw_measures
from dranking.report.page import Drawing, Page, Section, Table, render
from dranking.retrain.registry.history import Night, untested_difference
from dranking.retrain.registry.ledger import Ledger, spent_in_year
from dranking.retrain.registry.registry import Registry
from dranking.tuning.curves import measure_label

PAGE_NAME = "nights.html"
"""File of a registry that every night with a report writes anew."""

N_ROWS = 14
"""Number of the newest nights that the table shows without a click."""


def nights_page(registry: Registry) -> str:
    """The page over all nights of a registry, as HTML."""
    nights, ledger = registry.nights, registry.ledger
    facts = [("champion", registry.aliases.champion or "none yet")]
    if nights:
        newest = nights[-1]
        ours, theirs = newest.mean("challenger"), newest.mean("champion")
        is_champion = newest.version == registry.aliases.champion
        label = f"{measure_label(newest.metric)}, champion"
        facts.append((label, number(ours if is_champion else theirs)))
        facts.append(("judged queries", f"{newest.n_judged:,}"))
    if ledger.entries:
        facts.append(("budget of 365 days spent", _share_spent(ledger)))
    page = Page(
        title="All nights",
        subtitle=f"{len(nights):,} nights of {registry}{_dates(nights)}.",
        facts=facts,
        sections=tuple(_sections(nights, ledger, _champions(registry, nights, ledger))),
        origin=[
            ("registry", str(registry)),
            ("page written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
            ("page written by", f"dranking {dranking.__version__}"),
        ],
    )
    return render(page)


def _champions(registry: Registry, nights: Sequence[Night], ledger: Ledger) -> set[str | None]:
    """All versions that were the champion, as far as aliases, ledger and later nights know.

    A night that was killed before the promotion, and begun anew on other data, has left a version
    that was accepted and never was the champion.
    """
    aliases, tests = registry.aliases, ledger.entries
    rivals = {aliases.champion, aliases.previous, *(night.against for night in nights)}
    return rivals | {e.against for e in tests} | {e.version for e in tests if e.accepted}


def _result(night: Night, champions: Collection[str | None]) -> str:
    """The decision of a night, and whether the promotion has followed."""
    if night.decision != "accepted":
        return night.decision
    return "promoted" if night.version in champions else NOT_PROMOTED


def _dates(nights: Sequence[Night]) -> str:
    """First and last date of the nights, in words."""
    if not nights:
        return ""
    return f", from {nights[0].time:%Y-%m-%d} to {nights[-1].time:%Y-%m-%d}"


def _share_spent(ledger: Ledger) -> str:
    """Share of the budget that the last 365 days have spent, in percent; a daily test takes .27."""
    share = spent_in_year(ledger.spent, datetime.now(UTC).date()) / ledger.entries[-1].budget
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"


def _sections(
    nights: Sequence[Night], ledger: Ledger, champions: Collection[str | None]
) -> Iterator[Section]:
    """The sections of the page; those without content are left out."""
    if not nights:
        yield Section("No night yet", ["No version of this registry was made by a night."])
        return
    results = [_result(night, champions) for night in nights]
    yield _measures(nights, results)
    yield _decisions(nights, results, ledger)
    yield _budget(ledger)
    shifts = [(night.time, night.drift) for night in nights if night.drift is not None]
    if shifts:
        limits = [(n.time, n.drift_limit) for n in nights if n.drift_limit is not None]
        drawing = draw_days({"largest shift": shifts}, "population stability index", limit=limits)
        caption = "Shift of the feature that has shifted most, and the limit of the gate."
        yield Section("Drift", (), [Drawing(drawing, caption)])
    yield _sizes(nights)


def _measures(nights: Sequence[Night], results: Sequence[str]) -> Section:
    """The gate's measure of challengers and champions over time."""
    metric = nights[-1].metric
    shown = [night for night in nights if night.metric == metric]
    points = [
        (night.time, result, night.mean("challenger"), night.mean("champion"))
        for night, result in zip(nights, results, strict=True)
        if night.metric == metric
    ]
    on_clicks = any(night.is_on_clicks for night in shown)
    what = "clicks" if on_clicks else "judged queries"
    said = [f"A night's challenger and champion are measured on the same {what}."]
    if on_clicks:
        said.append("Clicks differ from night to night: measures of two nights cannot be compared.")
    changed = [
        b.time
        for a, b in pairwise(shown)
        if a.judged != b.judged and not (a.is_on_clicks and b.is_on_clicks)
    ]
    if changed:
        said.append(
            "Vertical lines mark nights with other judged queries than the night before, the last "
            f"one {changed[-1]:%Y-%m-%d}: measures before and after it cannot be compared."
        )
    if left := len(nights) - len(shown):
        said.append(f"Nights that were judged by another measure are not shown: {left:,}.")
    drawing = draw_measures(points, measure_label(metric), changed)
    caption = f"Mean {measure_label(metric)} of challengers and champions, night by night."
    return Section("Challengers and champions", said, [Drawing(drawing, caption)])


def _decisions(nights: Sequence[Night], results: Sequence[str], ledger: Ledger) -> Section:
    """The decisions, and a table of the newest nights."""
    tests = {entry.version: entry for entry in ledger.entries}
    rows = []
    for night, result in zip(reversed(nights), reversed(results), strict=True):
        test = tests.get(night.version)
        ours, theirs = night.mean("challenger"), night.mean("champion")
        change = untested_difference(night.metric, night.metrics, night.is_on_clicks)
        rows.append(
            (
                night.time.date(),
                night.version,
                result,
                ours,
                theirs,
                change if test is None else test.difference,
                None if test is None else test.level,
            )
        )
    means = ("challenger", "champion", "difference", "level")
    columns = ["night", "version", "decision", *means]
    usual = ("promoted", "rejected", "postponed")
    named = [*usual, NOT_PROMOTED] if NOT_PROMOTED in results else usual
    said = ", ".join(f"{results.count(name):,} {name}" for name in named)
    older = [Table(columns, rows[N_ROWS:])] if rows[N_ROWS:] else []
    return Section(
        "Decisions",
        [f"{said}. A night is dated by the UTC time at which its version was added."],
        tables=[Table(columns, rows[:N_ROWS])],
        folded=Section("Older nights", tables=older) if older else None,
    )


def _budget(ledger: Ledger) -> Section:
    """The budget of false promotions that the 365 days before every test have spent."""
    title = "Budget of false promotions"
    if not ledger.entries:
        return Section(title, ["No test was taken yet, so that nothing is spent."])
    spent, budget = ledger.spent, ledger.entries[-1].budget
    days = sorted({day for day, _ in spent})
    sums = [(_noon(day), spent_in_year([t for t in spent if t[0] <= day], day)) for day in days]
    drawing = draw_days({"spent": sums}, "levels of 365 days", limit=[(_noon(days[-1]), budget)])
    said = (
        f"Tests: {len(spent):,}. Levels of the last 365 days sum to {_share_spent(ledger)} of the "
        f"budget of {budget:g} false promotions."
    )
    caption = "Sum of the levels of the 365 days before each test, and the budget of the last test."
    return Section(title, [said], [Drawing(drawing, caption)])


def _noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def _sizes(nights: Sequence[Night]) -> Section:
    """Sizes of the data and of the challengers over time."""
    sizes = {
        "judged queries": [(n.time, float(n.n_judged)) for n in nights],
        "training queries": [(n.time, float(n.n_queries)) for n in nights if n.n_queries],
        "training documents": [(n.time, float(n.n_documents)) for n in nights],
        "features": [(n.time, float(n.n_features)) for n in nights],
    }
    newest = nights[-1]
    rows = [
        (name, int(points[0][1]), int(points[-1][1])) for name, points in sizes.items() if points
    ]
    rows.append(("training parts", nights[0].n_parts, newest.n_parts))
    drawing = draw_days({name: points for name, points in sizes.items() if points}, "number")
    caption = "Sizes of the data and of the challengers, night by night; the axis is logarithmic."
    table = Table(["", f"{nights[0].time:%Y-%m-%d}", f"{newest.time:%Y-%m-%d}"], rows)
    return Section("Sizes", (), [Drawing(drawing, caption)], [table])
