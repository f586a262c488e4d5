"""Evaluation of a bilinear model on a collection: each query ranks its candidate documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.bilinear.model import BilinearModel
from dranking.bilinear.query_record import overlap_of
from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.preferences import GradePreferences, Preferences, SameClass
from dranking.data.blocks import QueryBlock
from dranking.errors import UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention
from dranking.metrics.measures.by_name import get_measures
from dranking.metrics.overlap import Overlap
from dranking.metrics.per_query import PerQuery

QUERIES_AT_ONCE = 64
"""Queries of a block. Each may rank all documents: 256 queries with 7,500 documents took 0.5 GB."""


class BilinearEvaluation(NamedTuple):
    """The result of an evaluation.

    Attributes
    ----------
    per_query
        Value of each measure for each query.
    errors
        (n_queries,) share of all tuples (q, d+, d-) of each query with ``q' W d+ <= q' W d-``, so
        that a tie is an error; NaN for a query without tuples.
    n_tuples
        Number of tuples of all queries.
    trained_on
        How many of the queries the model was trained on, as far as that is known.
    """

    per_query: PerQuery
    errors: NDArray[np.float64]
    n_tuples: int
    trained_on: Overlap

    @property
    def error(self) -> float:
        """Test error: the mean share of tuples in the wrong order over queries with tuples."""
        return float(np.nanmean(self.errors))

    @property
    def standard_error(self) -> float:
        """Standard error of `error` over random queries with fixed documents; NaN for one query."""
        errors = self.errors[~np.isnan(self.errors)]
        if len(errors) < 2:
            return float("nan")
        return float(np.std(errors, ddof=1) / np.sqrt(len(errors)))

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each measure over the queries that the measure counts."""
        return self.per_query.summary().metrics


def evaluate_bilinear(
    model: BilinearModel,
    documents: Collection,
    preferences: Preferences,
    *,
    queries: Collection | None = None,
    metric: str | Sequence[str] = "map",
    convention: str | Convention = DEFAULT_CONVENTION,
) -> BilinearEvaluation:
    """Measure how well a model ranks.

    With classes, every document ranks all other documents, and documents of its class are relevant.
    With judgments, a query ranks the documents that are judged for it.

    Parameters
    ----------
    model
        The model.
    documents, queries
        The documents to rank, and the queries; None if the documents are the queries.
    preferences
        Classes or judgments, but no table of tuples, which has no rankings.
    metric, convention
        As for `dranking.evaluate`.

    Raises
    ------
    UsageError
        If the preferences are a table of tuples, or a measure is unknown.
    DataError
        If the vectors have other words than the model, or the file with the hashes of the model's
        training queries is damaged.
    """
    asked = documents if queries is None else queries
    known = model.trained_queries()
    names = [measure.name for measure in get_measures(metric)]
    parts, errors, n_tuples = [], [], 0
    for block, scores in ranked_blocks(model, documents, preferences, queries=queries):
        parts.append(PerQuery.of_block(block, scores, names, convention))
        wrong, n_pairs = order_errors(block, scores)
        errors.append(np.divide(wrong, n_pairs, out=np.full(len(wrong), np.nan), where=n_pairs > 0))
        n_tuples += int(n_pairs.sum())
    overlap = overlap_of(known, asked, judged_rows(preferences))
    return BilinearEvaluation(
        PerQuery.concatenate(parts), np.concatenate(errors), n_tuples, overlap
    )


def ranked_blocks(
    model: BilinearModel,
    documents: Collection,
    preferences: Preferences,
    *,
    queries: Collection | None = None,
) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
    """Yield blocks of queries with their candidates, without features, and the model's scores."""
    asked = documents if queries is None else queries
    rows = judged_rows(preferences)
    for first in range(0, len(rows), QUERIES_AT_ONCE):
        part = rows[first : first + QUERIES_AT_ONCE]
        scores = model.scores(asked.take(part), documents)
        if isinstance(preferences, SameClass):
            candidates = [rows[rows != row] for row in part]
            relevance = [
                (preferences.classes[c] == preferences.classes[row]).astype(np.float64)
                for row, c in zip(part, candidates, strict=True)
            ]
        elif isinstance(preferences, GradePreferences):
            of_row = [slice(*np.searchsorted(preferences.query, [row, row + 1])) for row in part]
            candidates = [preferences.document[entries] for entries in of_row]
            relevance = [preferences.grade[entries] for entries in of_row]
        lengths = np.array([len(c) for c in candidates])
        all_candidates = np.concatenate(candidates)
        block = QueryBlock(
            features=sparse.csr_array((len(all_candidates), 0), dtype=np.float32),
            relevance=np.concatenate(relevance),
            query_ptr=np.concatenate([[0], np.cumsum(lengths)]),
            query_ids=asked.ids.take(pa.array(part)),
            doc_ids=documents.ids.take(pa.array(all_candidates)),
        )
        yield block, scores[np.repeat(np.arange(len(part)), lengths), all_candidates].astype(float)


def judged_rows(preferences: Preferences) -> NDArray[np.int64]:
    """(n_queries,) rows of the judged queries; UsageError for a table of tuples."""
    if isinstance(preferences, SameClass):
        return np.flatnonzero(preferences.classes >= 0)
    if isinstance(preferences, GradePreferences):
        return np.unique(preferences.query)
    raise UsageError("a table of tuples has no rankings to evaluate; give classes or qrels.")


def best_blocks(
    model: BilinearModel, documents: Collection, n: int, *, queries: Collection | None = None
) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
    """Yield blocks of the n best documents of each query, best first, and their scores.

    If the documents are the queries, no document is ranked for itself.
    """
    asked = documents if queries is None else queries
    n = min(n, documents.n_documents - (queries is None))
    for first in range(0, asked.n_documents, QUERIES_AT_ONCE):
        part = np.arange(first, min(first + QUERIES_AT_ONCE, asked.n_documents))
        scores = model.scores(asked.take(part), documents)
        if queries is None:
            scores[np.arange(len(part)), part] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        block = QueryBlock(
            features=sparse.csr_array((best.size, 0), dtype=np.float32),
            relevance=np.full(best.size, np.nan),
            query_ptr=n * np.arange(len(part) + 1),
            query_ids=asked.ids.take(pa.array(part)),
            doc_ids=documents.ids.take(pa.array(best.ravel())),
        )
        yield block, np.take_along_axis(scores, best, axis=1).ravel().astype(float)


def order_errors(
    block: QueryBlock, scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many pairs of each query are in the wrong order or tied, and how many there are.

    Only pairs of documents with different relevance count. The time is O(n log n) for each grade of
    a query with n documents.
    """
    wrong, n_pairs = np.zeros((2, block.n_queries), dtype=np.int64)
    for query, (first, last) in enumerate(zip(block.query_ptr, block.query_ptr[1:], strict=False)):
        relevance, of_query = block.relevance[first:last], scores[first:last]
        for grade in np.unique(relevance)[1:]:
            lower = np.sort(of_query[relevance < grade])
            higher = of_query[relevance == grade]
            wrong[query] += (len(lower) - np.searchsorted(lower, higher, side="left")).sum()
            n_pairs[query] += len(lower) * len(higher)
    return wrong, n_pairs
