"""Scores of documents by models fitted without their query, for every size of a selection."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.lqo.pivots import solve_lower, solve_upper

Array = NDArray[np.float64]


@kernel
def held_out_weights(factors: Array, other_products: Array, weights: Array) -> None:
    """Overwrite `weights` with models fitted without each query, for every size of the selection.

    Parameters
    ----------
    factors
        (n_groups, at least t (t + 1) / 2, lanes) packed Cholesky factors of M_q[S, S].
    other_products
        (n_queries, t) c_q[S], the sum of b[S] over all other queries.
    weights
        (n_queries, t, t): row j of query q holds the weights of the first j + 1 features, fitted to
        all queries but q; the entries behind these weights are not written.
    """
    t, lanes = other_products.shape[1], factors.shape[2]
    eliminated = np.zeros((t, lanes))
    for group in range(len(factors)):
        queries = range(group * lanes, min((group + 1) * lanes, len(other_products)))
        for q in queries:
            eliminated[:, q % lanes] = other_products[q]
        solve_lower(factors[group], eliminated, t)
        for size in range(1, t + 1):
            # The factor of the first features is the upper left corner of the factor of all
            # features.
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
    """Overwrite `scores` (t, n_documents) with scores by the models fitted without the query.

    The score of each document is summed on its own in the order of selection, so that equal
    documents tie exactly.

    Parameters
    ----------
    features
        (n_documents, t) columns of S, in the order of selection.
    weights
        (n_queries, t, t) result of `held_out_weights`.
    """
    for q in range(len(query_ptr) - 1):
        for d in range(query_ptr[q], query_ptr[q + 1]):
            for size in range(len(scores)):
                total = 0.0
                for j in range(size + 1):
                    total += weights[q, size, j] * features[d, j]
                scores[size, d] = total
