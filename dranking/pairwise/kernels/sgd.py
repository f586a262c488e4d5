"""Stochastic gradient steps on pairs of documents, O(nonzeros of the pair) each.

The weights are w = s v with a scalar s, so that the decay of w changes s alone. For the sum of the
iterates, each `v += d` comes with `u += S d`, where S is the sum of s over the past iterates that
count; then the sum of these iterates is S v - u (Pegasos: Shalev-Shwartz et al. 2007; Sculley 2009;
Tsivtsivadze et al. 2012).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.machine.floats import EPSILON
from dranking.pairwise.kernels.differences import (
    Rows,
    add,
    dot,
    entry_ranges,
    squared_norm,
    subtract,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

HINGE, SQUARED_HINGE, LOGISTIC, SQUARED, MARGIN_HINGE = range(5)

SMALLEST_SCALE = 1e-4
"""Below this scale s is multiplied into v: S v - u loses as many digits as s has zeros."""

BOUNDED_PAIRS = 256
"""In batches of at most so many pairs, the rounding of every pair is bounded. In larger ones,
evenly spaced pairs stand for all, at least half as many as this."""


class Steps(NamedTuple):
    """Loss and lengths of the steps.

    Attributes
    ----------
    loss
        `HINGE`, `SQUARED_HINGE`, `LOGISTIC`, `SQUARED`, or `MARGIN_HINGE`: the hinge with the
        label as margin.
    regularization
        lambda.
    inverse_eta0
        Step t has the length 1 / (lambda t + inverse_eta0); 0 means pure Pegasos.
    radius
        Weights outside the ball of this radius are projected onto the ball; infinity means none.
    average_from
        Iterates after this step are added to the sum of iterates.
    """

    loss: int
    regularization: float
    inverse_eta0: float
    radius: float
    average_from: int


class Batch(NamedTuple):
    """Pairs in the order of the steps: (n_pairs,) rows of both documents, and labels."""

    better: Ints
    worse: Ints
    labels: Array


class Iterate(NamedTuple):
    """(n_features,) weights w, and (n_features,) sum of the iterates after `average_from`."""

    weights: Array
    total: Array


class Sums(NamedTuple):
    """Vectors v and u of the module's docstring, (n_features,) each."""

    v: Array
    u: Array


@part
def loss_and_slope(loss: int, y: float, f: float) -> tuple[float, float]:
    """Loss of the difference of scores f for the label y, and minus the derivative of the loss."""
    gap = 1.0 - y * f
    if loss == SQUARED:
        value, slope = 0.5 * (y - f) * (y - f), y - f
    elif loss == MARGIN_HINGE:
        value, slope = max(y - f, 0.0), 1.0 if y > f else 0.0
    elif loss == LOGISTIC:
        small = np.exp(-abs(y * f))  # never overflows
        value = max(-y * f, 0.0) + np.log1p(small)
        slope = y * (small if y * f > 0.0 else 1.0) / (1.0 + small)
    elif gap <= 0.0:
        value, slope = 0.0, 0.0
    elif loss == SQUARED_HINGE:
        value, slope = gap * gap, 2.0 * y * gap
    else:
        value, slope = gap, y
    return value, slope


@kernel
def collect(sums: Sums, scale: float, scales: float, total: Array) -> None:
    """Add S v - u to the sum of iterates, multiply s into v, zero u; callers reset s and S."""
    v, u = sums.v, sums.u
    for i in range(len(v)):
        total[i] += scales * v[i] - u[i]
        v[i] *= scale
        u[i] = 0.0


@kernel
def pair_steps(rows: Rows, batch: Batch, steps: Steps, t: int, iterate: Iterate) -> float:
    """Take one step on each pair of a batch.

    Parameters
    ----------
    t
        Number of steps taken before.
    iterate
        Weights, and sum of iterates; overwritten.

    Returns
    -------
    Sum of the losses, each before its step; NaN as soon as a difference of scores is not finite.
    """
    radius = steps.radius
    v, total = iterate
    sums = Sums(v, np.zeros(len(v)))
    s, sum_s, losses = 1.0, 0.0, 0.0
    norm = squared_norm(v, 0, len(v)) if radius < np.inf else 0.0  # squared norm of v
    for k in range(len(batch.better)):
        t += 1
        n = subtract(rows, batch.better[k], batch.worse[k])
        product = dot(rows, 0, n, v)
        if not np.isfinite(s * product):
            return np.nan
        value, slope = loss_and_slope(steps.loss, batch.labels[k], s * product)
        losses += value
        inverse = steps.regularization * t + steps.inverse_eta0  # 1 / step length
        # In the first step of pure Pegasos the factor would be zero; w is zero then anyway.
        if inverse > steps.regularization:
            s *= 1.0 - steps.regularization / inverse
        if slope != 0.0:
            c = np.divide(slope, inverse * s)  # infinite, where `/` would raise an error
            add(rows, 0, n, c, v)
            if sum_s > 0.0:
                add(rows, 0, n, c * sum_s, sums.u)
            if radius < np.inf:
                norm += c * (2.0 * product + c * squared_norm(rows.values, 0, n))
        if radius < np.inf and s * s * norm > radius * radius:
            s = radius / np.sqrt(norm)
        if t > steps.average_from:
            sum_s += s
        if s < SMALLEST_SCALE:
            collect(sums, s, sum_s, total)
            norm *= s * s
            s, sum_s = 1.0, 0.0
    collect(sums, s, sum_s, total)
    return losses


@kernel
def pair_losses(
    rows: Rows, batch: Batch, masses: Array, loss: int, weights: Array, sizes: Array
) -> tuple[float, float, float, float]:
    """Sums of the losses of a batch, with masses as weights.

    A difference of scores <p, w> is rounded by a few epsilon times the sum of |p_i w_i|, and a
    convex loss then changes by at most the steeper of its slopes at both ends. In batches of
    more than `BOUNDED_PAIRS` pairs, evenly spaced pairs stand for all pairs, so that the bound is
    an estimate there. Weights and labels count as exact.

    Parameters
    ----------
    rows, batch, loss
        The pairs, and the code of their loss.
    masses
        (n_pairs,) mass of each pair.
    weights, sizes
        (n_features,) w and |w|.

    Returns
    -------
    Sum of mass times loss at w, the same at zero weights, a bound of the rounding of the first, and
    the sum at w of mass times squared loss.
    """
    n_pairs = len(batch.better)
    step = 1 + (n_pairs - 1) // BOUNDED_PAIRS
    losses, without, squares = 0.0, 0.0, 0.0
    rounding, mass, bounded = 0.0, 0.0, 0.0
    for k in range(n_pairs):
        n = subtract(rows, batch.better[k], batch.worse[k])
        label, score = batch.labels[k], dot(rows, 0, n, weights)
        value, _ = loss_and_slope(loss, label, score)
        losses += masses[k] * value
        squares += masses[k] * value * value
        mass += masses[k]
        if k % step == 0:
            for i in range(n):
                rows.values[i] = abs(rows.values[i])
            moved = EPSILON * ((n + 4) * dot(rows, 0, n, sizes) + abs(label))
            _, left = loss_and_slope(loss, label, score - moved)
            _, right = loss_and_slope(loss, label, score + moved)
            steeper = max(abs(left), abs(right))
            rounding += masses[k] * (moved * steeper + 8.0 * EPSILON * value)
            bounded += masses[k]
        value, _ = loss_and_slope(loss, label, 0.0)
        without += masses[k] * value
    if bounded > 0.0:
        rounding *= mass / bounded
    return losses, without, rounding + n_pairs * EPSILON * losses, squares


@kernel
def largest_norms(rows: Rows, batch: Batch, ptr: Ints) -> Array:
    """(n_groups,) largest |p|^2 over a batch, for each group of adjacent columns of p.

    `ptr` (n_groups + 1,) holds the first column of each group, then the number of columns.
    """
    largest = np.zeros(len(ptr) - 1)
    ranges = np.empty_like(ptr)
    for k in range(len(batch.better)):
        n = subtract(rows, batch.better[k], batch.worse[k])
        entry_ranges(rows.columns, n, ptr, ranges)
        for m in range(len(largest)):
            norm = squared_norm(rows.values, ranges[m], ranges[m + 1])
            largest[m] = max(largest[m], norm)
    return largest
