"""The logistic loss over the pairs of a query with different relevance, pair by pair."""

import numpy as np

from dranking.kernels.machine.compile import kernel
from dranking.pairwise.kernels.pair_sums import Array, Groups


@kernel
def logistic_loss(groups: Groups, scores: Array, slopes: Array) -> float:
    """Weighted sum of ``log(1 + exp(s_b - s_a))`` over all pairs; `slopes` as in `hinge_loss`."""
    ranks, query_ptr = groups.ranks, groups.query_ptr
    loss = 0.0
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        slopes[start:end] = 0.0
        of_query = 0.0
        for a in range(start, end):
            for b in range(start, end):
                if ranks[a] > ranks[b]:
                    gap = scores[a] - scores[b]
                    small = np.exp(-abs(gap))
                    of_query += max(-gap, 0.0) + np.log1p(small)
                    share = groups.weights[q] * (small if gap > 0.0 else 1.0) / (1.0 + small)
                    slopes[a] -= share
                    slopes[b] += share
        loss += groups.weights[q] * of_query
    return loss


@kernel
def logistic_curvature(groups: Groups, scores: Array, direction: Array, out: Array) -> None:
    """Overwrite `out` with the second derivative of `logistic_loss` times a direction."""
    ranks, query_ptr = groups.ranks, groups.query_ptr
    out[:] = 0.0
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        for a in range(start, end):
            for b in range(start, end):
                if ranks[a] > ranks[b]:
                    small = np.exp(-abs(scores[a] - scores[b]))
                    bend = groups.weights[q] * small / ((1.0 + small) * (1.0 + small))
                    change = bend * (direction[a] - direction[b])
                    out[a] += change
                    out[b] -= change
