"""Regularised risk minimisation by cutting planes, with a duality gap.

The risk R(w) is convex and lies above every plane that touches it. With the planes found so far,
``max_t <a_t, w> + b_t + lambda/2 |w|^2`` is a lower bound of the objective. The minimum of the
bound is computed in the dual, over one weight for each plane, and the next plane touches the risk
at that minimum. Where this minimum is a worse point than the best point so far, one more plane
touches the risk a tenth of the way from the best point to the minimum; without this plane, the
points oscillate.

Teo, Vishwanathan, Smola, Le: Bundle methods for regularized risk minimization, 2010, algorithm 1.
Franc and Sonnenburg: Optimized cutting plane algorithm for support vector machines, 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FiniteFloat
from sklearn.exceptions import ConvergenceWarning

from dranking.engine.progress import report
from dranking.errors import SCALE, DataError, warn_user
from dranking.max_margin.kernels.simplex import minimise_on_simplex
from dranking.models.training.checkpoint import (
    Arrays,
    Count,
    Facts,
    TrainingCheckpoint,
    check_vectors,
)

Array = NDArray[np.float64]
Risk = Callable[[Array], tuple[float, Array]]

SHARE_OF_WAY = 0.1
"""Share of the way from the best point to a worse point where the second plane touches."""

MAX_IDLE = 50
"""Rounds after which a plane that carries no weight is dropped."""

DUAL_ACCURACY = 0.05
"""Accuracy of the dual, as a share of the target gap or of a hundredth of the present gap."""

ROUNDING = 1e-9
"""A stored plane above the stored objective by more than this share is no rounding error."""

SAFETY = 16.0
"""Safety factor of the estimated rounding of planes, and of their lower bound."""

PLANE_ARRAYS = ("slopes", "heights", "rounding", "steepest", "gram", "weights", "idle")

NO_CHECKPOINT = TrainingCheckpoint(None, {})

MAX_STEPS = 100_000
"""Largest number of steps of the dual in a round. The dual value is a lower bound after any number
of steps."""


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
    """

    best: Array
    objective: float
    lower: float
    gap: float
    target_gap: float
    n_iter: int


def minimise(
    risk: Risk,
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
    largest
        (n,) largest |x| of each feature, as scores read it: its product with w is rounded there.
    regularization
        lambda > 0.
    tol
        The minimisation ends when the gap is at most `tol` times the objective.
    max_iter
        Largest number of rounds, each with one or two evaluations of the risk.
    checkpoint
        Stores every round; a minimisation resumes after the stored round.

    Raises
    ------
    DataError
        If the planes of the checkpoint contradict the objective of its weights.
    """
    n, planes = len(largest), Planes(largest, regularization)

    def visit(point: Array) -> float:
        value, slope = risk(point)
        planes.add(slope, value, point)
        return value + 0.5 * regularization * float(point @ point)

    at = checkpoint.load(partial(restore_round, planes=planes))
    if at is not None:
        _check_planes(at, planes)
    else:
        zeros = np.zeros(n)
        value = visit(zeros)
        at = Round(zeros, value, -np.inf, np.inf, tol * value, 0)
    while at.n_iter < max_iter:
        accuracy = DUAL_ACCURACY * max(at.target_gap, 0.01 * min(at.gap, at.objective))
        new, point = planes.minimum(accuracy)
        # The new bound may be lower: planes were dropped, or the dual was solved less accurately.
        # A bound above the objective is rounding.
        lower = max(at.lower, new) if new <= at.objective else at.lower
        at = at._replace(lower=lower, gap=at.objective - lower, n_iter=at.n_iter + 1)
        report("cutting planes", at.n_iter, None, objective=at.objective, gap=at.gap)
        if at.gap <= at.target_gap:
            break
        there = visit(point)
        if there > at.objective:
            point = at.best + SHARE_OF_WAY * (point - at.best)
            there = visit(point)
        if there < at.objective:
            at = at._replace(best=point, objective=there, target_gap=tol * there)
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
        f"{found.target_gap:.3g}; the steps depend on the units of the features, largest for "
        f"{' and '.join(names[i] for i in largest)}: scale the features "
        f"({SCALE}), or raise max_iter, tol or regularization.",
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


class Planes:
    """Planes below a risk, and the minimum of their maximum plus ``lambda / 2 |w|^2``."""

    def __init__(self, largest: Array, regularization: float) -> None:
        n, self._largest, self._lambda = len(largest), largest, regularization
        self._slopes = np.empty((0, n))
        self._heights = np.empty(0)
        self._rounding = np.empty(0)
        self._steepest = np.zeros(n)
        self._gram = np.empty((0, 0))
        self._weights = np.empty(0)
        self._idle = np.empty(0, dtype=np.int64)

    def add(self, slope: Array, value: float, point: Array) -> None:
        """Add the plane that has a value and a slope (n,) at a point (n,)."""
        height = value - float(slope @ point)
        # Sums over documents round by their largest terms, which cancel in this slope perhaps;
        # scores round by theirs, which cancel in differences of scores.
        self._steepest = np.maximum(self._steepest, np.abs(slope))
        terms = abs(value) + float((self._steepest + self._largest) @ np.abs(point))
        with_others = self._slopes @ slope
        own = np.array([[slope @ slope]])
        self._gram = np.block([[self._gram, with_others[:, None]], [with_others[None, :], own]])
        self._slopes = np.vstack([self._slopes, slope])
        self._heights = np.append(self._heights, height)
        self._rounding = np.append(self._rounding, SAFETY * np.finfo(float).eps * terms)
        self._weights = np.append(self._weights, 0.0 if len(self._weights) else 1.0)
        self._idle = np.append(self._idle, 0)

    @property
    def arrays(self) -> dict[str, Array]:
        """The state of the planes, by name: the arrays that `restore` takes."""
        return {name: getattr(self, f"_{name}") for name in PLANE_ARRAYS}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take the state of stored planes; raises ValueError if the arrays are no such state."""
        n, n_weights = len(np.atleast_1d(arrays["heights"])), self._slopes.shape[1]
        shapes = {"slopes": (n, n_weights), "gram": (n, n), "steepest": (n_weights,)}
        for name in PLANE_ARRAYS:
            array = np.array(arrays[name])
            dtype = np.int64 if name == "idle" else np.float64
            if array.shape != shapes.get(name, (n,)) or array.dtype != dtype:
                raise ValueError(f"{name} does not fit {n} planes of {n_weights} weights")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} has numbers that are not finite")
            setattr(self, f"_{name}", array)

    def at(self, point: Array) -> float:
        """The maximum of the planes plus ``lambda / 2 |w|^2`` at a point (n,), less rounding."""
        own = self._slopes @ point + self._heights - self._rounding
        terms = float((self._steepest + self._largest) @ np.abs(point))
        own -= SAFETY * np.finfo(float).eps * terms
        return float(own.max()) + 0.5 * self._lambda * float(point @ point)

    def minimum(self, accuracy: float) -> tuple[float, Array]:
        """Minimise the maximum of the planes plus ``lambda / 2 |w|^2``.

        Returns
        -------
        A lower bound of the minimum, below the minimum by at most `accuracy` and the rounding of
        the planes; and the point (n,).
        """
        x = self._weights
        minimise_on_simplex(self._gram / self._lambda, self._heights, x, accuracy, MAX_STEPS)
        slope = x @ self._slopes
        penalty = float(slope @ slope) / (2 * self._lambda)
        terms = float(x @ np.abs(self._heights)) + penalty
        rounding = float(x @ self._rounding) + SAFETY * np.finfo(float).eps * terms
        lower = float(x @ self._heights) - penalty - rounding
        self._drop_idle()
        return lower, -slope / self._lambda

    def _drop_idle(self) -> None:
        self._idle = np.where(self._weights > 0, 0, self._idle + 1)
        kept = self._idle <= MAX_IDLE
        if not kept.all():
            self._slopes, self._heights = self._slopes[kept], self._heights[kept]
            self._rounding = self._rounding[kept]
            self._gram = self._gram[np.ix_(kept, kept)]
            self._weights, self._idle = self._weights[kept], self._idle[kept]


class _Facts(BaseModel):
    """The values of a round that a checkpoint stores beside its arrays."""

    model_config = ConfigDict(extra="forbid")
    objective: FiniteFloat
    lower: float
    gap: float
    target_gap: FiniteFloat
    n_iter: Count


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
