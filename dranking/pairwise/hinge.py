"""The minimum of the plain hinge over all pairs, with a duality gap of the hinge itself."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.errors import STATED_ACCURACY
from dranking.pairwise.losses import smoothed_hinge
from dranking.pairwise.minimise import Minimum, minimise
from dranking.pairwise.objective import PairwiseObjective

Array = NDArray[np.float64]

HINGE_WIDTHS = (1.0, 0.25, 0.05, 0.01, 0.002, 5e-4, 1e-4, 2e-5, 4e-6, 8e-7)
"""Widths over which the corner of the hinge is rounded; each solution is the start of the next. The
smaller the width, the more digits the rounded hinge loses, which is a difference of squares."""


class Corner(NamedTuple):
    """The hinge itself at the minimum of a hinge with a rounded corner.

    Attributes
    ----------
    value
        The objective with the hinge itself.
    excess
        Difference of the gap of the hinge and the gap of the rounded hinge.
    rounding
        Estimated rounding of `excess`, which is a difference of squares where the corner is wide.
    """

    value: float
    excess: float
    rounding: float


def minimise_hinge(
    objective: PairwiseObjective, margin: float, start: Array, tol: float, max_iter: int
) -> Minimum:
    """Minimise an objective with the hinge, whose corner is rounded over ever smaller widths.

    The widths end where the gap is at most a share of the objective: `tol`, or `STATED_ACCURACY` if
    `tol` is smaller; or where a smaller width cannot help, since rounding hides the minimum. The
    steps of all widths count. Parameters are as in `minimise`; `margin` is that of the targets.
    """
    n_iter, weights, best, target = 0, start, math.inf, max(tol, STATED_ACCURACY)
    lower = 0.0  # no hinge is below 0
    for width in HINGE_WIDTHS:
        rounded = minimise(objective, smoothed_hinge(width, margin), weights, tol, max_iter)
        weights, n_iter = rounded.weights, n_iter + rounded.n_iter
        value, excess, rounding = corner_of(objective, rounded, width)
        if not rounded.is_dual:
            rounding += math.sqrt(2.0 * width * rounded.gap)
        rounded = rounded._replace(tangents=())  # the workers may forget the tangents now
        if value < best:
            best, found = value, rounded
        if rounded.gap < rounded.value:  # else it is capped, and no gap of a point of the dual
            lower = max(lower, value - excess - rounded.gap - rounding)
        found = found._replace(n_iter=n_iter, value=best, gap=max(best - lower, 0.0))
        if found.share <= target:
            return found._replace(ended="close")
        if rounded.ended == "rounding" and excess <= target * value:
            break
    return found._replace(ended="corner" if rounded.ended == "close" else rounded.ended)


def corner_of(objective: PairwiseObjective, rounded: Minimum, width: float) -> Corner:
    """The hinge itself at the weights found for a rounded hinge, and how much larger its gap is.

    With the shortfall x of the margin of a pair, the rounded hinge is ``max_a (a x - width/2 a^2)``
    for a from 0 to 1. The maximising a of all pairs are a point of both duals, and the dual of the
    hinge is above that of the rounded hinge by ``width/2 a^2``. So the gap of the hinge is the gap
    of the rounded hinge, plus the mean of hinge - rounded hinge - width/2 a^2, which is
    ``x - x^2/width`` for x between 0 and width, and else 0. If the gap of the rounded hinge is by
    its curvature, the point of the duals is one Newton step d off, with a mean of (d'p)^2 of at
    most 2 width gap, and the excess is off by the root of that at most.
    """
    hinge, corner, squares = objective.shortfalls(rounded.tangents, width)
    penalty = 0.5 * objective.regularization * float(rounded.weights @ rounded.weights)
    value = float(hinge) + penalty
    rounding = float(np.finfo(float).eps) * (float(squares) + value)
    return Corner(value, max(float(corner), 0.0), rounding)
