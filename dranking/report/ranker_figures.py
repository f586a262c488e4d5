"""The figures of a report about several rankers, or about one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.comparison.ranker_results import RankerMean, RankerPair
from dranking.report.figures import MAX_BARS, figure_axes, plain_label
from dranking.report.svg import AXIS, BAD, LINE, OURS, SERIES, THEIRS
from dranking.tuning.curves import measure_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_means(rankers: Sequence[RankerMean], letters: Mapping[str, str], metric: str) -> Figure:
    """Draw the mean of each ranker as a point with its interval, the best at the top."""
    figure, axes = _rows([f"{letters[one.ranker]} {one.ranker}" for one in rankers])
    for place, one in zip(_places(rankers), rankers, strict=True):
        _point(axes, place, (one.mean, one.low, one.high), OURS)
    axes.set_xlabel(f"mean {measure_label(metric)}")
    return figure


def draw_pairs(pairs: Sequence[RankerPair], labels: Sequence[str], level: float) -> Figure:
    """Draw the mean difference of each pair with its interval; pairs that do not differ in grey."""
    figure, axes = _rows(labels)
    axes.axvline(0, color=AXIS, linewidth=0.8)
    for place, pair in zip(_places(pairs), pairs, strict=True):
        colour = OURS if pair.p_adjusted < level else THEIRS
        _point(axes, place, (pair.difference, pair.low, pair.high), colour)
    axes.set_xlabel("mean difference, with its interval")
    return figure


def draw_wins(pairs: Sequence[RankerPair], labels: Sequence[str]) -> Figure:
    """Draw the shares of queries that each pair wins, ties and loses, as bars of one length."""
    figure, axes = _rows(labels)
    axes.grid(visible=False)
    counts = np.array([(pair.wins, pair.ties, pair.losses) for pair in pairs], dtype=np.float64)
    shares = counts / counts.sum(axis=1, keepdims=True)
    places, left = _places(pairs), np.zeros(len(pairs))
    looks = [("first better", OURS), ("equal", LINE), ("second better", BAD)]
    for column, (label, colour) in enumerate(looks):
        axes.barh(places, shares[:, column], left=left, color=colour, height=0.7, label=label)
        left += shares[:, column]
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("share of the queries")
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure


def draw_furthest(
    furthest: Sequence[tuple[Any, Sequence[float]]],
    rankers: Sequence[str],
    letters: Mapping[str, str],
    metric: str,
) -> Figure:
    """Draw the values of the first rankers on the queries whose values lie furthest apart."""
    figure, axes = _rows([str(query) for query, _ in furthest])
    places = _places(furthest)
    values = np.array([found for _, found in furthest])
    axes.hlines(places, values.min(axis=1), values.max(axis=1), color=THEIRS, linewidth=1.2)
    # Few rankers have colours that lie far apart.
    colours = np.linspace(0, len(SERIES) - 1, len(rankers)).round().astype(int).tolist()
    for column, (name, colour) in enumerate(zip(rankers, colours, strict=True)):
        label = plain_label(f"{letters[name]} {name}")
        look = {"markersize": 5, "color": SERIES[colour], "label": label}
        axes.plot(values[:, column], places, "o", **look)
    axes.set_xlabel(f"{measure_label(metric)} of a query")
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def draw_values(values: NDArray[np.float64], metric: str) -> Figure:
    """Draw the sorted values of the queries; at most MAX_BARS queries at equal distances."""
    figure, axes = figure_axes(height=2.5)
    n_bars = min(len(values), MAX_BARS)
    places = np.linspace(0, len(values) - 1, n_bars).round().astype(int)
    axes.bar(places + 1, np.sort(values)[::-1][places], width=len(values) / n_bars, color=OURS)
    axes.set_xlabel("query, from the largest value to the least")
    axes.set_ylabel(measure_label(metric))
    return figure


def _places(rows: Sequence[Any]) -> NDArray[np.int64]:
    """Heights of rows, of which the first is the highest."""
    return np.arange(len(rows))[::-1]


def _rows(labels: Sequence[str]) -> tuple[Figure, Any]:
    """A figure with a named row for each label."""
    figure, axes = figure_axes(height=0.9 + 0.26 * len(labels))
    axes.set_yticks(_places(labels), [plain_label(label) for label in labels])
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.grid(visible=False, axis="y")
    return figure, axes


def _point(axes: Any, place: int, found: tuple[float, float, float], colour: str) -> None:
    """A mean at some height, with the ends of its interval, which may be NaN."""
    mean, low, high = found
    axes.plot([low, high], [place, place], color=colour, linewidth=1.6, solid_capstyle="round")
    axes.plot([mean], [place], "o", markersize=5, color=colour)
