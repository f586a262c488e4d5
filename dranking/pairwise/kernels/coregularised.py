"""The steps of LCRA: views learn from labelled pairs, and are drawn together on unlabelled ones.

A pair is the difference p = x_a - x_b of two documents of one query. With w_m the weights of view
m, p_m the entries of p in the view and f_m = <w_m, p_m>, the objective of steps on k labelled and
l unlabelled pairs is

    sum_m (k mean_labelled loss(y, f_m) + lambda / 2 |w_m|^2)
        + l mu sum_{m, n} mean_unlabelled (f_m - f_n)^2.

A step of length eta, in `coregularised_steps`:

1. `label_slopes`: slopes of the loss at the labelled pairs, all at the weights before the step;
2. the decay ``w_m <- (1 - eta lambda) w_m``, and `add_labelled`:
   ``w_m <- w_m - eta sum_labelled loss'(y, f_m) p_m``;
3. `coregularise`, for one unlabelled pair after the other: the proximal step of the disagreement;
4. the sum of the iterates for the average.

The weights of all views lie side by side in one vector w = s v, scaled as in `sgd`; view m holds
the adjacent columns `view_ptr[m]` to `view_ptr[m + 1]`, so f_m is a sum over a range of the entries
of p.

Tsivtsivadze, Hofmann, Heskes: Large scale co-regularized ranking, 2012, equation 2 and algorithm 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.pairwise.kernels.differences import (
    Rows,
    add,
    dot,
    entry_ranges,
    squared_norm,
    subtract,
)
from dranking.pairwise.kernels.sgd import (
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
    """The views, and how they learn.

    Attributes
    ----------
    ptr
        (n_views + 1,) first column of each view, then the number of columns.
    k
        Labelled pairs of a step.
    strength
        4 mu n_views; times eta, the strength of the co-regularisation in a step.
    """

    ptr: Ints
    k: int
    strength: float


class Workspace(NamedTuple):
    """Arrays that each step overwrites.

    Attributes
    ----------
    slopes
        (k, n_views) minus the derivatives of the loss at the labelled pairs.
    ranges
        (n_views + 1,) first entry of each view among the entries of a difference.
    scores, damping
        (n_views,) f_m and d_m of `coregularise`.
    """

    slopes: Array
    ranges: Ints
    scores: Array
    damping: Array


@part
def label_slopes(
    rows: Rows,
    batch: Batch,
    first: int,
    loss: int,
    ptr: Ints,
    scale: float,
    v: Array,
    work: Workspace,
) -> float:
    """Overwrite the slopes with the slopes of k pairs, `first` and following, at w = scale v.

    Returns the sum of the losses over the pairs and the views.
    """
    slopes, ranges = work.slopes, work.ranges
    losses = 0.0
    for j in range(len(slopes)):
        n = subtract(rows, batch.better[first + j], batch.worse[first + j])
        entry_ranges(rows.columns, n, ptr, ranges)
        for m in range(len(ptr) - 1):
            f = scale * dot(rows, ranges[m], ranges[m + 1], v)
            value, slopes[j, m] = loss_and_slope(loss, batch.labels[first + j], f)
            losses += value
    return losses


@part
def add_labelled(
    rows: Rows,
    batch: Batch,
    first: int,
    ptr: Ints,
    divisor: float,
    sum_s: float,
    sums: Sums,
    work: Workspace,
) -> None:
    """Add slope / divisor times p_m to v, for k labelled pairs and all views.

    `divisor` is s / eta: the change of v is the change of w divided by s. `u` changes as the
    docstring of `sgd` says.
    """
    slopes, ranges = work.slopes, work.ranges
    for j in range(len(slopes)):
        n = subtract(rows, batch.better[first + j], batch.worse[first + j])
        entry_ranges(rows.columns, n, ptr, ranges)
        for m in range(len(ptr) - 1):
            if slopes[j, m] != 0.0:
                c = np.divide(slopes[j, m], divisor)
                add(rows, ranges[m], ranges[m + 1], c, sums.v)
                if sum_s > 0.0:
                    add(rows, ranges[m], ranges[m + 1], c * sum_s, sums.u)


@part
def coregularise(
    rows: Rows, strength: float, scale: float, sum_s: float, sums: Sums, work: Workspace
) -> None:
    """Take the proximal co-regularisation step on the difference in memory; O(entries).

    The step of length eta for the disagreement ``mu sum_{m, n} (f_m - f_n)^2``, over ordered pairs
    of views. With ``strength = 4 mu eta n_views`` the step is

        d_m = 1 / (1 + strength |p_m|^2),  fbar = sum_m d_m f_m / sum_m d_m,
        w_m -= strength d_m (f_m - fbar) p_m,

    which is stable for every strength, unlike the explicit gradient step.
    """
    ranges, scores, damping = work.ranges, work.scores, work.damping
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
    """Take steps, each on k labelled and l unlabelled pairs; see the module's docstring.

    There is no projection. A step costs O((k + l) entries of a pair), whatever the number of views.

    Parameters
    ----------
    batch, others
        Labelled pairs, k for each step, and unlabelled pairs, l for each step; the labels of the
        unlabelled pairs are not read.
    t
        Number of steps taken before.
    iterate
        Weights, and sum of iterates; overwritten.

    Returns
    -------
    Sum of the losses over labelled pairs and views, each before its step; NaN if the steps diverge.
    """
    v, total = iterate
    k, n_steps = views.k, len(batch.better) // views.k
    n_others = len(others.better) // max(n_steps, 1)
    n_views = len(views.ptr) - 1
    work = Workspace(
        np.empty((k, n_views)), np.empty_like(views.ptr), np.empty(n_views), np.empty(n_views)
    )
    sums = Sums(v, np.zeros(len(v)))
    s, sum_s, losses = 1.0, 0.0, 0.0
    for step in range(n_steps):
        t += 1
        inverse = steps.regularization * t + steps.inverse_eta0  # 1 / eta
        losses += label_slopes(labelled, batch, step * k, steps.loss, views.ptr, s, v, work)
        if not np.isfinite(losses):
            return np.nan
        if inverse > steps.regularization:
            s *= 1.0 - steps.regularization / inverse
        add_labelled(labelled, batch, step * k, views.ptr, inverse * s, sum_s, sums, work)
        for j in range(step * n_others, (step + 1) * n_others):
            n = subtract(unlabelled, others.better[j], others.worse[j])
            entry_ranges(unlabelled.columns, n, views.ptr, work.ranges)
            coregularise(unlabelled, views.strength / inverse, s, sum_s, sums, work)
        if t > steps.average_from:
            sum_s += s
        if s < SMALLEST_SCALE:
            collect(sums, s, sum_s, total)
            s, sum_s = 1.0, 0.0
    collect(sums, s, sum_s, total)
    return losses
