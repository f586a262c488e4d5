"""Average precision, whose mean over queries is MAP."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking


def average_precision(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """Mean of P@i over the ranks i of the relevant documents; `cutoff` is not used.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.

    Notes
    -----
    In the average over the permutations of tied documents, a group of n documents, r of them
    relevant, that follows N documents, R of them relevant, adds to the sum of precisions
    ``sum_{j=1..n} (r / n) (R + 1 + (j - 1) (r - 1) / (n - 1)) / (N + j)``, with the last fraction 0
    if n = 1.

    References
    ----------
    McSherry and Najork, Computing information retrieval performance measures efficiently in the
    presence of tied scores, ECIR 2008.
    """
    total = kernels.precision_sums(ranking.found, ranking.group_end, ranking.query_ptr)
    return ranking.settle(total / np.maximum(ranking.n_relevant, 1.0), ranking.has_relevant)
