"""Regularised risk minimisation by cutting planes, with a duality gap.

The risk R(w) is convex and lies above every plane that touches it. With the planes found so far,
``max_t <a_t, w> + b_t + lambda/2 |w|^2`` is a lower bound of the objective, and its minimum one of
the minimum. The next plane touches the risk where the bound plus a penalty on the distance from the
best point is least. The distance is that of scores, so steps do not depend on the units of the
features; without that penalty, points of raw features lie far from each other and from the minimum.

Teo, Vishwanathan, Smola, Le: Bundle methods for regularized risk minimization, 2010.
Kiwiel: Proximity control in bundle methods for convex nondifferentiable minimization, 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FiniteFloat, PositiveFloat
from sklearn.exceptions import ConvergenceWarning

from dranking.engine.progress import report
from dranking.errors import SCALE, DataError, warn_user
from dranking.max_margin.planes import Planes, Step
from dranking.models.training.checkpoint import (
    Arrays,
    Count,
    Facts,
    TrainingCheckpoint,
    check_vectors,
)
from dranking.pairwise.coordinates import Coordinates
from dranking.pairwise.minimise import check_proportion

Array = NDArray[np.float64]
Risk = Callable[[Array], tuple[float, Array]]

SERIOUS = 0.1
"""Share of the predicted fall of the objective that makes the new point the best point."""

LEAST_NEARNESS = 1e-10
"""Least weight of the penalty on the distance from the best point."""

DUAL_ACCURACY = 1e-3
"""Accuracy of minima of the planes, as a share of the target gap."""

ROUNDING = 1e-9
"""A stored plane above the stored objective by more than this share is no rounding error."""

NO_CHECKPOINT = TrainingCheckpoint(None, {})


class Minimum(NamedTuple):
    """The result of a minimisation.

    Attributes
    ----------
    weights
        (n,) best point.
    objective
        Risk plus lambda / 2 |w|^2 at the best point.
    gap
        Duality gap: the minimum is at most this much lower than `objective`. The lower bound counts
        the rounding of the planes, and of the scores by which they are chosen.
    n_iter
        Number of rounds.
    target_gap
        Gap at which the minimisation would end.
    steepest
        (n,) largest slope of any plane, for each weight.
    """

    weights: Array
    objective: float
    gap: float
    n_iter: int
    target_gap: float
    steepest: Array


class Round(NamedTuple):
    """The state of a minimisation after a round, without the planes.

    Attributes
    ----------
    best, objective
        Best point so far (n,), and the objective there.
    lower
        Greatest lower bound of the minimum so far.
    gap
        Duality gap before the round's points were evaluated.
    target_gap
        Gap at which the minimisation ends.
    n_iter
        Number of rounds.
    nearness
        Weight of the penalty on the distance from the best point.
    """

    best: Array
    objective: float
    lower: float
    gap: float
    target_gap: float
    n_iter: int
    nearness: float

    def after(self, step: Step, objective: float, tol: float) -> Round:
        """The state after a step to a point with an objective.

        The next step may be longer where the planes predicted the fall well, or predicted hardly
        any; and is shorter where the objective rose by more than the predicted fall.
        """
        fall, nearness = self.objective - objective, self.nearness
        if step.fall <= 0.0:  # the minimum of the planes is rounded
            nearness *= 10.0
        elif step.fall <= 0.1 * self.target_gap:
            nearness /= 5.0
        elif fall > 0.5 * step.fall:
            nearness /= 2.0
        elif fall < -step.fall:
            nearness *= 2.0
        at = self._replace(nearness=max(nearness, LEAST_NEARNESS))
        if fall > SERIOUS * max(step.fall, 0.0):
            return at._replace(best=step.point, objective=objective, target_gap=tol * objective)
        return at


def minimise(
    risk: Risk,
    coordinates: Coordinates,
    largest: Array,
    regularization: float,
    tol: float,
    max_iter: int,
    checkpoint: TrainingCheckpoint = NO_CHECKPOINT,
) -> Minimum:
    """Minimise ``R(w) + lambda / 2 |w|^2``.

    Parameters
    ----------
    risk
        Convex function from w (n,) to R(w) and a subgradient (n,).
    coordinates
        Coordinates of w in which columns of any units take part alike.
    largest
        (n,) largest |x| of each feature, as scores read it: its product with w is rounded there.
    regularization
        lambda > 0.
    tol
        The minimisation ends when the gap is at most `tol` times the objective.
    max_iter
        Largest number of rounds, each with one evaluation of the risk.
    checkpoint
        Stores every round; a minimisation resumes after the stored round.

    Raises
    ------
    UsageError
        If lambda is far too small or far too large for the slope of the risk.
    DataError
        If the planes of the checkpoint contradict the objective of its weights.
    """
    n, planes = len(largest), Planes(coordinates, largest, regularization)

    def visit(point: Array) -> float:
        value, slope = risk(point)
        planes.add(slope, value, point)
        return value + 0.5 * regularization * float(point @ point)

    at = checkpoint.load(partial(restore_round, planes=planes))
    if at is not None:
        _check_planes(at, planes)
    else:
        zeros = np.zeros(n)
        value, slope = risk(zeros)
        if slope.any():
            check_proportion(regularization, float(np.linalg.norm(slope)))
        planes.add(slope, value, zeros)
        at = Round(zeros, value, -np.inf, np.inf, tol * value, 0, 1.0)
    while at.n_iter < max_iter:
        accuracy = DUAL_ACCURACY * at.target_gap
        new = planes.lower_bound(accuracy)
        # The new bound may be lower: planes were dropped, or rounding hides the minimum of the
        # planes. A bound above the objective is rounding.
        lower = max(at.lower, new) if new <= at.objective else at.lower
        at = at._replace(lower=lower, gap=at.objective - lower, n_iter=at.n_iter + 1)
        report("cutting planes", at.n_iter, None, objective=at.objective, gap=at.gap)
        if at.gap <= at.target_gap:
            break
        step = planes.step(at.best, at.objective, at.nearness, accuracy)
        at = at.after(step, visit(step.point), tol)
        checkpoint.save(partial(stored_round, at, planes))
    gap = max(float(at.objective - at.lower), 0.0)
    return Minimum(at.best, at.objective, gap, at.n_iter, at.target_gap, planes.arrays["steepest"])


def warn_of_gap(found: Minimum, names: Sequence[str]) -> None:
    """Warn with the gap if it exceeds its target; names the two columns with the largest slopes."""
    if found.gap <= found.target_gap:
        return
    largest = np.argsort(-found.steepest, kind="stable")[:2]
    warn_user(
        f"the duality gap is {found.gap:.3g} after {found.n_iter} rounds, above its target "
        f"{found.target_gap:.3g}: raise max_iter, tol or regularization, or scale the features "
        f"({SCALE}), whose slopes are largest for {' and '.join(names[i] for i in largest)}.",
        ConvergenceWarning,
    )


def _check_planes(at: Round, planes: Planes) -> None:
    """Raise DataError if stored planes are above the objective at the stored weights."""
    value = planes.at(at.best)
    if value > at.objective + ROUNDING * abs(at.objective):
        raise DataError(
            "the checkpoint is damaged: by its planes, its best weights have an objective of "
            f"{value:.6g} at least; it says {at.objective:.6g}. Delete the checkpoint and start "
            "the training again."
        )


class _Facts(BaseModel):
    """The values of a round that a checkpoint stores beside its arrays."""

    model_config = ConfigDict(extra="forbid")
    objective: FiniteFloat
    lower: float
    gap: float
    target_gap: FiniteFloat
    n_iter: Count
    nearness: PositiveFloat


def stored_round(at: Round, planes: Planes) -> tuple[Facts, Arrays]:
    """The facts and the arrays that a checkpoint stores of a round."""
    facts = at._asdict()
    return facts, {"best": facts.pop("best"), **planes.arrays}


def restore_round(facts: Facts, arrays: Arrays, planes: Planes) -> Round:
    """The round of a checkpoint; `planes` becomes the planes of the round.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the facts or the arrays do not describe a round of cutting planes.
    """
    checked = _Facts.model_validate(facts)
    planes.restore(arrays)
    best = arrays["best"]
    check_vectors({"best": best}, arrays["slopes"].shape[1])
    return Round(best=best, **dict(checked))
