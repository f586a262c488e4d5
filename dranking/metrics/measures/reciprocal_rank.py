"""Reciprocal rank of the first relevant document, whose mean over queries is MRR."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking


def reciprocal_rank(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """One over the rank of the first relevant document; 0 if the rank exceeds `cutoff`.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.

    Notes
    -----
    In the average over the permutations of tied documents, the first tie group with relevant
    documents decides. With r of the group's n documents relevant and N documents before the group,
    the value is ``sum_{j=1..n-r+1} C(n - j, r - 1) / C(n, r) / (N + j)``; the first fraction is the
    probability that the first relevant document is at place j of the group.
    """
    values = kernels.reciprocal_ranks(
        ranking.found, ranking.group_end, ranking.query_ptr, ranking.ranks_within(cutoff)
    )
    return ranking.settle(values, ranking.has_relevant)
