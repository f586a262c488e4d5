"""Losses over all pairs of documents of a query with different relevance, on one block.

A loss has a value and slopes at the scores, and a second derivative along a direction, all in the
space of scores; the chain rule through the features is the same for every loss.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.kernels.machine.compile import frozen
from dranking.pairwise.kernels import logistic
from dranking.pairwise.kernels import pair_sums as pairs
from dranking.pairwise.kernels.pair_sums import Groups, Tangent
from dranking.pairwise.kernels.shortfalls import hinge_shortfalls
from dranking.rankrls.kernels.far_columns import NOTHING_FAR, Far, far_columns
from dranking.rankrls.kernels.relative_products import relative_times, relative_transposed_times

Array = NDArray[np.float64]


class PairTargets(NamedTuple):
    """The quantities of a block, apart from the scores, from which a loss is computed.

    Attributes
    ----------
    groups
        Grades by rank, queries and their weights.
    n_pairs
        Weighted number of pairs.
    offsets
        (n_documents,) offsets, which are subtracted from the scores before scores are compared; the
        number 0 if there are none.
    margin
        Margin of the hinge.
    far
        The columns of the block that are read relative to their median in each query.
    """

    groups: Groups
    n_pairs: float
    offsets: Array | float = 0.0
    margin: float = 1.0
    far: Far = NOTHING_FAR


class LossAt(NamedTuple):
    """Value and slopes (n_documents,) of a loss, and the tangent for the second derivative."""

    value: float
    slopes: Array
    tangent: Tangent


class PairLoss(Protocol):
    """A loss over the pairs of a block: a sum over the queries of the block."""

    def at(self, scores: Array, groups: Groups) -> LossAt:
        """Value and slopes at the scores."""
        ...

    def curvature(self, tangent: Tangent, groups: Groups, direction: Array) -> Array:
        """(n_documents,) second derivative times a direction."""
        ...

    @property
    def kept(self) -> float:
        """Share of their second derivative that pairs of `within` keep within the distance."""
        ...

    def least_curvature(self, spread: float) -> float:
        """Least second derivative of the pairs of `within`, by the largest difference of scores."""
        ...

    def within(self, distance: float) -> PairLoss | None:
        """The loss, with the second derivative of pairs that keep it within a distance alone."""
        ...


class HingeSum(NamedTuple):
    """A weighted sum of squared hinges, ``sum_m c_m max(0, m - (s_a - s_b))^2``.

    Attributes
    ----------
    margins
        (n_margins, 2) of m and c_m.
    """

    margins: Array

    @property
    def kept(self) -> float:
        """The share of the curvature that pairs keep: all, up to the corner."""
        return 1.0

    def at(self, scores: Array, groups: Groups) -> LossAt:
        """Value and slopes at the scores."""
        tangent = empty_tangent(scores)
        slopes = np.empty(len(scores))
        value = pairs.hinge_loss(groups, self.margins, tangent, slopes)
        return LossAt(value, slopes, tangent)

    def least_curvature(self, spread: float) -> float:
        """The second derivative of a pair that is within the first margin alone."""
        return 2.0 * float(self.margins[0, 1])

    def within(self, distance: float) -> HingeSum | None:
        """The sum whose second derivative counts only pairs apart from all corners by a distance.

        None if no pair can be: a hinge with a rounded corner is curved over its width alone.
        """
        margins = self.margins.copy()
        margins[:, 0] -= np.sign(margins[:, 1]) * distance
        return HingeSum(margins) if (np.diff(margins[:, 0]) < 0.0).all() else None

    def curvature(self, tangent: Tangent, groups: Groups, direction: Array) -> Array:
        """(n_documents,) generalised second derivative times a direction."""
        out = np.empty(len(direction))
        pairs.hinge_curvature(groups, self.margins, tangent, direction, out)
        return out


class Logistic(NamedTuple):
    """Sum of ``log(1 + exp(s_b - s_a))`` over all pairs, weighted; takes O(n_pairs)."""

    @property
    def kept(self) -> float:
        """The share of the curvature that pairs keep over a distance of 1: 2 / e, rounded down.

        The second derivative falls by the factor e at most there.
        """
        return 0.7

    def least_curvature(self, spread: float) -> float:
        """The second derivative at the largest difference of scores, or below."""
        return 0.25 * math.exp(-spread)

    def within(self, distance: float) -> Logistic | None:
        """The loss itself, over distances up to 1."""
        return self if distance <= 1.0 else None

    def at(self, scores: Array, groups: Groups) -> LossAt:
        """Value and slopes at the scores."""
        slopes = np.empty(len(scores))
        value = logistic.logistic_loss(groups, scores, slopes)
        return LossAt(value, slopes, empty_tangent(scores))

    def curvature(self, tangent: Tangent, groups: Groups, direction: Array) -> Array:
        """(n_documents,) second derivative times a direction."""
        out = np.empty(len(direction))
        logistic.logistic_curvature(groups, tangent.scores, direction, out)
        return out


SQUARED_HINGE = HingeSum(np.array([[1.0, 1.0]]))


def smoothed_hinge(width: float, margin: float = 1.0) -> HingeSum:
    """The hinge with its corner rounded over a width.

    ``0`` for x <= 0, ``x^2 / (2 width)`` up to `width`, then ``x - width / 2``, where x is the
    shortfall of the margin: the difference of two squared hinges. The function is at most width / 2
    below the hinge.
    """
    share = 0.5 / width
    return HingeSum(np.array([[margin, share], [margin - width, -share]]))


def empty_tangent(scores: Array) -> Tangent:
    """A tangent that is not computed yet."""
    n = len(scores)
    return Tangent(scores, np.empty(n, dtype=np.int64), np.empty(n))


def pair_targets(block: QueryBlock) -> PairTargets:
    """Ranks of the grades of a block of labelled documents, and how many pairs they make."""
    ranks = pairs.grade_ranks(block.relevance, block.query_ptr)
    counts = pairs.count_pairs(ranks, block.query_ptr)
    groups = Groups(ranks, block.query_ptr, block.weights)
    far = far_columns(block.features, block.query_ptr)
    return PairTargets(groups, float(counts @ block.weights), far=far)


N_NEAR = 64
"""The pairs in the corner of a hinge are listed where a document is in so many of them at most, on
average. Sums of squares would be as fast, and lose the digits of a narrow corner where scores are
far apart."""


class Shortfalls(NamedTuple):
    """Weighted sums over all pairs of a block, or of a data set.

    Attributes
    ----------
    hinge
        Shortfalls x of the margins: the plain hinge.
    corner
        ``x - x^2 / width`` of the shortfalls below the width of a rounded corner.
    squares
        Sum of the squares from whose difference `corner` was computed, 0 if the pairs were listed.
        The rounding of `corner` is about epsilon times this sum.
    """

    hinge: np.float64
    corner: np.float64
    squares: np.float64


def least_weight_of(targets: PairTargets) -> Array:
    """(1,) least weight of a query above 0; infinite if there is none."""
    weights = targets.groups.weights
    return np.array([np.min(weights, where=weights > 0.0, initial=np.inf)])


def shortfalls_of(targets: PairTargets, tangent: Tangent, width: float) -> Shortfalls:
    """The `Shortfalls` of a block at the scores of a tangent, which `HingeSum.at` has filled."""
    sums = np.empty(3)
    groups, there = frozen_groups(targets), frozen_tangent(tangent)
    hinge_shortfalls(groups, targets.margin, width, there, N_NEAR, sums)
    return Shortfalls(*sums)


def hinge_of_pairs(
    block: QueryBlock, targets: PairTargets, weights: Array
) -> tuple[np.float64, Array]:
    """Weighted sum of the plain hinge over all pairs of a block, and a subgradient.

    The subgradient (n_features,) is with respect to the weights of a linear model.
    """
    slopes = np.empty(block.n_documents)
    scores = _scores(block, targets, weights) - targets.offsets
    hinge = pairs.plain_hinge(frozen_groups(targets), targets.margin, frozen(scores), slopes)
    return np.float64(hinge), _slopes(block, targets, slopes)


def loss_of_model(
    block: QueryBlock, targets: PairTargets, weights: Array, loss: PairLoss
) -> tuple[float, Array, Tangent]:
    """Value, gradient (n_features,) and tangent of a loss at the weights of a linear model."""
    scores = _scores(block, targets, weights) - targets.offsets
    value, slopes, tangent = loss.at(scores, frozen_groups(targets))
    return value, _slopes(block, targets, slopes), tangent


def curvature_of_model(
    block: QueryBlock, targets: PairTargets, tangent: Tangent, direction: Array, loss: PairLoss
) -> Array:
    """(n_features,) second derivative with respect to the weights, times a direction."""
    along = _scores(block, targets, direction)
    bend = loss.curvature(frozen_tangent(tangent), frozen_groups(targets), along)
    return _slopes(block, targets, bend)


def _scores(block: QueryBlock, targets: PairTargets, weights: Array) -> Array:
    """(n_documents,) scores by the weights of a linear model, up to a constant of each query."""
    return relative_times(block.features, block.query_ptr, targets.far, weights)


def _slopes(block: QueryBlock, targets: PairTargets, slopes: Array) -> Array:
    """(n_features,) slopes by the weights; slopes by scores sum to 0 in each query."""
    return relative_transposed_times(block.features, block.query_ptr, targets.far, slopes)


def frozen_tangent(tangent: Tangent) -> Tangent:
    """The tangent with read-only arrays: kernels are compiled for read-only arrays alone."""
    return Tangent(frozen(tangent.scores), frozen(tangent.order), frozen(tangent.numbers))


def frozen_groups(targets: PairTargets) -> Groups:
    """The groups with read-only arrays: kernels are compiled for read-only arrays alone."""
    ranks, query_ptr, weights = targets.groups
    return Groups(frozen(ranks), frozen(query_ptr), frozen(weights))
