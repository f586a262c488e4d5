"""All Gram rows of a block, computed once to be stored, and weighted when they are read.

Stored rows do not contain the query weights, so that weights can change without reading the
documents again. A stored row with weights equals, bit for bit, the row that `gram_rows` computes
from the documents.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.gram import dense, sparse

Array = NDArray[np.float64]

ROWS_AT_ONCE = 32
"""Number of Gram rows that are computed in one pass over a block in memory."""


def all_gram_rows(features: Any, query_ptr: NDArray[np.int64], means: Array) -> Array:
    """A_q[i, :] for every feature and query, without query weights.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, C- or F-ordered, or a `csr_array`.
    query_ptr, means
        As in `dranking.rankrls.kernels.gram.dense.gram_rows`.

    Returns
    -------
    (n_features, n_queries, n_features) float64. For sparse features, A_q[i, j] and A_q[j, i] may
    differ by rounding, since the two factors of a product are not centred alike.
    """
    n_queries, n = len(query_ptr) - 1, features.shape[1]
    rows, weights = np.empty((n, n_queries, n)), np.ones(n_queries)
    for first in range(0, n, ROWS_AT_ONCE):
        wanted = np.arange(first, min(first + ROWS_AT_ONCE, n))
        if isinstance(features, np.ndarray):
            dense.gram_rows(features, query_ptr, weights, means, wanted, wanted, rows)
        else:
            sparse.gram_rows(features, query_ptr, weights, wanted, wanted, rows)
    return rows


@kernel
def add_weighted(kept: Array, weights: Array, row: Array, total: Array) -> None:
    """Overwrite a row with the row that `gram_rows` computes, given the stored row.

    Parameters
    ----------
    kept, row
        (n_queries, n_features) stored row without query weights, and row with query weights.
    weights
        (n_queries,) query weights.
    total
        (n_features,) sum to which the weighted row is added, query by query.
    """
    for q in range(len(weights)):
        weight = weights[q]
        for j in range(len(total)):
            row[q, j] = weight * kept[q, j]
            total[j] += row[q, j]
