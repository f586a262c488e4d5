"""Inferred average precision, for judgements of a sample of the pooled documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.errors import UsageError
from dranking.metrics.ranking import Ranking

SMOOTHING = 1e-5
"""Added to the counts of relevant and irrelevant documents, as in `trec_eval`."""


def inferred_average_precision(ranking: Ranking, cutoff: None = None) -> NDArray[np.float64]:
    """infAP: average precision in which pooled documents without judgement count by their share.

    A negative grade marks a document that was pooled and not judged; a document without label was
    not pooled, and is irrelevant. Above a relevant document of rank i stand r relevant, n judged
    irrelevant and u unjudged documents of the pool, and the precision there is

        (1 + (r + n + u) (r + e) / (r + n + 2 e)) / i,    e = 1e-5.

    Returns
    -------
    (n_queries,) float64; a query without relevant documents is 0 or NaN, as the convention says.

    Raises
    ------
    UsageError
        If the convention averages over the orders of tied documents, of which infAP has no mean in
        closed form.

    References
    ----------
    Yilmaz and Aslam: Estimating Average Precision with Incomplete and Imperfect Judgments, CIKM
    2006; in the form of `trec_eval`.
    """
    if ranking.convention.ties == "average":
        raise UsageError(
            f"infap: the convention {ranking.convention.name} averages over the orders of tied "
            "documents, which infap cannot; choose trec, or a LETOR convention."
        )
    starts = ranking.query_ptr[:-1]
    sizes = np.diff(ranking.query_ptr)

    def above(is_counted: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_documents,) number of counted documents above each document of its query."""
        total = np.cumsum(is_counted) - is_counted
        return total - np.repeat(total[starts], sizes)

    relevant = above(ranking.found)
    judged = above(ranking.retrieved * ranking.judged)
    unjudged = above(ranking.retrieved * (ranking.relevance < 0.0))
    rank = np.arange(1.0, len(relevant) + 1.0) - np.repeat(starts, sizes)
    share = (relevant + SMOOTHING) / (judged + 2.0 * SMOOTHING)
    precision = ranking.found * (1.0 + (judged + unjudged) * share) / rank
    values = np.add.reduceat(precision, starts) / np.maximum(ranking.n_relevant, 1.0)
    return ranking.settle(values, ranking.has_relevant)
