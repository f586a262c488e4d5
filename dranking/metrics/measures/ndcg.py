"""Discounted cumulative gain, and its normalised form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.metrics.kernels import measures as kernels
from dranking.metrics.ranking import Ranking


def dcg(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """DCG of the first `cutoff` ranks: the sum of the discounted gains.

    Returns
    -------
    (n_queries,) float64, at least 0; a query without gain is 0 or NaN, as the convention says.

    Notes
    -----
    ``DCG@k = sum_{i<=k} g(r_i) d(i)``; a list shorter than k ends earlier, under every convention.
    In the average over the permutations of tied documents, each rank of a tie group has the group's
    mean gain.

    References
    ----------
    Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS 20, 2002.
    """
    return ranking.settle(_discounted_gain(ranking, cutoff), ranking.has_gain)


def _discounted_gain(ranking: Ranking, cutoff: int | None) -> NDArray[np.float64]:
    """(n_queries,) discounted gain of the first `cutoff` ranks."""
    k = ranking.ranks_within(cutoff)
    gains, discounts = ranking.expected_gains, ranking.discounts
    return kernels.discounted_sums(gains, ranking.query_ptr, discounts, k)


def ndcg(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """NDCG of the first `cutoff` ranks: discounted gain, divided by its largest value.

    Parameters
    ----------
    ranking
        The ranked queries.
    cutoff
        k of NDCG@k; the whole list if None.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without gain is 0 or NaN, as the convention says.

    Notes
    -----
    ``NDCG@k = sum_{i<=k} g(r_i) d(i) / sum_{i<=k} g(r*_i) d(i)`` with r* the grades in descending
    order. In the average over the permutations of tied documents, each rank of a tie group has
    the group's mean gain.

    References
    ----------
    Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS 20, 2002.
    McSherry and Najork, Computing information retrieval performance measures efficiently in the
    presence of tied scores, ECIR 2008.
    """
    k = ranking.ranks_within(cutoff)
    gains, discounts = ranking.ideal_gains, ranking.discounts
    ideal = kernels.discounted_sums(gains, ranking.query_ptr, discounts, k)
    values = _discounted_gain(ranking, cutoff) / np.where(ranking.has_gain, ideal, 1.0)
    if cutoff is not None and not ranking.convention.ndcg_pads:
        values[ranking.depths < cutoff] = 0.0
    return ranking.settle(values, ranking.has_gain)


def mean_ndcg(ranking: Ranking, cutoff: int | None = None) -> NDArray[np.float64]:
    """NDCG@k averaged over all k from 1 to the length of the list.

    LETOR 4.0 and MSLR publish this average as MeanNDCG; other conventions average their own NDCG@k.
    `cutoff` is not used.

    Returns
    -------
    (n_queries,) float64 in [0, 1]; a query without gain is 0 or NaN, as the convention says.
    """
    values = kernels.mean_discounted_ratios(
        ranking.expected_gains, ranking.ideal_gains, ranking.query_ptr, ranking.discounts
    )
    return ranking.settle(values, ranking.has_gain)
