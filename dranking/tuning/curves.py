"""Figures of a search: validation score against the number of features, a line per lambda."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dranking.data.atomic import AnyPath, atomic_path, check_output_file
from dranking.errors import UsageError
from dranking.tuning.choice import GridPoint
from dranking.tuning.search import TuningResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points: TypeAlias = list[tuple[float, float]]

LEGEND_INSIDE = 6
"""More lines than this have their legend beside the axes."""

LABELS = {
    "map": "MAP",
    "mean_ndcg": "MeanNDCG",
    "mrr": "MRR",
    "p": "P",
    "ndcg": "NDCG",
    "auc": "AUC",
    "pairwise_error": "pairwise error",
}


def plot_curves(results: TuningResult | Sequence[TuningResult], *, title: str = "") -> Figure:
    """Draw the validation score against the number of features, one line per lambda.

    Where there is only one number of features (`rankrls`), lambda is drawn along the axis instead.
    The Figure belongs to no window and no global state; save it with `save_figure`.

    Parameters
    ----------
    results
        What `tune` returned. Several results over the same grid, such as those of cross-validation
        folds with fixed borders, are averaged point by point. The point chosen is marked where
        there is one result.
    title
        Above the axes; none if empty.

    Raises
    ------
    UsageError
        If the results are of different grids or measures, or there is none.
    """
    from matplotlib.figure import Figure

    several = [results] if isinstance(results, TuningResult) else list(results)
    lines, measure = _mean_lines(several)
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    if all(len(points) == 1 for points in lines.values()):
        _draw_against_lambda(axes, lines)
    else:
        _draw_against_size(axes, lines)
    if len(several) == 1:
        _mark_best(axes, several[0], against_size=len(lines) < len(several[0].grid))
    over = "" if len(several) == 1 else f", mean of {len(several)} folds"
    axes.set_ylabel(f"validation {measure_label(measure)}{over}")
    axes.set_title(title, loc="left")
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def save_figure(figure: Figure, path: AnyPath, *, overwrite: bool = False) -> None:
    """Write a figure, whole or not at all, in the format that the ending of its name says.

    Raises
    ------
    UsageError
        If the ending names no format, or the file exists and `overwrite` is false.
    """
    form = check_figure(path, overwrite)
    with atomic_path(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=form)


def check_figure(path: AnyPath, overwrite: bool = False) -> str:
    """The format that the ending of a figure's name says; refuses, before any work, as it would."""
    from matplotlib.backend_bases import FigureCanvasBase

    form = Path(path).suffix[1:].lower()
    known = FigureCanvasBase.get_supported_filetypes()
    if form not in known:
        raise UsageError(
            f"{path}: the ending of a figure's name says its format; choose from "
            f"{', '.join(sorted(known))}."
        )
    check_output_file(path, overwrite)
    return form


def measure_label(measure: str) -> str:
    """How a figure spells a measure.

    Examples
    --------
    >>> measure_label("ndcg@10")
    'NDCG@10'
    """
    stem, at, cutoff = measure.partition("@")
    return LABELS.get(stem, stem) + at + cutoff


def lambda_label(value: float) -> str:
    """Lambda as a figure spells it: powers of two as such.

    Examples
    --------
    >>> lambda_label(0.25), lambda_label(0.3)
    ('$2^{-2}$', '0.3')
    """
    mantissa, exponent = math.frexp(value)
    return f"$2^{{{exponent - 1}}}$" if mantissa == 0.5 else f"{value:g}"


def _mean_lines(results: Sequence[TuningResult]) -> tuple[dict[float, Points], str]:
    """(n_features, mean score) of each lambda, and the measure."""
    if not results:
        raise UsageError("there is no tuning result to draw.")
    kinds = {(_keys(result.grid), result.measure, result.convention) for result in results}
    if len(kinds) > 1:
        raise UsageError(
            "the tuning results differ in grid, measure or convention; draw them one by one."
        )
    lines: dict[float, Points] = defaultdict(list)
    for points in zip(*(result.grid for result in results), strict=True):
        score = sum(point["score"] for point in points) / len(points)
        lines[points[0]["regularization"]].append((points[0]["n_features"], score))
    return lines, results[0].measure


def _keys(grid: Sequence[GridPoint]) -> tuple[tuple[float, int], ...]:
    return tuple((point["regularization"], point["n_features"]) for point in grid)


def _draw_against_size(axes: Any, lines: dict[float, Points]) -> None:
    from matplotlib import colormaps

    # The ends of viridis are hard to tell from black and from white paper.
    shades = [0.5] if len(lines) == 1 else [i / (len(lines) - 1) for i in range(len(lines))]
    for (value, points), shade in zip(lines.items(), shades, strict=True):
        sizes, scores = zip(*points, strict=True)
        colour = colormaps["viridis"](0.05 + 0.85 * shade)
        marker = "." if len(points) <= 10 else None
        axes.plot(
            sizes, scores, color=colour, marker=marker, linewidth=1.6, label=lambda_label(value)
        )
    largest = max(points[-1][0] for points in lines.values())
    axes.set_xlim(0, 1.02 * largest)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("number of features")
    place: dict[str, Any] = {"loc": "best"}
    if len(lines) > LEGEND_INSIDE:
        place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    axes.legend(title=r"$\lambda$", frameon=False, **place)


def _draw_against_lambda(axes: Any, lines: dict[float, Points]) -> None:
    scores = [points[0][1] for points in lines.values()]
    axes.plot(list(lines), scores, color="C0", marker=".", linewidth=1.6)
    axes.set_xscale("log", base=2)
    axes.set_xlabel(r"$\lambda$")


def _mark_best(axes: Any, result: TuningResult, against_size: bool) -> None:
    """A ring around the point chosen, and what it is."""
    best = result.best
    value, size, score = best["regularization"], best["n_features"], best["score"]
    axes.plot(
        [size if against_size else value],
        [score],
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor="crimson",
        markeredgewidth=1.8,
        linestyle="none",
        clip_on=False,
        zorder=5,
    )
    features = "1 feature" if size == 1 else f"{size} features"
    text = rf"chosen: $\lambda$ = {lambda_label(value)}, {features}, {score:.4f}"
    axes.set_title(text, loc="right", color="crimson", fontsize="medium")
