"""The training loop of LCRA, from its objective to its steps.

The features are divided into M views with weights w_v. A pair is the difference p = x_a - x_b of
two documents of one query, p_v are its entries in view v, and f_v = <w_v, p_v>. Of a step, k pairs
are labelled (p, y) and l pairs are unlabelled. LCRA minimises

    sum_v [ k mean loss(y, f_v) + lambda / 2 |w_v|^2 ] + l mu sum_{u, v} mean (f_u - f_v)^2

with the mean over labelled pairs first, and over unlabelled pairs last. The loop, with the function
of each line:

    for each epoch:                                                 `training.epochs.run_epochs`
        for each shard, from the same w:                            `Shards.mix`
            for each portion of steps on blocks of the shard:       `CoregularisedEpoch`
                draw k labelled and l unlabelled pairs per step     `SampledBlock.draw`
                for each step, t <- t + 1:                          `coregularised_steps`
                    eta = 1 / (lambda t + 1 / eta0)
                    s_v = -loss'(y, f_v) for each labelled pair     `label_slopes`
                    w_v <- (1 - eta lambda) w_v
                    w_v <- w_v + eta sum_labelled s_v p_v           `add_labelled`
                    for each unlabelled pair in turn:               `coregularise`
                        d_v  = 1 / (1 + 4 mu eta M |p_v|^2)
                        fbar = sum_v d_v f_v / sum_v d_v
                        w_v <- w_v - 4 mu eta M d_v (f_v - fbar) p_v
                    if step t counts: total <- total + w
        w     <- sum over shards of share w                         `PairPlan.run_epoch`
        total <- total + sum over shards of total
    the model is the mean iterate, total / number                   `AveragedState.model`
    and the score of a document is the mean over views              `PairProblem.coef`

`dranking.pairwise.kernels.coregularised` holds the step. The update of an unlabelled pair is the
proximal step of its disagreement in closed form. ``THEORY.md`` has the deviations from the paper:
Tsivtsivadze, Hofmann, Heskes: Large scale co-regularized ranking, 2012, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen
from dranking.pairwise.epochs import AveragedResult, ShardEpoch
from dranking.pairwise.kernels.coregularised import Views, coregularised_steps
from dranking.pairwise.kernels.sgd import Batch, Iterate
from dranking.pairwise.mixing import Segment

Array = NDArray[np.float64]

NO_PAIRS = Batch(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


@dataclass(frozen=True)
class CoregularisedEpoch(ShardEpoch):
    """The epoch of LCRA on one shard: each step draws k labelled and l unlabelled pairs.

    Attributes
    ----------
    views
        The columns of each view, k, and the strength of the co-regularisation.
    n_unlabelled
        l.
    """

    views: Views
    n_unlabelled: int

    def __call__(
        self, segments: Iterator[Segment], weights: Array, t: int, epoch: int
    ) -> AveragedResult:
        """Take steps t + 1, t + 2, ... on the blocks of the shard, from the weights given."""
        k, l = self.views.k, self.n_unlabelled  # noqa: E741 - the paper's names
        views = self.views._replace(ptr=frozen(self.views.ptr))
        n_views = len(views.ptr) - 1
        iterate = Iterate(weights.copy(), np.zeros_like(weights))
        first, losses = t, 0.0
        for blocks, n_steps in self._portions(segments, epoch, pairs_per_step=max(k, l)):
            # With l = 0 there is one source: the labelled rows stand in for the unlabelled rows.
            labelled, unlabelled = blocks[0], blocks[-1]
            pairs = labelled.draw(k * n_steps, self.label)
            others = unlabelled.draw(l * n_steps, "sign") if l else NO_PAIRS
            losses += coregularised_steps(
                labelled.rows, unlabelled.rows, pairs, others, views, self.steps, t, iterate
            ) / (k * n_views)
            t += n_steps
        return self._result(iterate, losses, first, t)
