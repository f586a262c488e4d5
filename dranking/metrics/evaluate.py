"""Measures of each query of a block, and their means over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dranking.data.blocks import QueryBlock
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.measures.by_name import get_measures
from dranking.metrics.ranking import rank_documents

MOST_DOCUMENTS = 2**17
"""Documents that are ranked together, about: their arrays take some 20 MB."""


def evaluate_queries(
    block: QueryBlock,
    scores: ArrayLike,
    measures: str | Sequence[str],
    convention: str | Convention = DEFAULT_CONVENTION,
    retrieved: NDArray[np.bool_] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Compute measures of each query of a block.

    Parameters
    ----------
    block
        Documents with relevance. An unlabelled document counts as a document of grade 0.
    scores
        (n_documents,) of any real type; higher ranks first.
    measures
        A name or several, also as one text with commas, in any case: ``map``, ``p@K``,
        ``recall@K``, ``ndcg``, ``ndcg@K``, ``dcg``, ``dcg@K``, ``mean_ndcg``, ``mrr``, ``mrr@K``,
        ``pairwise_error``, ``auc`` and the others of `dranking.metrics`.
    convention
        One of `CONVENTIONS`.
    retrieved
        (n_documents,) false for judged documents that the ranking does not hold: they count among
        the relevant documents and in the ideal ranking, and gain nothing; the pairs of
        ``pairwise_error`` and ``auc`` have them tied below all others. None means that the ranking
        holds all documents.

    Returns
    -------
    One (n_queries,) float64 array for each measure, under its name in lower case. NaN marks a query
    that does not count: a query without labelled document, or a query that the measure excludes.

    Raises
    ------
    UsageError
        If a measure or the convention does not exist.
    DataError
        If a score is NaN, or a grade is too large for the convention's gain.
    ValueError
        If there is not one score per document.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from dranking.data.blocks import QueryBlock
    >>> block = QueryBlock(
    ...     features=np.zeros((3, 1), dtype=np.float32),
    ...     relevance=np.array([0.0, 2.0, 1.0]),
    ...     query_ptr=np.array([0, 3]),
    ...     query_ids=pa.array([7]),
    ... )
    >>> evaluate_queries(block, [0.9, 0.5, 0.1], ["MAP", "p@2"], "letor4")
    {'map': array([0.58333333]), 'p@2': array([0.5])}
    """
    chosen = get_measures(measures)
    how = get_convention(convention)
    if block.n_queries == 0:
        return {measure.name: np.empty(0) for measure in chosen}
    ranking = rank_documents(block, scores, how, retrieved)
    labelled = np.add.reduceat(~np.isnan(block.relevance), block.query_ptr[:-1], dtype=np.int64) > 0
    return {measure.name: np.where(labelled, measure(ranking), np.nan) for measure in chosen}


def evaluate_models(
    block: QueryBlock, scores: NDArray[np.float64], measure: str, convention: Convention
) -> NDArray[np.float64]:
    """(n_models, n_queries) values of a measure of scores (n_models, n_documents).

    Models are measured together: a call for each model takes longer than its loops.
    """
    together = max(1, MOST_DOCUMENTS // max(1, block.n_documents))
    values = np.empty((len(scores), block.n_queries))
    for first in range(0, len(scores), together):
        some = scores[first : first + together]
        found = evaluate_queries(block.copies(len(some)), some.ravel(), [measure], convention)
        values[first : first + together] = found[measure].reshape(len(some), -1)
    return values


@dataclass(frozen=True)
class Summary:
    """Means of measures over queries.

    Attributes
    ----------
    metrics
        Mean of each measure over the queries that count for the measure, weighted by the query
        weights; NaN where no query counts.
    n_queries
        All queries, including excluded queries.
    excluded
        Queries excluded from each measure.
    """

    metrics: dict[str, float]
    n_queries: int
    excluded: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """``{"metrics", "n_queries", "excluded"}`` with null for a mean over no queries."""
        return {
            "metrics": {k: None if np.isnan(v) else v for k, v in self.metrics.items()},
            "n_queries": self.n_queries,
            "excluded": self.excluded,
        }


def aggregate(
    per_query: Mapping[str, NDArray[np.float64]], weights: NDArray[np.float64] | None = None
) -> Summary:
    """Average per-query values, leaving out the queries that do not count (NaN).

    Parameters
    ----------
    per_query
        (n_queries,) values of each measure, of all blocks in block order.
    weights
        (n_queries,) query weights, at least 0; None for equal weights.

    Raises
    ------
    ValueError
        If the arrays differ in length.
    """
    lengths = {name: len(values) for name, values in per_query.items()}
    if weights is not None:
        lengths["weights"] = len(weights)
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the per-query values differ in length: {lengths}.")
    counted = {name: ~np.isnan(values) for name, values in per_query.items()}
    n_queries = next(iter(lengths.values()), 0)
    return Summary(
        metrics={name: _mean(values, counted[name], weights) for name, values in per_query.items()},
        n_queries=n_queries,
        excluded={name: n_queries - int(mask.sum()) for name, mask in counted.items()},
    )


def _mean(
    values: NDArray[np.float64], counted: NDArray[np.bool_], weights: NDArray[np.float64] | None
) -> float:
    if weights is None:
        return float(values[counted].mean()) if counted.any() else float("nan")
    total = float(weights[counted].sum())
    return float((weights * values)[counted].sum()) / total if total > 0 else float("nan")
