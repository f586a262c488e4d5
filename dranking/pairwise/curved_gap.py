"""The distance of squared hinges from their minimum, by the curvature that pairs keep near a point.

A duality gap ``|g|^2 / (2 lambda)`` counts the rounding of the gradient g in columns of huge values
as if lambda alone held their weights. Pairs that are far from the corner of their hinge hold them,
too: with the second derivative H of these pairs and lambda, the minimum is at most ``g'H^-1 g / 2``
below the objective, if no point as near as that, in the norm of H, takes any of these pairs past
its corner (``dranking/pairwise/THEORY.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dranking.pairwise.losses import PairLoss
from dranking.pairwise.newton import newton_step
from dranking.pairwise.objective import PairwiseObjective

Array = NDArray[np.float64]

ROOM = 10.0
"""Distance from the corner of pairs that count, as a multiple of what the first estimate of the
decrement asks for."""

ATTEMPTS = 4
"""Largest number of distances from the corner that are tried."""

REFINEMENTS = 5
"""Largest number of Newton steps whose sum cancels the gradient, of which each adds digits."""


def curved_gap(
    objective: PairwiseObjective, loss: PairLoss, weights: Array, decrement: float
) -> float:
    """An upper bound of the distance of an objective from its minimum; infinite if none is known.

    Parameters
    ----------
    weights
        (n_features,) weights near the minimum.
    decrement
        An estimate of half the squared Newton decrement, which the bound would be.
    """
    spread = 2.0 * float(objective.largest_distances @ np.abs(weights))
    curvature = loss.kept * loss.least_curvature(spread) * objective.least_weight()
    if not curvature > 0.0:
        return math.inf
    # A pair whose part of H is c p p' / n_pairs is at most this long in the norm of H, squared.
    longest = objective.n_pairs / curvature
    rounding = 2.0 * objective.score_rounding(weights)
    distance = ROOM * math.sqrt(8.0 * decrement * longest) + 2.0 * rounding
    gradient = objective.at(loss, weights).gradient
    for _ in range(ATTEMPTS):
        inner = loss.within(distance)
        if inner is None:
            break
        tangents = objective.at(inner, weights).tangents
        bound = _lowest_bound(objective, gradient, partial(objective.curvature, inner, tangents))
        bound /= loss.kept
        reach = math.sqrt(8.0 * max(bound, 0.0) * longest) + rounding
        if reach <= distance:
            return max(bound, 0.0)
        distance = 2.0 * reach
    return math.inf


def _lowest_bound(
    objective: PairwiseObjective, gradient: Array, multiply: Callable[[Array], Array]
) -> float:
    """The least of some upper bounds of ``g'H^-1 g / 2``, where H is at least lambda.

    With any step d and the rest r = g + H d, the bound is ``-d'(g + r) / 2 + |r|^2 / (2 lambda)``.
    """
    within, least = objective.coordinates, math.inf
    step, rest = np.zeros_like(gradient), gradient
    for _ in range(REFINEMENTS):
        more, _ = newton_step(
            within.gradient(rest),
            lambda direction: within.gradient(multiply(within.weights(direction))),
            0.0,
        )
        step = step + within.weights(more)
        rest = gradient + multiply(step)
        bound = float(rest @ rest) / (2.0 * objective.regularization)
        bound -= 0.5 * float(step @ (gradient + rest))
        if not bound < 0.5 * least:
            break
        least = bound
    return least
