"""Measures that tell judged from unjudged documents: bpref and the share of judged documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking


def binary_preference(ranking: Ranking, cutoff: None = None) -> NDArray[np.float64]:
    """bpref: how rarely judged irrelevant documents are ranked above relevant ones.

    With R relevant and N judged irrelevant documents, a relevant document with n judged irrelevant
    documents above it counts ``1 - min(n, R) / min(R, N)``, and bpref is the mean over the R
    relevant documents. Unlabelled documents do not count, nor do documents with a negative grade,
    which `trec_eval` reads as not judged.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without relevant documents is 0 or NaN, as the
    convention says.

    References
    ----------
    Buckley and Voorhees: Retrieval Evaluation with Incomplete Information, SIGIR 2004; in the form
    of `trec_eval` since its version 8.
    """
    others = ranking.retrieved * ranking.judged * (1.0 - ranking.relevant)
    n_relevant = ranking.n_relevant
    n_others = ranking.n_judged - n_relevant
    values = kernels.binary_preferences(
        ranking.found, others, ranking.group_end, ranking.query_ptr, n_relevant, n_others
    )
    return ranking.settle(values, ranking.has_relevant)


def judged_share(ranking: Ranking, cutoff: int) -> NDArray[np.float64]:
    """Share of the first `cutoff` documents that have a label, or of all where there are fewer.

    Returns
    -------
    (n_queries,) float64 in [0, 1].
    """
    k = ranking.ranks_within(cutoff)
    judged = ranking.judged * ranking.retrieved
    expected = kernels.group_means(judged, ranking.group_end)
    found = kernels.discounted_sums(expected, ranking.query_ptr, np.ones(k), k)
    return found / np.maximum(np.minimum(ranking.depths, cutoff), 1)
