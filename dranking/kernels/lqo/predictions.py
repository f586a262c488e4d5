"""What documents score while their query is held out, after every round of greedy RankRLS."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.lqo.pivots import solve_lower, solve_upper
from dranking.kernels.machine.compile import kernel

Array = NDArray[np.float64]


@kernel
def held_out_weights(factors: Array, left_out: Array, weights: Array) -> None:
    """Overwrite `weights` with those of every query held out, for every size of the selection.

    Parameters
    ----------
    factors
        (n_groups, at least t (t + 1) / 2, lanes) packed Cholesky factors of M_q[S, S].
    left_out
        (n_queries, t) c_q[S], the products b[S] without the query's own.
    weights
        (n_queries, t, t): row j holds the weights of the first j + 1 features, fitted to all
        queries but q; what is behind them stays.
    """
    t, lanes = left_out.shape[1], factors.shape[2]
    eliminated = np.zeros((t, lanes))
    for group in range(len(factors)):
        queries = range(group * lanes, min((group + 1) * lanes, len(left_out)))
        for q in queries:
            eliminated[:, q % lanes] = left_out[q]
        solve_lower(factors[group], eliminated, t)
        for size in range(1, t + 1):
            # The factor of the first features is the corner of the factor of all.
            solved = eliminated[:size].copy()
            solve_upper(factors[group], solved, size)
            for q in queries:
                weights[q, size - 1, :size] = solved[:, q % lanes]


@kernel
def held_out_scores(
    features: NDArray[np.float32],
    query_ptr: NDArray[np.int64],
    weights: Array,
    scores: Array,
) -> None:
    """Overwrite `scores` (t, n_documents) with what documents score while their query is held out.

    Each score is summed document by document in the order of selection, so that equal documents
    tie exactly.

    Parameters
    ----------
    features
        (n_documents, t) columns of S, in its order.
    weights
        (n_queries, t, t) as of `held_out_weights`.
    """
    for q in range(len(query_ptr) - 1):
        for d in range(query_ptr[q], query_ptr[q + 1]):
            for size in range(len(scores)):
                total = 0.0
                for j in range(size + 1):
                    total += weights[q, size, j] * features[d, j]
                scores[size, d] = total
