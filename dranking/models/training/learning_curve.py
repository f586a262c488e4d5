"""The learning curve of a training: one point for each epoch, and the figure of the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dranking.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The progress of a training after an epoch.

    Attributes
    ----------
    epoch
        Number of the epoch, from 1.
    n_steps
        Steps taken so far, over all shards.
    seconds
        Seconds spent in epochs so far.
    objective
        Estimate of the objective from the losses of the epoch's pairs or tuples; each loss is taken
        before the step on its pair or tuple.
    validation
        The validation metric; None without validation data.
    """

    epoch: int
    n_steps: int
    seconds: float = 0.0
    objective: float
    validation: float | None = None


def curve_facts(curve: Sequence[CurvePoint]) -> list[dict[str, Any]]:
    """The points as a model stores them: without seconds, so that equal trainings are equal."""
    points = [asdict(point) for point in curve]
    return [{name: v for name, v in point.items() if name != "seconds"} for point in points]


def plot_learning_curve(
    curve: Sequence[CurvePoint], *, metric: str = "validation", against: str | None = None
) -> Figure:
    """Draw the objective, and the validation metric if there is one, against steps or seconds.

    Parameters
    ----------
    curve
        `learning_curve_` of a ranker.
    metric
        Name of the validation metric, for the axis.
    against
        "n_steps", "seconds", or None for two columns of panels, one for each.

    Returns
    -------
    A figure without a window; matplotlib's global state is left alone.

    Raises
    ------
    UsageError
        If `against` is another word, or the curve has no point.
    """
    from matplotlib.figure import Figure

    labels = {"n_steps": "steps", "seconds": "seconds"}
    if against not in (*labels, None):
        raise UsageError(f"against is {against!r}; choose n_steps or seconds.")
    if not curve:
        raise UsageError("the learning curve has no point.")
    columns = [*labels] if against is None else [against]
    rows = {"objective": [(p, p.objective) for p in curve]}
    if validated := [(p, p.validation) for p in curve if p.validation is not None]:
        rows[metric] = validated
    size = (7.2 if against else 10.4, 2.6 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(rows), len(columns), sharex="col", sharey="row", squeeze=False)
    for of_row, (label, points) in zip(panels, rows.items(), strict=True):
        of_row[0].set_ylabel(label)
        for axes, column in zip(of_row, columns, strict=True):
            x = [getattr(point, column) for point, _ in points]
            axes.plot(x, [value for _, value in points], color="C0", marker=".", linewidth=1.6)
            axes.grid(color="0.9", linewidth=0.8)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
    for axes, column in zip(panels[-1], columns, strict=True):
        axes.set_xlabel(labels[column])
    return figure
