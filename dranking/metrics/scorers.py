"""Ranking measures as scorers of scikit-learn, for `GridSearchCV` and `cross_val_score`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import MetadataRequest

from dranking.data.tables.alignment import aligned
from dranking.data.tables.ids import as_ids
from dranking.data.tables.in_memory import from_arrays
from dranking.data.tables.query_rows import order_by_query
from dranking.errors import DataError, UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION, get_convention
from dranking.metrics.measures.by_name import get_measure, higher_is_better
from dranking.metrics.per_query import PerQuery


@dataclass(frozen=True)
class RankingScorer:
    """Scorer of scikit-learn: the mean of a ranking measure over queries; higher is better.

    The scorer asks for `qid` by itself where metadata routing is enabled. Folds must hold whole
    queries (`GroupKFold` with ``groups=qid``).

    Attributes
    ----------
    metric
        Name of the measure; the values of a measure of error are negated.
    convention
        Name of the convention.
    """

    metric: str
    convention: str = DEFAULT_CONVENTION

    def __call__(self, estimator: Any, X: Any, y: Any, *, qid: Any = None) -> float:
        """Score the predictions of an estimator.

        Parameters
        ----------
        estimator
            Any fitted object with `predict`, which is called with `qid` if it takes `qid`.
        X
            Features of the documents, as the estimator takes them.
        y, qid
            (n_documents,) relevance, and query ids.

        Raises
        ------
        UsageError
            If `qid` is not given.
        DataError
            If no query counts for the measure.
        """
        if qid is None:
            raise UsageError(
                "the scorer needs the query id of each row: call "
                "sklearn.set_config(enable_metadata_routing=True), and pass qid= to fit, or "
                "params={'qid': qid} to cross_val_score."
            )
        y, qid = aligned(X, y=y, qid=qid).values()
        options = {"qid": qid} if "qid" in signature(estimator.predict).parameters else {}
        scores = estimator.predict(X, **options)
        parts = measured_rows(scores, y, qid, [self.metric], self.convention)
        value = PerQuery.concatenate(parts).summary().metrics[self.metric]
        if np.isnan(value):
            raise DataError(f"no query counts for {self.metric}, so there is no score.")
        return value if higher_is_better(self.metric) else -value

    def get_metadata_routing(self) -> MetadataRequest:
        """The metadata that the scorer asks scikit-learn for: `qid`."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="qid", alias=True)
        return request


def ranking_scorer(metric: str, *, convention: str = DEFAULT_CONVENTION) -> RankingScorer:
    """Scorer of a measure, for the parameter `scoring` of scikit-learn's searches.

    Parameters
    ----------
    metric
        Name of a measure, such as ``map`` or ``ndcg@10``; see `dranking.metrics`.
    convention
        standard, letor4, letor3, mslr or trec.

    Raises
    ------
    UsageError
        If the measure or the convention does not exist.

    Examples
    --------
    >>> import numpy as np, dranking as dr, sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)).astype(np.float32), np.repeat(np.arange(10), 6)
    >>> y = (X[:, 1] > 0).astype(int)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     ranker = dr.RankRLS().set_fit_request(qid=True)
    ...     grid = {"regularization": [1.0, 8.0]}
    ...     search = GridSearchCV(ranker, grid, scoring=dr.ranking_scorer("map"), cv=GroupKFold(5))
    ...     search = search.fit(X, y, groups=qid, qid=qid)
    >>> bool(search.best_score_ > 0.9)
    True
    """
    return RankingScorer(get_measure(metric).name, get_convention(convention).name)


def ndcg_scorer(k: int | None = None, *, convention: str = DEFAULT_CONVENTION) -> RankingScorer:
    """Scorer of NDCG at cutoff `k`, or over all ranks; see `ranking_scorer`.

    Raises
    ------
    UsageError
        If `k` is not a whole number of at least 1, or the convention does not exist.
    """
    return ranking_scorer("ndcg" if k is None else f"ndcg@{k}", convention=convention)


def measured_rows(
    scores: ArrayLike, y: Any, qid: Any, measures: Sequence[str], convention: str
) -> Iterator[PerQuery]:
    """Yield measures of each query of rows in memory, for some neighbouring queries at a time.

    Parameters
    ----------
    scores, y, qid
        (n_documents,) scores, relevance and query ids, in the order of the same rows.
    measures, convention
        As in `evaluate_queries`.
    """
    values, ids = np.asarray(scores), as_ids(qid, "qid")
    if len(ids) == len(values) and (order := order_by_query(ids)) is not None:
        values, y, qid = values[order], np.asarray(y)[order], ids.take(order)
    labels = from_arrays(np.empty((len(values), 0)), y, qid)
    parts = [labels.block(b) for b in range(labels.n_blocks)]
    ends = np.cumsum([part.n_documents for part in parts])[:-1]
    for part, of_part in zip(parts, np.split(values, ends), strict=True):
        yield PerQuery.of_block(part, of_part, measures, convention)
