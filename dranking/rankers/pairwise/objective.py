"""The regularised mean of a loss over all pairs, summed over blocks, and its minimum."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, Task
from dranking.engine.progress import report
from dranking.engine.tile_tasks import Literal as Same
from dranking.engine.tiles import Tiles
from dranking.errors import AccuracyWarning, DataError, UsageError
from dranking.losses.pairwise import (
    PairLoss,
    PairTargets,
    curvature_of_model,
    hinge_of_pairs,
    loss_of_model,
    pair_targets,
)
from dranking.rankers.pairwise.coordinates import Coordinates, coordinates_of

Array = NDArray[np.float64]

LARGEST_RATIO = 1e100
"""Largest ratio of lambda to the squared slope of the loss, and of the squared slope to
lambda. Within these limits squares stay finite."""


STATED_ACCURACY = 1e-6
"""Estimated distance from the minimum, as a share of the objective, above which a warning is given
where rounding ends the descent."""

MOST_PRODUCTS = 50
"""Largest number of products with the second derivative for an estimate of the gap."""


class Point(NamedTuple):
    """The objective at one vector of weights.

    Attributes
    ----------
    value, gradient
        Value, and gradient (n_features,).
    tangents
        Tasks of the tangents of all blocks, for the second derivative.
    """

    value: float
    gradient: Array
    tangents: list[Task]


class PairwiseObjective:
    """``mean over P of loss + lambda / 2 |w|^2`` and its derivatives, summed over blocks.

    Parameters
    ----------
    dataset
        Labelled queries.
    regularization
        lambda > 0.
    executor
        Where the blocks are read and the sums are computed.
    targets
        Function from a block to the pairs of the block, and the offsets of the scores.

    Raises
    ------
    DataError
        If no two documents of a query differ in relevance.
    """

    def __init__(
        self,
        dataset: Dataset,
        regularization: float,
        executor: Executor,
        targets: Callable[[QueryBlock], PairTargets] = pair_targets,
    ) -> None:
        bytes_there = 8 * sum(block.n_values for block in dataset.blocks)
        self._tiles = Tiles(dataset, executor, resident=bytes_there <= executor.memory_bytes)
        self._targets = self._tiles.map_blocks(targets, name="pairs")
        self.regularization = regularization
        self.n_pairs = float(self._tiles.sum(self._targets, count_of, "pairs"))
        if not self.n_pairs > 0:
            raise DataError(
                "no two documents of a query differ in relevance: there is no pair to learn from."
            )

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates in which the solver sees the weights; the first access takes one pass."""
        return coordinates_of(self._tiles, self.regularization)

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the columns."""
        return self._tiles.dataset.feature_names

    @property
    def moved(self) -> dict[str, int]:
        """Bytes read and sent so far; see `Tiles.moved`."""
        return self._tiles.moved

    def hinge(self, weights: Array) -> float:
        """The objective with the plain hinge."""
        return self.hinge_risk(weights)[0] + 0.5 * self.regularization * float(weights @ weights)

    def hinge_risk(self, weights: Array) -> tuple[float, Array]:
        """Mean of the plain hinge over P, and a subgradient (n_features,)."""
        value, slopes = self._tiles.sum_map(
            hinge_of_pairs, self._targets, Same(weights), name="hinge"
        )
        return float(value) / self.n_pairs, slopes / self.n_pairs

    def at(self, loss: PairLoss, weights: Array) -> Point:
        """The objective with a loss, at some weights (n_features,)."""
        points = self._tiles.map_blocks(
            loss_of_model, self._targets, Same(weights), Same(loss), name="loss"
        )
        value, gradient = self._tiles.sum(points, value_and_gradient, "loss")
        return Point(
            float(value) / self.n_pairs + 0.5 * self.regularization * float(weights @ weights),
            gradient / self.n_pairs + self.regularization * weights,
            self._tiles.map_values(tangent_of, points, name="tangent"),
        )

    def curvature(self, loss: PairLoss, tangents: list[Task], direction: Array) -> Array:
        """The second derivative times a direction (n_features,)."""
        total: Array = self._tiles.sum_map(
            curvature_of_model,
            self._targets,
            tangents,
            Same(direction),
            Same(loss),
            name="curvature",
        )
        return total / self.n_pairs + self.regularization * direction


class Minimum(NamedTuple):
    """What `minimise` found.

    Attributes
    ----------
    weights
        (n_features,) weights.
    n_iter
        Number of steps.
    gap
        Estimated distance of the objective from its minimum; see `gap_of`.
    """

    weights: Array
    n_iter: int
    gap: float


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
        The solver ends where the gap is below `tol` times the objective.
    max_iter
        Largest number of steps.

    Raises
    ------
    UsageError
        If lambda is far too small or far too large for the features.

    Warns
    -----
    ConvergenceWarning
        If the gap is above its target after `max_iter` steps.
    """

    @lru_cache(maxsize=2)  # the present point, and the point that the solver tries
    def point(u: bytes) -> Point:
        return objective.at(loss, within.weights(np.frombuffer(u)))

    within = objective.coordinates
    slopes = point(np.zeros_like(start).tobytes()).gradient
    if not slopes.any():
        return Minimum(np.zeros_like(start), 0, 0.0)
    check_proportion(objective.regularization, float(np.linalg.norm(slopes)))
    unit = float(np.linalg.norm(within.gradient(slopes)))

    def evaluate(u: Array) -> tuple[float, Array]:
        there = point(u.tobytes())
        return there.value / unit, within.gradient(there.gradient) / unit

    def curve(u: Array, direction: Array) -> Array:
        tangents = point(u.tobytes()).tangents
        turned = within.weights(direction)
        return within.gradient(objective.curvature(loss, tangents, turned))

    steps = count(1)

    def gap_at(u: Array) -> float:
        there = point(u.tobytes())
        bound = float(there.gradient @ there.gradient) / (2.0 * objective.regularization)
        estimate = gap_of(within.gradient(there.gradient), partial(curve, u), tol * there.value)
        return min(bound, estimate, there.value)  # no loss is below 0

    def end_if_close(u: Array) -> None:
        report("newton", next(steps), None, **objective.moved)
        if gap_at(u) <= tol * point(u.tobytes()).value:
            raise StopIteration

    first = within.of(start)
    found = optimize.minimize(
        evaluate,
        first,
        jac=True,
        hessp=lambda u, direction: curve(u, direction) / unit,
        method="trust-ncg",
        callback=end_if_close,
        options={
            "gtol": 0.0,
            "maxiter": max_iter,
            "initial_trust_radius": 0.25 * float(np.linalg.norm(first)) or unit,
            "max_trust_radius": np.inf,
        },
    )
    gap = gap_at(found.x)
    above = f"the objective is about {gap / (found.fun * unit):.0e} of its value above the minimum"
    if found.status == 1:
        warnings.warn(
            f"not at the minimum after {max_iter} steps: {above}; raise max_iter, tol or "
            "regularization.",
            ConvergenceWarning,
            stacklevel=3,
        )
    elif gap > max(tol, STATED_ACCURACY) * found.fun * unit:  # rounding hides any further descent
        worst = np.argsort(-np.abs(found.jac), kind="stable")[:2]
        names = [objective.feature_names[within.order[i]] for i in worst]
        warnings.warn(
            f"rounding hides the minimum: {above}, for its units or dependence on other columns "
            f"most by {' and '.join(names)}. Scale the features (--normalize standard).",
            AccuracyWarning,
            stacklevel=3,
        )
    return Minimum(within.weights(found.x), int(found.nit), gap)


def gap_of(gradient: Array, multiply: Callable[[Array], Array], target: float) -> float:
    """Half the squared Newton decrement, g'H^-1 g / 2: how far a quadratic is above its minimum.

    The decrement does not depend on the units of the variables. Conjugate gradients find the
    decrement from below, and end as soon as it exceeds `target`, or where another product with
    the second derivative H adds less than a hundredth.

    Parameters
    ----------
    gradient
        (n,) g.
    multiply
        Product of H with a direction (n,).
    target
        Gap of interest.
    """
    residual, gap = gradient.copy(), 0.0
    square = float(residual @ residual)
    direction = residual.copy()
    for _ in range(MOST_PRODUCTS):
        # With H near 1 in all directions, as the coordinates make it.
        if 0.5 * square > target or square == 0.0:
            return max(gap, 0.5 * square)
        turned = multiply(direction)
        curvature = float(direction @ turned)
        if not curvature > 0.0:
            return max(gap, 0.5 * square)
        length = square / curvature
        added = 0.5 * length * square
        gap += added
        if gap > target or added < 0.01 * gap:
            return gap
        residual -= length * turned
        before, square = square, float(residual @ residual)
        direction = residual + (square / before) * direction
    return gap


def share_above_minimum(gap: float, objective: float) -> float:
    """The gap as a share of the objective, at most 1: no loss is below 0. NaN for NaN."""
    return gap if math.isnan(gap) else min(1.0, gap / objective) if gap else 0.0


def check_proportion(regularization: float, slope: float) -> None:
    """Raise UsageError if lambda is far too small or far too large for the slope of the loss."""
    ratio = regularization / slope**2
    if not 1.0 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
        raise UsageError(
            f"regularization is {regularization:.3g}, too {'small' if ratio < 1.0 else 'large'} to "
            "compute with for these features: choose a value nearer to the squares of the features."
        )


def count_of(targets: Any) -> np.float64:
    """Weighted number of pairs of a block."""
    return np.float64(targets.n_pairs)


def value_and_gradient(point: Any) -> tuple[np.float64, Array]:
    """The part of a `loss_of_model` that is summed over blocks."""
    value, gradient, _ = point
    return np.float64(value), gradient


def tangent_of(point: Any) -> Any:
    """The part of a `loss_of_model` that stays where the block is."""
    return point[2]
