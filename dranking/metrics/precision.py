"""Precision among the first documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.kernels import metrics as kernels
from dranking.metrics.ranking import Ranking


def precision(ranking: Ranking, cutoff: int) -> NDArray[np.float64]:
    """Number of relevant documents among the first `cutoff`, divided by `cutoff`.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.

    Notes
    -----
    In the average over the permutations of tied documents, each rank of a tie group counts the
    group's fraction of relevant documents.
    """
    expected = kernels.group_means(ranking.relevant, ranking.group_end)
    k = ranking.ranks_within(cutoff)
    values = kernels.discounted_sums(expected, ranking.query_ptr, np.ones(k), k) / cutoff
    if not ranking.convention.precision_pads:
        values[ranking.sizes < cutoff] = 0.0
    return ranking.settle(values, ranking.has_relevant)
