"""The figure of propensities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dranking.clicks.propensities.propensities import Curve, Propensities

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#2f5d8a", "#b3261e", "#3b7d4f", "#8a5a2f", "#6b4f8a", "#8a8f98")


def plot_propensities(propensities: Propensities) -> Figure:
    """Draw the curves of all contexts against the position, with their 95 % intervals.

    With trust bias, intercepts are drawn below the slopes.
    """
    from matplotlib.figure import Figure as NewFigure

    names = ["a"] + ["b"] * propensities.has_trust_bias
    figure = NewFigure(figsize=(5.8, 3.2 * len(names)), layout="constrained")
    labels = {"a": "propensity of examination", "b": "clicks on irrelevant documents (b)"}
    for axes, name in zip(np.atleast_1d(figure.subplots(len(names))), names, strict=True):
        for number, curve in enumerate(propensities.curves):
            _draw(axes, curve, name, COLOURS[number % len(COLOURS)])
        axes.set_ylabel(labels[name] if len(names) == 1 or name == "b" else "slope (a)")
        axes.set_xlabel("position")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if len(propensities.curves) > 1:
            axes.legend(frameon=False)
    return figure


def _draw(axes: Any, curve: Curve, name: str, colour: str) -> None:
    values = getattr(curve, name)
    positions = np.arange(1, len(values) + 1)
    label = "all contexts" if curve.context is None else curve.context.replace("$", r"\$")
    axes.plot(positions, values, color=colour, marker="o", markersize=4, label=f" {label}")
    intervals = getattr(curve, f"{name}_intervals")
    if intervals is not None:
        low, high = np.array(intervals).T
        axes.fill_between(positions, low, high, color=colour, alpha=0.15, linewidth=0)
