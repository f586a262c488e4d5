"""The regularised mean of a loss over all pairs, and its derivatives, summed over blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, Task
from dranking.engine.tile_tasks import Literal as Same
from dranking.engine.tiles import Tiles
from dranking.models.linear.pairs_to_learn import no_pair
from dranking.pairwise.coordinates import Coordinates, coordinates_of
from dranking.pairwise.losses import (
    PairLoss,
    PairTargets,
    Shortfalls,
    curvature_of_model,
    hinge_of_pairs,
    least_weight_of,
    loss_of_model,
    pair_targets,
    shortfalls_of,
)
from dranking.rankrls.kernels.relative_products import largest_distances

Array = NDArray[np.float64]

SAFETY = 16.0
"""Largest number of roundings of a sum that are counted: most of many cancel."""


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
        The executor that reads the blocks and computes the sums.
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
            raise no_pair(dataset)

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

    def hinge_risk(self, weights: Array) -> tuple[float, Array]:
        """Mean of the plain hinge over P, and a subgradient (n_features,)."""
        value, slopes = self._tiles.sum_map(
            hinge_of_pairs, self._targets, Same(weights), name="hinge"
        )
        return float(value) / self.n_pairs, slopes / self.n_pairs

    @cached_property
    def largest_distances(self) -> Array:
        """(n_features,) largest |x|, of far columns relative to their medians.

        The first access takes one pass.
        """
        return largest_distances_of(self._tiles, self._targets)

    def least_weight(self) -> float:
        """Least weight of a query above 0."""
        return float(self._tiles.least(least_weight_of, self._targets, name="weights")[0])

    def score_rounding(self, weights: Array) -> float:
        """Estimated bound of the rounding of a score by some weights (n_features,)."""
        terms = 0.5 * min(len(weights) + 1.0, SAFETY)  # each rounds by half of epsilon at most
        return terms * float(np.finfo(float).eps) * float(self.largest_distances @ np.abs(weights))

    def value_rounding(self, weights: Array, value: float) -> float:
        """Estimated bound of the rounding of the objective's value at some weights (n_features,).

        The mean of a hinge or a logistic loss changes by at most the change of the differences of
        scores, and that of squared hinges by that times twice the mean hinge.
        """
        slope = max(1.0, 2.0 * math.sqrt(value))
        sums = SAFETY * float(np.finfo(float).eps) * value
        return 2.0 * slope * self.score_rounding(weights) + sums

    def shortfalls(self, tangents: Sequence[Task], width: float) -> Shortfalls:
        """Means over P at the point of tangents of a sum of hinges; no feature is read."""
        found = self._tiles.map_values(
            shortfalls_of, self._targets, tangents, Same(width), name="shortfalls"
        )
        sums = self._tiles.sum(found, tuple, "shortfalls")
        return Shortfalls(*(value / self.n_pairs for value in sums))

    def at(self, loss: PairLoss, weights: Array) -> Point:
        """The objective with a loss, at some weights (n_features,)."""
        points = self._tiles.map_blocks(
            loss_of_model, self._targets, Same(weights), Same(loss), name="loss"
        )
        value, gradient = self._tiles.sum(points, value_and_gradient, "loss")
        # No loss is below 0: the sum of differences of large numbers rounds.
        return Point(
            max(float(value), 0.0) / self.n_pairs
            + 0.5 * self.regularization * float(weights @ weights),
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


def largest_distances_of(tiles: Tiles, targets: list[Task]) -> Array:
    """(n_features,) largest |x|, of far columns relative to their medians; one pass.

    `targets` are tasks whose results have the far columns of the blocks.
    """
    found: Array = -tiles.least(opposite_distances, tiles.data, targets, name="largest")
    return found


def opposite_distances(block: QueryBlock, targets: Any) -> Array:
    """(n_features,) `largest_distances` of one block, times -1."""
    return -largest_distances(block.features, block.query_ptr, targets.far)


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
