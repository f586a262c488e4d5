"""Regularised risk minimisation by cutting planes, with a gap that proves how good the result is.

The risk R(w) is convex, and lies above every plane that touches it. With the planes found so far,
``max_t <a_t, w> + b_t + lambda/2 |w|^2`` is a lower bound of the objective; its minimum, found in
the dual over one weight for each plane, is where the next plane is taken. Where that point is worse
than the best one so far, a plane is also taken near the best one, a tenth of the way: without it
the points jump to and fro.

Teo, Vishwanathan, Smola, Le: Bundle methods for regularized risk minimization, 2010, algorithm 1.
Franc and Sonnenburg: Optimized cutting plane algorithm for support vector machines, 2008.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dranking.engine.progress import report
from dranking.kernels.simplex import minimise_on_simplex

Array = NDArray[np.float64]
Risk = Callable[[Array], tuple[float, Array]]

NEAR = 0.1
"""How far from the best point, towards a worse one, the second plane of a round is taken."""

MAX_IDLE = 50
"""Rounds after which a plane that carries no weight is dropped."""

DUAL_ACCURACY = 0.05
"""The dual is solved to this share of the gap wanted, or of a hundredth of the gap there is."""

MAX_STEPS = 100_000
"""Of the dual, in a round; whatever it reaches is a lower bound."""


class Minimum(NamedTuple):
    """What the cutting planes found.

    Attributes
    ----------
    weights
        (n,) the best point.
    objective
        Its risk plus lambda / 2 |w|^2.
    gap
        The minimum is at most so much lower.
    n_iter
        Rounds.
    """

    weights: Array
    objective: float
    gap: float
    n_iter: int


def minimise(risk: Risk, n: int, regularization: float, tol: float, max_iter: int) -> Minimum:
    """Minimise ``R(w) + lambda / 2 |w|^2``.

    Parameters
    ----------
    risk
        From w (n,) to R(w) and a subgradient (n,); convex.
    n
        Length of w.
    regularization
        lambda > 0.
    tol
        Ends where the gap is at most `tol` times the objective of zero weights.
    max_iter
        Rounds at most, each with one or two evaluations of the risk.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` rounds do not suffice.
    """
    planes = Planes(n, regularization)

    def visit(point: Array) -> float:
        value, slope = risk(point)
        planes.add(slope, value - float(slope @ point))
        return value + 0.5 * regularization * float(point @ point)

    best = np.zeros(n)
    objective = visit(best)
    wanted = tol * objective
    gap = np.inf
    for n_iter in range(1, max_iter + 1):
        lower, point = planes.minimum(DUAL_ACCURACY * max(wanted, 0.01 * min(gap, objective)))
        gap = objective - lower
        report("cutting planes", n_iter, None, objective=objective, gap=gap)
        if gap <= wanted:
            return Minimum(best, objective, max(gap, 0.0), n_iter)
        there = visit(point)
        if there > objective:
            point = best + NEAR * (point - best)
            there = visit(point)
        if there < objective:
            best, objective = point, there
    warnings.warn(
        f"the duality gap is {gap:.3g} after {max_iter} rounds, and {wanted:.3g} was wanted; scale "
        "the features, or raise max_iter, tol or regularization.",
        ConvergenceWarning,
        stacklevel=3,
    )
    return Minimum(best, objective, gap, max_iter)


class Planes:
    """Planes below a risk, and the minimum of their maximum plus ``lambda / 2 |w|^2``."""

    def __init__(self, n: int, regularization: float) -> None:
        self._lambda = regularization
        self._slopes = np.empty((0, n))
        self._heights = np.empty(0)
        self._gram = np.empty((0, 0))
        self._weights = np.empty(0)
        self._idle = np.empty(0, dtype=np.int64)

    def add(self, slope: Array, height: float) -> None:
        """Add the plane ``<slope, w> + height``."""
        with_others = self._slopes @ slope
        own = np.array([[slope @ slope]])
        self._gram = np.block([[self._gram, with_others[:, None]], [with_others[None, :], own]])
        self._slopes = np.vstack([self._slopes, slope])
        self._heights = np.append(self._heights, height)
        self._weights = np.append(self._weights, 0.0 if len(self._weights) else 1.0)
        self._idle = np.append(self._idle, 0)

    def minimum(self, accuracy: float) -> tuple[float, Array]:
        """A lower bound of the minimum, no further than `accuracy` below it, and where it is."""
        x = self._weights
        minimise_on_simplex(self._gram / self._lambda, self._heights, x, accuracy, MAX_STEPS)
        slope = x @ self._slopes
        lower = float(x @ self._heights - slope @ slope / (2 * self._lambda))
        self._drop_idle()
        return lower, -slope / self._lambda

    def _drop_idle(self) -> None:
        self._idle = np.where(self._weights > 0, 0, self._idle + 1)
        kept = self._idle <= MAX_IDLE
        if not kept.all():
            self._slopes, self._heights = self._slopes[kept], self._heights[kept]
            self._gram = self._gram[np.ix_(kept, kept)]
            self._weights, self._idle = self._weights[kept], self._idle[kept]
