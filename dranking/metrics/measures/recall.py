"""Recall among the first documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.ranking import Ranking


def recall(ranking: Ranking, cutoff: int) -> NDArray[np.float64]:
    """Share of the query's relevant documents that are among the first `cutoff`.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.

    Notes
    -----
    In the average over the permutations of tied documents, each rank of a tie group counts the
    group's fraction of relevant documents.
    """
    found = ranking.relevant_within(cutoff)
    return ranking.settle(found / np.maximum(ranking.n_relevant, 1.0), ranking.has_relevant)
