"""Measures over pairs of documents: pairwise error and the area under the ROC curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking


def pairwise_error(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """Fraction of the pairs of unequal relevance that the scores order wrongly.

    Tied scores count one half, under every convention. `cutoff` is not used.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; NaN for a query without such a pair, under every convention.

    References
    ----------
    Pahikkala, Airola, Naula and Salakoski, Greedy RankRLS, SIGIR 2010 workshop on feature
    generation and selection for information retrieval, eq. 2.
    """
    return kernels.pairwise_errors(ranking.relevance, ranking.tie_end, ranking.query_ptr)


def area_under_curve(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """Fraction of the pairs of a relevant and an irrelevant document that the scores order rightly.

    The area under the ROC curve of each query. Tied scores count one half. `cutoff` is not used.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; NaN for a query without such a pair, under every convention.
    """
    return 1.0 - kernels.pairwise_errors(ranking.relevant, ranking.tie_end, ranking.query_ptr)
