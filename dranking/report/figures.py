"""The figures of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dranking.report.svg import AXIS, BAD, LINE, OURS, SERIES, THEIRS
from dranking.tuning.curves import lambda_label, measure_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

WIDTH = 4.6
"""Width of figures in inches, at which letters are readable on a phone."""
MAX_BARS = 1000
"""Largest number of bars for sorted queries; more bars are indistinguishable."""
MAX_LABEL = 32
"""Characters of a feature's name in figures."""
NOT_PROMOTED = "accepted, not promoted"
"""Decision of a night that was killed before the promotion, and begun anew on other data."""
NORMAL_975 = 1.96
"""Half-width of a 95 % interval in standard errors."""


def plain_label(name: str) -> str:
    r"""A feature's name that matplotlib shows literally, neither as formula nor as hidden label.

    Examples
    --------
    >>> plain_label("price_$"), plain_label("_private")
    ('price_\\$', ' _private')
    """
    text = "".join(c if c.isprintable() else " " for c in name).replace("$", r"\$")
    if len(text) > MAX_LABEL:
        text = f"{text[: MAX_LABEL - 3]}..."
    return f" {text}" if text.startswith("_") else text


def draw_sizes(
    sizes: Sequence[int],
    scores: Array,
    errors: Array,
    metric: str,
    *,
    role: str,
    champion: float | None,
) -> Figure:
    """Draw a metric against the number of features, with 95 % intervals and the champion."""
    figure, axes = figure_axes()
    spread = NORMAL_975 * errors
    axes.fill_between(sizes, scores - spread, scores + spread, color=OURS, alpha=0.15, linewidth=0)
    axes.plot(sizes, scores, color=OURS, marker="o", markersize=4, label=role)
    if champion is not None:
        axes.axhline(champion, color=THEIRS, linestyle="--", label="champion")
    axes.set_xlabel("number of features")
    axes.set_ylabel(measure_label(metric))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return figure


def draw_weights(names: Sequence[str], weights: Array) -> Figure:
    """Draw standardised weights as bars, the first at the top."""
    figure, axes = figure_axes(height=0.6 + 0.26 * len(names))
    positions = np.arange(len(names))[::-1]
    axes.barh(positions, weights, color=np.where(weights >= 0, OURS, BAD), height=0.7)
    axes.set_yticks(positions, [plain_label(name) for name in names])
    axes.axvline(0, color=AXIS, linewidth=0.8)
    axes.set_xlabel("weight times standard deviation of the feature")
    return figure


def draw_differences(differences: Array, metric: str) -> Figure:
    """Draw the sorted improvements of queries; at most MAX_BARS queries at equal distances."""
    figure, axes = figure_axes(height=2.5)
    n_bars = min(len(differences), MAX_BARS)
    places = np.linspace(0, max(len(differences) - 1, 0), n_bars).round().astype(int)
    ordered = np.sort(differences)[::-1][places]
    width = len(differences) / max(n_bars, 1)
    axes.bar(places + 1, ordered, width=width, color=np.where(ordered >= 0, OURS, BAD))
    axes.axhline(0, color=AXIS, linewidth=0.8)
    axes.set_xlabel("query, from the largest win to the largest loss")
    axes.set_ylabel(f"improvement of {measure_label(metric)}")
    return figure


def draw_cutoffs(cutoffs: Sequence[int], lines: Mapping[str, Sequence[float]]) -> Figure:
    """Draw NDCG@k against k, a line for every model."""
    figure, axes = figure_axes(height=2.5)
    for (name, values), colour in zip(lines.items(), (OURS, THEIRS), strict=False):
        axes.plot(cutoffs, values, marker="o", markersize=4, color=colour, label=name)
    axes.set_xlabel("k")
    axes.set_ylabel("NDCG@k")
    axes.set_xticks(list(cutoffs))
    axes.legend(frameon=False)
    return figure


def draw_regularisation(lambdas: Sequence[float], weights: Array, names: Sequence[str]) -> Figure:
    """Draw (n_lambdas, n_features) standardised weights against lambda, for leading features."""
    figure, axes = figure_axes()
    leading = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[: len(SERIES)]
    for feature, colour in zip(leading, SERIES, strict=False):
        label = plain_label(names[feature])
        axes.plot(lambdas, weights[:, feature], marker=".", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(lambdas), [lambda_label(value) for value in lambdas])
    axes.set_xlabel(r"$\lambda$")
    axes.set_ylabel("standardised weight")
    axes.axhline(0, color=AXIS, linewidth=0.8)
    longest = max((len(names[feature]) for feature in leading), default=0)
    columns = 4 if longest <= MAX_LABEL // 4 else 1 + (longest <= MAX_LABEL // 2)
    figure.legend(frameon=False, loc="outside lower center", ncols=columns)
    return figure


def draw_stability(names: Sequence[str], shares: Sequence[float]) -> Figure:
    """Draw the share of the folds that select a feature."""
    figure, axes = figure_axes(height=0.6 + 0.26 * len(names))
    positions = np.arange(len(names))[::-1]
    axes.barh(positions, shares, color=OURS, height=0.7)
    axes.set_yticks(positions, [plain_label(name) for name in names])
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("share of folds that select the feature")
    return figure


def draw_drift(names: Sequence[str], indices: Sequence[float], limit: float | None) -> Figure:
    """Draw the population stability index of the features with the largest shifts."""
    figure, axes = figure_axes(height=0.6 + 0.26 * len(names))
    positions = np.arange(len(names))[::-1]
    axes.barh(positions, indices, color=OURS, height=0.7)
    axes.set_yticks(positions, [plain_label(name) for name in names])
    if limit is not None:
        axes.axvline(limit, color=BAD, linestyle="--", label=f"limit {limit:g}")
        axes.legend(frameon=False)
    axes.set_xlabel("population stability index")
    return figure


def draw_measures(
    nights: Sequence[tuple[datetime, str, float | None, float | None]],
    measure: str,
    changed: Sequence[datetime],
) -> Figure:
    """Draw the measure of challengers and champions night by night.

    Parameters
    ----------
    nights
        Time, decision (promoted, `NOT_PROMOTED`, rejected or postponed), and the measures of
        challenger and champion; None where not known.
    measure
        Spelling of the measure.
    changed
        Times from which on other queries were judged.
    """
    figure, axes = figure_axes()
    for time in changed:
        axes.axvline(time, color=LINE, linewidth=1.6)
    theirs = [(time, value) for time, _, _, value in nights if value is not None]
    if theirs:
        axes.plot(*zip(*theirs, strict=True), color=THEIRS, linestyle="--", label="champion")
    looks = {
        "promoted": ("promoted challenger", OURS, "o", OURS),
        NOT_PROMOTED: ("challenger accepted, not promoted", OURS, "s", "none"),
        "rejected": ("rejected challenger", BAD, "x", BAD),
        "postponed": ("postponed challenger", OURS, "o", "none"),
    }
    for decision, (label, colour, marker, face) in looks.items():
        ours = [
            (t, value) for t, made, value, _ in nights if made == decision and value is not None
        ]
        if ours:
            look = {"color": colour, "marker": marker, "markerfacecolor": face}
            axes.plot(*zip(*ours, strict=True), linestyle="", markersize=5, label=label, **look)
    axes.set_ylabel(measure)
    return _with_days(figure, axes)


def draw_days(
    lines: Mapping[str, Sequence[tuple[datetime, float]]],
    label: str,
    limit: Sequence[tuple[datetime, float]] = (),
) -> Figure:
    """Draw lines over time by name, several on a logarithmic axis, and a limit that may change."""
    figure, axes = figure_axes(height=2.5)
    colours = (OURS,) if len(lines) == 1 else SERIES[::2]
    for (name, points), colour in zip(lines.items(), colours, strict=False):
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, color=colour, label=name)
    if len(limit) == 1:
        axes.axhline(limit[0][1], color=BAD, linestyle="--", label="limit")
    elif limit:
        axes.plot(*zip(*limit, strict=True), color=BAD, linestyle="--", label="limit")
    if len(lines) > 1:
        axes.set_yscale("log")
    axes.set_ylabel(label)
    return _with_days(figure, axes)


def _with_days(figure: Figure, axes: Any) -> Figure:
    """The figure with dates below, as many as there is room for, and a legend under them."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    form = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(form)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def figure_axes(height: float = 3.0) -> tuple[Figure, Any]:
    """A figure of a page, of a height in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, max(1.4, height)), layout="constrained")
    axes = figure.subplots()
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
