"""Rank-biased precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking

PERSISTENCE = 0.8
"""Probability that the user goes on from a document to the next one."""


def rank_biased_precision(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """RBP with persistence p = 0.8: ``(1 - p) sum_i p^(i - 1)`` over the ranks i that are relevant.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.

    Notes
    -----
    The value is the lower end of the measure's range: an unlabelled document counts as irrelevant.
    In the average over the permutations of tied documents, each rank of a tie group counts the
    group's fraction of relevant documents.

    References
    ----------
    Moffat and Zobel: Rank-Biased Precision for Measurement of Retrieval Effectiveness, ACM
    Transactions on Information Systems 27(1), 2008, equation 2.
    """
    k = ranking.ranks_within(cutoff)
    expected = kernels.group_means(ranking.found, ranking.group_end)
    weights = (1.0 - PERSISTENCE) * np.power(PERSISTENCE, np.arange(k, dtype=np.float64))
    values = kernels.discounted_sums(expected, ranking.query_ptr, weights, k)
    return ranking.settle(values, ranking.has_relevant)
