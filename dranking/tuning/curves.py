"""Figures of a search: validation score against the number of features or against lambda."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dranking.errors import UsageError
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.atomic_files import atomic_path
from dranking.files.writing.output_checks import check_output_file
from dranking.metrics.measures.by_name import higher_is_better
from dranking.tuning.choice import GridPoint
from dranking.tuning.result import TuningResult
from dranking.tuning.settings import Setting, other_parameters_text, setting_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Lines: TypeAlias = dict[str, list[tuple[float, float]]]

LEGEND_INSIDE = 6
"""Largest number of lines of a figure with the legend inside the axes."""

LABELS = {
    "map": "MAP",
    "mean_ndcg": "MeanNDCG",
    "mrr": "MRR",
    "p": "P",
    "recall": "Recall",
    "dcg": "DCG",
    "ndcg": "NDCG",
    "auc": "AUC",
    "infap": "infAP",
    "pairwise_error": "pairwise error",
}


def plot_curves(results: TuningResult | Sequence[TuningResult], *, title: str = "") -> Figure:
    """Draw the validation score against the number of features, one line per lambda.

    Where scalings or forms were tried, each of them has one line, with its best lambda. The band
    around the chosen line is one standard error of the difference to the chosen model, paired by
    query.

    With a single number of features, the horizontal axis is lambda instead, and the figure has one
    line for each combination of the other tried values (for `lcra`: mu and eta0). A line has a gap
    where the training diverged. The Figure belongs to no window and no global state; `save_figure`
    writes it.

    Parameters
    ----------
    results
        Results of `tune`. Several results over one grid, such as the results of cross-validation
        folds with fixed borders, are averaged point by point. The chosen point of a single result
        is marked.
    title
        Title above the axes.

    Raises
    ------
    UsageError
        If the results have different grids or measures, or `results` is empty.
    """
    from matplotlib.figure import Figure

    several = [results] if isinstance(results, TuningResult) else list(results)
    points, measure = _mean_points(several)
    sign = 1.0 if higher_is_better(measure) else -1.0
    against_size = len({point["n_features"] for point in points}) > 1
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    if against_size:
        chosen = several[0].chosen if len(several) == 1 else None
        _draw_against_size(axes, _shown(points, sign, chosen))
    else:
        _draw_against_lambda(axes, points)
    if len(several) == 1:
        if against_size:
            _draw_band(axes, several[0])
        _mark_chosen(axes, several[0], against_size)
    over = "" if len(several) == 1 else f", mean of {len(several)} folds"
    axes.set_ylabel(f"validation {measure_label(measure)}{over}")
    axes.set_title(title, loc="left")
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def save_figure(figure: Figure, path: AnyPlace, *, overwrite: bool = False) -> None:
    """Write a figure, whole or not at all, in the format of the file name's ending.

    Raises
    ------
    UsageError
        If the ending names no format, or the file exists and `overwrite` is false.
    """
    form = check_figure(path, overwrite)
    with atomic_path(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=form)


def check_figure(path: AnyPlace, overwrite: bool = False) -> str:
    """The format of a figure's file name; raises the errors of `save_figure`, before any work."""
    from matplotlib.backend_bases import FigureCanvasBase

    form = as_place(path).suffix[1:].lower()
    known = FigureCanvasBase.get_supported_filetypes()
    if form not in known:
        raise UsageError(
            f"{path}: the ending of a figure's name says its format; choose from "
            f"{', '.join(sorted(known))}."
        )
    check_output_file(path, overwrite)
    return form


def measure_label(measure: str) -> str:
    """Spelling of a measure in figures.

    Examples
    --------
    >>> measure_label("ndcg@10")
    'NDCG@10'
    """
    stem, at, cutoff = measure.partition("@")
    return LABELS.get(stem, stem) + at + cutoff


def lambda_label(value: float) -> str:
    """Spelling of lambda in figures: a power of two as a power.

    Examples
    --------
    >>> lambda_label(0.25), lambda_label(0.3)
    ('$2^{-2}$', '0.3')
    """
    mantissa, exponent = math.frexp(value)
    return f"$2^{{{exponent - 1}}}$" if mantissa == 0.5 else f"{value:g}"


def _mean_points(results: Sequence[TuningResult]) -> tuple[list[GridPoint], str]:
    """The grid with the mean scores of the results, and the measure."""
    if not results:
        raise UsageError("there is no tuning result to draw.")
    kinds = {(_keys(result.grid), result.metric, result.convention) for result in results}
    if len(kinds) > 1:
        raise UsageError(
            "the tuning results differ in grid, measure or convention; draw each result alone."
        )
    points = []
    for of_each in zip(*(result.grid for result in results), strict=True):
        point = of_each[0].copy()
        point["score"] = sum(p["score"] for p in of_each) / len(of_each)
        points.append(point)
    return points, results[0].metric


def _keys(grid: Sequence[GridPoint]) -> tuple[tuple[str, int], ...]:
    return tuple((setting_text(point), point["n_features"]) for point in grid)


def _draw_against_size(axes: Any, points: Sequence[GridPoint]) -> None:
    lines: Lines = defaultdict(list)
    for point in points:
        kind = [str(name) for name in _preparation(point) if name is not None]
        label = ", ".join([*kind, lambda_label(point["regularization"])])
        lines[label].append((point["n_features"], point["score"]))
    _draw_lines(axes, lines, title=r"$\lambda$")
    axes.set_xlim(0, 1.02 * max(point["n_features"] for point in points))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("number of features")


def _preparation(point: Setting) -> tuple[str | None, str | None, str | None]:
    """Scaling and forms of the features, and the measure by which picks were rescored."""
    rescored = f"rescored by {point['rescore']}" if "rescore" in point else None
    return point.get("normalize"), point.get("forms"), rescored


def _shown(points: Sequence[GridPoint], sign: float, chosen: Setting | None) -> Sequence[GridPoint]:
    """All points; with several preparations, those of the best or chosen lambda of each one."""
    by_preparation: dict[tuple[Any, ...], list[GridPoint]] = defaultdict(list)
    for point in points:
        by_preparation[_preparation(point)].append(point)
    if len(by_preparation) == 1:
        return points
    shown = []
    for own in by_preparation.values():
        best = max(own, key=lambda p: -math.inf if math.isnan(p["score"]) else sign * p["score"])
        line: Setting = best
        if chosen is not None and _preparation(chosen) == _preparation(best):
            line = chosen
        shown += [p for p in own if p["regularization"] == line["regularization"]]
    return shown


def _draw_band(axes: Any, result: TuningResult) -> None:
    """The paired standard errors of the chosen line."""
    path = result.chosen_path
    errors = [0.0 if math.isnan(error) else error for error in result.paired_errors]
    axes.fill_between(
        [point["n_features"] for point in path],
        [point["score"] - error for point, error in zip(path, errors, strict=True)],
        [point["score"] + error for point, error in zip(path, errors, strict=True)],
        color="crimson",
        alpha=0.12,
        linewidth=0,
    )


def _draw_against_lambda(axes: Any, points: Sequence[GridPoint]) -> None:
    lines: Lines = defaultdict(list)
    for point in points:
        lines[other_parameters_text(point)].append((point["regularization"], point["score"]))
    _draw_lines(axes, lines)
    axes.set_xscale("log", base=2)
    axes.set_xlabel(r"$\lambda$")


def _draw_lines(axes: Any, lines: Lines, title: str = "") -> None:
    """A line for each label, from dark to light, and a legend if there are labels."""
    from matplotlib import colormaps

    # The ends of viridis are hard to distinguish from black and from white paper.
    shades = [0.5] if len(lines) == 1 else [i / (len(lines) - 1) for i in range(len(lines))]
    for (label, points), shade in zip(lines.items(), shades, strict=True):
        colour = colormaps["viridis"](0.05 + 0.85 * shade)
        marker = "." if len(points) <= 10 else None
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=colour, marker=marker, linewidth=1.6, label=label)
    place: dict[str, Any] = {"loc": "best"}
    if len(lines) > LEGEND_INSIDE:
        place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    if any(lines):
        axes.legend(title=title, frameon=False, **place)


def _mark_chosen(axes: Any, result: TuningResult, against_size: bool) -> None:
    """Draw a ring around the chosen point, and write its setting and score as a title."""
    point = result.chosen
    value, size, score = point["regularization"], point["n_features"], point["score"]
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
    details = ", ".join(filter(None, (other_parameters_text(point), features, f"{score:.4f}")))
    text = rf"chosen: $\lambda$ = {lambda_label(value)}, {details}"
    axes.set_title(text, loc="right", color="crimson", fontsize="medium")
