"""The minimum of the plain hinge over all pairs, with a duality gap of the hinge itself."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dranking.errors import STATED_ACCURACY
from dranking.losses.pairwise import HingeSum, smoothed_hinge
from dranking.rankers.pairwise.minimise import Minimum, minimise
from dranking.rankers.pairwise.objective import PairwiseObjective

Array = NDArray[np.float64]

HINGE_WIDTHS = (1.0, 0.25, 0.05, 0.01, 0.002, 5e-4, 1e-4, 2e-5, 4e-6, 8e-7)
"""Widths over which the corner of the hinge is rounded; each solution is the start of the next. The
smaller the width, the more digits the rounded hinge loses, which is a difference of squares."""

WIDEST = 1e4
"""Largest width, over the share that the gap may have, for which the gap is computed, which takes
two passes or three. With larger widths, the gap was larger than that share on all data tried."""


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
        is_last = width == HINGE_WIDTHS[-1]
        if width > WIDEST * target and not is_last:
            continue
        value, corner = hinge_and_corner(objective, rounded, width)
        if value < best:
            best, found = value, rounded
        is_last = is_last or (rounded.ended == "rounding" and corner <= target * value)
        if not is_last and corner + rounded.gap > target * value:
            continue
        gap = corner + rounded.gap + rounding_of_squares(objective, rounded, margin, width)
        if (
            rounded.gap < rounded.value
        ):  # else it is a limit, and not the gap of a point of the dual
            lower = max(lower, value - gap)
        found = found._replace(n_iter=n_iter, value=best, gap=max(best - lower, 0.0))
        if found.share <= target:
            return found._replace(ended="close")
        if is_last:
            break
    return found._replace(ended="corner" if rounded.ended == "close" else rounded.ended)


def hinge_and_corner(
    objective: PairwiseObjective, rounded: Minimum, width: float
) -> tuple[float, float]:
    """The objective with the hinge itself at the weights found, and how far its gap is larger.

    With the shortfall x of the margin of a pair, the rounded hinge is ``max_a (a x - width/2 a^2)``
    for a from 0 to 1. The maximising a of all pairs are a point of both duals, and the dual of the
    hinge is above that of the rounded hinge by ``width/2 a^2``. So the gap of the hinge is the gap
    of the rounded hinge, plus the mean of hinge - rounded hinge - width/2 a^2, which is
    ``x - x^2/width`` for x between 0 and width, and else 0: the hinge of the margin, plus the hinge
    of the margin less the width, less twice the rounded hinge.
    """
    value = objective.hinge(rounded.weights)
    corner = value + objective.hinge(rounded.weights, width) - 2.0 * rounded.value
    return value, max(corner, 0.0)


def rounding_of_squares(
    objective: PairwiseObjective, rounded: Minimum, margin: float, width: float
) -> float:
    """Estimated rounding of twice the rounded hinge, which comes as a difference of squares."""
    squares = HingeSum(np.array([[margin, 1.0 / width]]))
    return float(np.finfo(float).eps) * objective.at(squares, rounded.weights).value
