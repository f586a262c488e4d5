"""Steps of co-regularised ranking: views that learn from labelled pairs and agree on others.

Weights of all views lie side by side in one vector w = s v, as in `sgd` beside it; view m
holds the adjacent columns `view_ptr[m]` to `view_ptr[m + 1]`, so f_m = <w_m, p_m> is a sum over a
range of the entries of p.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import inlined, kernel
from dranking.kernels.pairwise.differences import (
    Rows,
    add,
    dot,
    entry_ranges,
    squared_norm,
    subtract,
)
from dranking.kernels.pairwise.sgd import (
    SMALLEST_SCALE,
    Batch,
    Iterate,
    Steps,
    Sums,
    collect,
    loss_and_slope,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Views(NamedTuple):
    """Where views are, and how they learn.

    Attributes
    ----------
    ptr
        (n_views + 1,) first column of each view, then the number of columns.
    k
        Labelled pairs a step.
    strength
        4 mu n_views.
    """

    ptr: Ints
    k: int
    strength: float


class Room(NamedTuple):
    """Room for what a step computes on its way.

    Attributes
    ----------
    slopes
        (k, n_views) of the labelled pairs.
    ranges
        (n_views + 1,) where the views of a difference begin among its entries.
    scores, damping
        (n_views,) f_m and d_m of an unlabelled pair.
    """

    slopes: Array
    ranges: Ints
    scores: Array
    damping: Array


@inlined
def label_slopes(
    rows: Rows,
    batch: Batch,
    first: int,
    loss: int,
    ptr: Ints,
    scale: float,
    v: Array,
    room: Room,
) -> float:
    """Overwrite the slopes with those at w = scale v, for k pairs of a batch from the first.

    Returns the losses, summed over pairs and views.
    """
    slopes, ranges = room.slopes, room.ranges
    losses = 0.0
    for j in range(len(slopes)):
        n = subtract(rows, batch.better[first + j], batch.worse[first + j])
        entry_ranges(rows.columns, n, ptr, ranges)
        for m in range(len(ptr) - 1):
            f = scale * dot(rows, ranges[m], ranges[m + 1], v)
            value, slopes[j, m] = loss_and_slope(loss, batch.labels[first + j], f)
            losses += value
    return losses


@inlined
def add_labelled(
    rows: Rows,
    batch: Batch,
    first: int,
    ptr: Ints,
    length: float,
    sum_s: float,
    sums: Sums,
    room: Room,
) -> None:
    """Add slope over `length` times pair, for k labelled pairs, view by view."""
    slopes, ranges = room.slopes, room.ranges
    for j in range(len(slopes)):
        n = subtract(rows, batch.better[first + j], batch.worse[first + j])
        entry_ranges(rows.columns, n, ptr, ranges)
        for m in range(len(ptr) - 1):
            if slopes[j, m] != 0.0:
                c = np.divide(slopes[j, m], length)
                add(rows, ranges[m], ranges[m + 1], c, sums.v)
                if sum_s > 0.0:
                    add(rows, ranges[m], ranges[m + 1], c * sum_s, sums.u)


@inlined
def agree(rows: Rows, strength: float, scale: float, sum_s: float, sums: Sums, room: Room) -> None:
    """Take the implicit co-regularisation step on the difference at hand; O(entries).

    The proximal step of length eta for the disagreement, ``mu sum_{m, n} (f_m - f_n)^2`` over
    ordered pairs of views. With ``strength = 4 mu eta n_views`` it is

        d_m = 1 / (1 + strength |p_m|^2),  fbar = sum_m d_m f_m / sum_m d_m,
        w_m -= strength d_m (f_m - fbar) p_m,

    which no strength makes unstable, unlike the explicit step.
    """
    ranges, scores, damping = room.ranges, room.scores, room.damping
    n_views = len(scores)
    sum_d, sum_df = 0.0, 0.0
    for m in range(n_views):
        f = scale * dot(rows, ranges[m], ranges[m + 1], sums.v)
        norm = squared_norm(rows.values, ranges[m], ranges[m + 1])
        d = np.divide(1.0, 1.0 + strength * norm)  # `/` checks for zero each time
        scores[m], damping[m] = f, d
        sum_d += d
        sum_df += d * f
    mean = np.divide(sum_df, sum_d)
    for m in range(n_views):
        c = np.divide(strength * damping[m] * (mean - scores[m]), scale)
        add(rows, ranges[m], ranges[m + 1], c, sums.v)
        if sum_s > 0.0:
            add(rows, ranges[m], ranges[m + 1], c * sum_s, sums.u)


@kernel
def coregularised_steps(
    labelled: Rows,
    unlabelled: Rows,
    batch: Batch,
    others: Batch,
    views: Views,
    steps: Steps,
    t: int,
    iterate: Iterate,
) -> float:
    """Take a step on each k labelled pairs and their share of the unlabelled ones.

    All views of a step see the weights of the step before: first decay and labelled pairs, then
    the unlabelled pairs one by one. There is no projection.

    Parameters
    ----------
    batch, others
        Labelled and unlabelled pairs (labels not read): k of the first and l of the second for
        each step.
    t
        Steps taken before.
    iterate
        Overwritten.

    Returns
    -------
    Losses summed over pairs and views; NaN if the steps diverge.
    """
    v, total = iterate
    k, n_steps = views.k, len(batch.better) // views.k
    n_others = len(others.better) // max(n_steps, 1)
    n_views = len(views.ptr) - 1
    room = Room(
        np.empty((k, n_views)), np.empty_like(views.ptr), np.empty(n_views), np.empty(n_views)
    )
    sums = Sums(v, np.zeros(len(v)))
    s, sum_s, losses = 1.0, 0.0, 0.0
    for step in range(n_steps):
        t += 1
        inverse = steps.regularization * t + steps.inverse_eta0  # of the step length eta
        losses += label_slopes(labelled, batch, step * k, steps.loss, views.ptr, s, v, room)
        if not np.isfinite(losses):
            return np.nan
        if inverse > steps.regularization:
            s *= 1.0 - steps.regularization / inverse
        add_labelled(labelled, batch, step * k, views.ptr, inverse * s, sum_s, sums, room)
        for j in range(step * n_others, (step + 1) * n_others):
            n = subtract(unlabelled, others.better[j], others.worse[j])
            entry_ranges(unlabelled.columns, n, views.ptr, room.ranges)
            agree(unlabelled, views.strength / inverse, s, sum_s, sums, room)
        if t > steps.average_from:
            sum_s += s
        if s < SMALLEST_SCALE:
            collect(sums, s, sum_s, total)
            s, sum_s = 1.0, 0.0
    collect(sums, s, sum_s, total)
    return losses
