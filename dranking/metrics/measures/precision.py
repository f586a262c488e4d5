"""Precision among the first documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    values = ranking.relevant_within(cutoff) / cutoff
    if not ranking.convention.precision_pads:
        values[ranking.depths < cutoff] = 0.0
    return ranking.settle(values, ranking.has_relevant)
