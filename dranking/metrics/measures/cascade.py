"""Measures of a user who reads down the list: expected reciprocal rank and hit rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DataError
from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking

HIGHEST_GRADE = 4.0
"""The grade at which a user is satisfied with probability 15 / 16, as in TREC's `gdeval`."""


def expected_reciprocal_rank(ranking: Ranking, cutoff: int) -> NDArray[np.float64]:
    """ERR: one over the rank at which a user ends, 0 for a user who ends at none.

    The user reads down the list and ends at a document of grade r with probability
    ``(2^r - 1) / 2^4``, under every convention.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without a grade above 0 is 0 or NaN, as the convention
    says.

    Raises
    ------
    DataError
        If a grade is above 4.

    References
    ----------
    Chapelle, Metlzer, Zhang, Grinspan: Expected Reciprocal Rank for Graded Relevance, CIKM 2009,
    equation 4 and algorithm 2.
    """
    grades = np.maximum(ranking.relevance, 0.0)
    if grades.max() > HIGHEST_GRADE:
        at = int(np.argmax(grades))
        query = int(np.searchsorted(ranking.query_ptr, at, side="right")) - 1
        raise DataError(
            f"query {ranking.query_ids[query]}: err@k knows grades of 0 to {HIGHEST_GRADE:g}, but "
            f"a relevance is {grades[at]:g}; rescale the grades."
        )
    stop = ranking.retrieved * (np.exp2(grades) - 1.0) / np.exp2(HIGHEST_GRADE)
    k = ranking.ranks_within(cutoff)
    goes_on = kernels.continuation(stop, ranking.group_end, ranking.query_ptr, k)
    arrives = np.ones_like(goes_on)
    arrives[1:] = goes_on[:-1]
    arrives[ranking.query_ptr[:-1]] = 1.0
    ranks = np.arange(1.0, k + 1.0)
    values = kernels.discounted_sums(arrives - goes_on, ranking.query_ptr, 1.0 / ranks, k)
    return ranking.settle(values, ranking.has_positive_grade)


def hit_rate(ranking: Ranking, cutoff: int) -> NDArray[np.float64]:
    """1 if any of the first `cutoff` documents is relevant, otherwise 0.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.
    """
    k = ranking.ranks_within(cutoff)
    goes_on = kernels.continuation(ranking.found, ranking.group_end, ranking.query_ptr, k)
    last = ranking.query_ptr[:-1] + np.minimum(np.diff(ranking.query_ptr), k) - 1
    return ranking.settle(1.0 - goes_on[last], ranking.has_relevant)
