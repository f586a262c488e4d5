"""The regularised mean of a loss over all pairs, summed over blocks, and its minimum."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
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
from dranking.errors import DataError, UsageError
from dranking.losses.pairwise import (
    PairLoss,
    PairTargets,
    curvature_of_model,
    hinge_of_pairs,
    loss_of_model,
    pair_targets,
)

Array = NDArray[np.float64]

LARGEST_RATIO = 1e100
"""Largest ratio of lambda to the squared slope of the loss, and of the squared slope to
lambda. Within these limits squares stay finite."""


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

    @property
    def moved(self) -> dict[str, int]:
        """Bytes read and sent so far; see `Tiles.moved`."""
        return self._tiles.moved

    def hinge(self, weights: Array) -> float:
        """The objective with the plain hinge."""
        return self.hinge_risk(weights)[0] + 0.5 * self.regularization * float(weights @ weights)

    def hinge_risk(self, weights: Array) -> tuple[float, Array]:
        """Mean of the plain hinge over P, and a subgradient (n_features,)."""
        parts = self._tiles.map_blocks(hinge_of_pairs, self._targets, Same(weights), name="hinge")
        value, slopes = self._tiles.sum(parts, tuple, "hinge")
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
        parts = self._tiles.map_blocks(
            curvature_of_model,
            self._targets,
            tangents,
            Same(direction),
            Same(loss),
            name="curvature",
        )
        total: Array = self._tiles.sum(parts, np.asarray, "curvature")
        return total / self.n_pairs + self.regularization * direction


def minimise(
    objective: PairwiseObjective, loss: PairLoss, start: Array, tol: float, max_iter: int
) -> tuple[Array, int]:
    """Minimise an objective by Newton's method in a trust region.

    The solver sees the objective in units of the gradient's norm at zero weights. The first radius
    follows from the objective at zero weights. So features multiplied by any factor c, with lambda
    multiplied by c^2, take the same steps.

    Parameters
    ----------
    start
        (n_features,) first weights.
    tol
        The solver ends where the gradient's norm is below `tol` times the norm at zero weights.
    max_iter
        Largest number of steps.

    Returns
    -------
    (n_features,) weights at the minimum, and the number of steps.

    Raises
    ------
    UsageError
        If lambda is far too small or far too large for the features.
    """

    @lru_cache(maxsize=2)  # the present point, and the point that the solver tries
    def point(weights: bytes) -> Point:
        return objective.at(loss, np.frombuffer(weights).copy())

    zero = point(np.zeros_like(start).tobytes())
    unit = float(np.linalg.norm(zero.gradient))
    if unit == 0.0:
        return np.zeros_like(start), 0
    check_proportion(objective.regularization, unit)

    def evaluate(weights: Array) -> tuple[float, Array]:
        there = point(weights.tobytes())
        return there.value / unit, there.gradient / unit

    def multiply(weights: Array, direction: Array) -> Array:
        return objective.curvature(loss, point(weights.tobytes()).tangents, direction) / unit

    steps = count(1)
    # Outside of the ball of this radius every point is worse than zero weights.
    radius = float(np.sqrt(2.0 * zero.value / objective.regularization))
    found = optimize.minimize(
        evaluate,
        start,
        jac=True,
        hessp=multiply,
        method="trust-ncg",
        callback=lambda _: report("newton", next(steps), None, **objective.moved),
        options={
            "gtol": tol,
            "maxiter": max_iter,
            "initial_trust_radius": 0.25 * float(np.linalg.norm(start)) or radius,
            "max_trust_radius": 2.0 * radius,
        },
    )
    # With status 2 the solver stopped because rounding hides any further descent: no warning.
    if found.status == 1:
        warnings.warn(
            f"not at the minimum after {max_iter} steps; scale the features, or raise "
            "max_iter, tol or regularization.",
            ConvergenceWarning,
            stacklevel=3,
        )
    weights: Array = found.x
    return weights, int(found.nit)


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
