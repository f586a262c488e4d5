"""Minimise an objective over all pairs by Newton's method, to a duality gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

from dranking.engine.executor import Task
from dranking.engine.progress import report
from dranking.errors import NO_DIGIT, SCALE, STATED_ACCURACY, AccuracyWarning, UsageError, warn_user
from dranking.pairwise.curved_gap import curved_gap
from dranking.pairwise.losses import PairLoss
from dranking.pairwise.newton import newton_step
from dranking.pairwise.objective import PairwiseObjective, Point

Array = NDArray[np.float64]
Ended: TypeAlias = Literal["close", "steps", "rounding", "corner"]

LARGEST_RATIO = 1e100
"""Largest ratio of lambda to the squared slope of the loss, and of the squared slope to
lambda. Within these limits squares stay finite."""

STALLED = 1e-5
"""If rounding of the gradient keeps the gap above its target, the solver ends once the Newton
decrement is this share of the target. The decrement alone is no bound: at a corner of the
hinge it was 4e-10 where the objective was 6 % above the minimum."""


class Minimum(NamedTuple):
    """The minimum that `minimise` found.

    Attributes
    ----------
    weights
        (n_features,) weights.
    n_iter
        Number of steps.
    gap
        The duality gap: a bound of the distance of the objective from its minimum, with the
        rounding of the objective, but for that of the gradient.
    value
        The objective at the weights.
    ended
        Why the descent ended: "close" to the minimum, as the tolerance asks or rounding allows; or
        farther off, because "steps" ran out, because of "rounding", or because the "corner" of the
        hinge is rounded.
    steepest
        Names of the columns in whose coordinates the gradient is largest.
    tangents
        Tasks of the tangents of all blocks at the weights.
    is_dual
        Whether the slopes of the loss are a point of the dual with this gap; false if the gap is by
        the curvature.
    """

    weights: Array
    n_iter: int
    gap: float
    value: float
    ended: Ended = "close"
    steepest: tuple[str, ...] = ()
    tangents: Sequence[Task] = ()
    is_dual: bool = True

    @property
    def share(self) -> float:
        """The gap as a share of the objective, at most 1."""
        return share_above_minimum(self.gap, self.value)


def minimise(
    objective: PairwiseObjective, loss: PairLoss, start: Array, tol: float, max_iter: int
) -> Minimum:
    """Minimise an objective by Newton's method in a trust region.

    The solver works in coordinates in which columns of any units, and columns that nearly depend on
    each other, take part alike; the penalty stays on the weights themselves.

    Parameters
    ----------
    start
        (n_features,) first weights.
    tol
        The solver ends where the gap is at most `tol` times the objective, or where the gap
        no longer falls and the Newton decrement is at most `STALLED` of that.
    max_iter
        Largest number of steps.

    Raises
    ------
    UsageError
        If lambda is far too small or far too large for the features, or the penalty of the first
        weights is no finite number.
    """
    with np.errstate(over="ignore"):
        square = float(start @ start)
    if not math.isfinite(square):
        raise UsageError(f"the first weights have the squared norm {square}; begin at 0.")
    seen = _Scaled(objective, loss)
    value, slopes, tangents = seen.at(np.zeros_like(start))
    if not slopes.any():
        return Minimum(np.zeros_like(start), 0, 0.0, value, tangents=tangents)
    check_proportion(objective.regularization, float(np.linalg.norm(slopes)))
    unit = float(np.linalg.norm(seen.within.gradient(slopes)))
    first, steps, least = seen.within.of(start), count(1), math.inf

    def end_if_close(u: Array) -> None:
        nonlocal least
        report("newton", next(steps), None, **objective.moved)
        gap, target = seen.gap(u), tol * seen.at(u).value
        has_stalled, least = gap > 0.5 * least, min(gap, least)
        if gap <= target or (has_stalled and seen.decrement(u, STALLED * target)):
            raise StopIteration

    found = optimize.minimize(
        lambda u: (seen.at(u).value / unit, seen.gradient(u) / unit),
        first,
        jac=True,
        hessp=lambda u, direction: seen.curve(u, direction) / unit,
        method="trust-ncg",
        callback=end_if_close,
        options={
            "gtol": 0.0,
            "maxiter": max_iter,
            "initial_trust_radius": 0.25 * float(np.linalg.norm(first)) or unit,
            "max_trust_radius": np.inf,
        },
    )
    u = found.x if found.status == 1 else seen.polished(found.x, tol)
    worst = np.argsort(-np.abs(seen.gradient(u)), kind="stable")[:2]
    names = tuple(objective.feature_names[seen.within.order[i]] for i in worst)
    weights, (value, _, tangents) = seen.within.weights(u), seen.at(u)
    gap = seen.gap(u)
    is_dual = not gap > tol * value
    if not is_dual:
        curved = seen.curved_gap(u)
        is_dual, gap = gap <= curved, min(gap, curved)
    gap += objective.value_rounding(weights, value)
    ended: Ended = "close"
    if gap > tol * value:
        is_rounding = gap > STATED_ACCURACY * value
        ended = "steps" if found.status == 1 else "rounding" if is_rounding else "close"
    return Minimum(weights, int(found.nit), gap, value, ended, names, tangents, is_dual)


def warn_of_gap(found: Minimum, max_iter: int) -> None:
    """Warn with the gap, if the descent ended farther from the minimum than it may.

    The descent may end at the tolerance if steps ran out, and otherwise at the larger of the
    tolerance and `STATED_ACCURACY`. The warning about rounding names columns.
    """
    above = f"the objective may be {found.share:.0e} of its value above the minimum"
    if found.share >= NO_DIGIT:
        above = "no digit of the minimum is known"
    if found.ended == "steps":
        message = (
            f"not at the minimum after {max_iter} steps: {above}; raise max_iter, tol or "
            "regularization."
        )
        warn_user(message, ConvergenceWarning)
    elif found.ended == "corner":
        message = (
            f"the corner of the hinge is rounded: {above}; raise tol or regularization, or take "
            "squared hinges."
        )
        warn_user(message, ConvergenceWarning)
    elif found.ended == "rounding":
        message = (
            f"rounding hides the minimum: {above}, mostly because of the units of "
            f"{' and '.join(found.steepest)}, or because they nearly depend on other columns. "
            f"Scale the features ({SCALE})."
        )
        warn_user(message, AccuracyWarning)


class _Scaled:
    """An objective as a function of the coordinates u of the solver."""

    def __init__(self, objective: PairwiseObjective, loss: PairLoss) -> None:
        self.objective, self.loss = objective, loss
        self.within = objective.coordinates
        self._points: dict[bytes, Point] = {}

    def at(self, u: Array) -> Point:
        """The objective at u; the present point, and the point that is tried, are kept."""
        key = u.tobytes()
        if key not in self._points:
            point = self.objective.at(self.loss, self.within.weights(u))
            self._points = dict([*self._points.items()][-1:]) | {key: point}
        return self._points[key]

    def gradient(self, u: Array) -> Array:
        """The gradient (n_features,) by u."""
        return self.within.gradient(self.at(u).gradient)

    def curve(self, u: Array, direction: Array) -> Array:
        """The second derivative at u times a direction (n_features,)."""
        turned = self.within.weights(direction)
        tangents = self.at(u).tangents
        return self.within.gradient(self.objective.curvature(self.loss, tangents, turned))

    def gap(self, u: Array) -> float:
        """The duality gap at u, a bound of the distance from the minimum."""
        there = self.at(u)
        bound = float(there.gradient @ there.gradient) / (2.0 * self.objective.regularization)
        return min(bound, there.value)  # no loss is below 0

    def curved_gap(self, u: Array) -> float:
        """The gap at u by the curvature of the loss; infinite where that says nothing."""
        _, decrement = newton_step(self.gradient(u), partial(self.curve, u), 0.0)
        return curved_gap(self.objective, self.loss, self.within.weights(u), decrement)

    def decrement(self, u: Array, target: float) -> bool:
        """Whether half the squared Newton decrement is at most a target."""
        return newton_step(self.gradient(u), partial(self.curve, u), target)[1] <= target

    def polished(self, u: Array, tol: float) -> Array:
        """Go on by Newton steps as long as each of them halves the gap.

        Differences of the objective are rounded long before its gradient, so a trust region, which
        compares objectives, ends too early for the gap.
        """
        while self.gap(u) > tol * self.at(u).value:
            step, _ = newton_step(self.gradient(u), partial(self.curve, u), 0.0)
            tried = u + step
            if not self.gap(tried) <= 0.5 * self.gap(u):
                return u
            u = tried
        return u


def share_above_minimum(gap: float, objective: float) -> float:
    """The gap as a share of the objective, at most 1: no loss is below 0. NaN for NaN."""
    if math.isnan(gap) or not gap:
        return gap
    return min(1.0, gap / objective) if objective > 0.0 else 1.0


def check_proportion(regularization: float, slope: float) -> None:
    """Raise UsageError if lambda is far too small or far too large for the slope of the loss."""
    ratio = regularization / slope**2
    if not 1.0 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
        raise UsageError(
            f"regularization is {regularization:.3g}, too {'small' if ratio < 1.0 else 'large'} to "
            "compute with for these features: choose a value nearer to the squares of the features."
        )
