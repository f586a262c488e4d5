"""Gram rows of whole blocks, kept for later: all of them computed, weighted, summed.

What is kept has no query weights, so that these may change without the documents. What is read
back is what `gram_rows` finds in the documents, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.gram.per_query import gram_rows
from dranking.kernels.machine.compile import kernel

Array = NDArray[np.float64]

ROWS_AT_ONCE = 32
"""Gram rows computed in one pass over a block that is in memory."""


def all_gram_rows(features: Any, query_ptr: NDArray[np.int64], means: Array) -> Array:
    """A_q[i, :] for every feature and query, without query weights.

    Parameters
    ----------
    features, query_ptr, means
        As in `dranking.kernels.gram.per_query.gram_rows`.

    Returns
    -------
    (n_features, n_queries, n_features) float64. Of sparse features, which are centred on one side
    of the product alone, rounding tells A_q[i, j] from A_q[j, i].
    """
    n_queries, n = len(query_ptr) - 1, features.shape[1]
    rows = np.empty((n, n_queries, n))
    for first in range(0, n, ROWS_AT_ONCE):
        wanted = np.arange(first, min(first + ROWS_AT_ONCE, n))
        gram_rows(features, query_ptr, np.ones(n_queries), means, wanted, wanted, rows)
    return rows


@kernel
def add_weighted(kept: Array, weights: Array, row: Array, total: Array) -> None:
    """Overwrite a row with what `gram_rows` finds, from the row that is kept.

    Parameters
    ----------
    kept, row
        (n_queries, n_features), without weights and with them.
    weights
        (n_queries,) of the queries.
    total
        (n_features,) to which the weighted row is added, query by query.
    """
    for q in range(len(weights)):
        weight = weights[q]
        for j in range(len(total)):
            row[q, j] = weight * kept[q, j]
            total[j] += row[q, j]
