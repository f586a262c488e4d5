"""Gram rows of whole blocks, kept for later: all of them computed, weighted, summed.

What is kept has no query weights, so that these may change without the documents. What is read
back is what `gram_rows` finds in the documents, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import frozen, kernel
from dranking.kernels.gram import gram_rows

Array = NDArray[np.float64]

ROWS_AT_ONCE = 32
"""Gram rows computed in one pass over a block that is in memory."""


def all_gram_rows(features: Any, query_ptr: NDArray[np.int64], means: Array) -> Array:
    """A_q[i, :] for every feature and query, without query weights.

    Parameters
    ----------
    features, query_ptr, means
        As in `dranking.kernels.gram.gram_rows`.

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


def weighted_rows(
    kept: Array, query_weights: Array, slots: NDArray[np.int64], rows: Array
) -> Array:
    """What `dranking.kernels.gram.gram_rows` does, from rows that are kept.

    Parameters
    ----------
    kept
        (J, n_queries, n_features) float64 rows without weights.
    query_weights
        (n_queries,) float64.
    slots, rows
        As in `gram_rows`; `rows[slots]` is overwritten.

    Returns
    -------
    (J, n_features) float64 sums of the rows over the queries, in order.
    """
    totals = np.zeros((len(kept), rows.shape[2]))
    _weighted_rows(frozen(kept), frozen(query_weights), frozen(slots), rows, totals)
    return totals


@kernel
def _weighted_rows(
    kept: Array, weights: Array, slots: NDArray[np.int64], rows: Array, totals: Array
) -> None:
    for k in range(len(kept)):
        total = totals[k]
        for q in range(len(weights)):
            row, weight = rows[slots[k], q], weights[q]
            for j in range(len(total)):
                row[j] = weight * kept[k, q, j]
                total[j] += row[j]
