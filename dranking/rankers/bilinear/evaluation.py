"""How well a bilinear model ranks a collection: queries in blocks, each against its candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.data.texts.collection import Collection
from dranking.data.texts.preferences import GradePreferences, Preferences, SameClass
from dranking.errors import UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION
from dranking.metrics.per_query import PerQuery
from dranking.rankers.bilinear.model import BilinearModel

QUERIES_AT_ONCE = 64
"""Each has all documents as candidates: of 7,500 test posts, 256 queries took half a gigabyte."""


class BilinearEvaluation(NamedTuple):
    """What an evaluation found.

    Attributes
    ----------
    per_query
        The value of each measure for each query.
    errors
        (n_queries,) share of each query's tuples (query, preferred, other) with
        ``q' W d+ <= q' W d-``, all of them counted; NaN for a query without. A tie is an error.
    n_tuples
        Their number, over all queries.
    """

    per_query: PerQuery
    errors: NDArray[np.float64]
    n_tuples: int

    @property
    def error(self) -> float:
        """Test error: the share of tuples in the wrong order, queries equally likely."""
        return float(np.nanmean(self.errors))

    @property
    def standard_error(self) -> float:
        """Of the test error, queries taken as drawn and documents as given; NaN for one query."""
        errors = self.errors[~np.isnan(self.errors)]
        if len(errors) < 2:
            return float("nan")
        return float(np.std(errors, ddof=1) / np.sqrt(len(errors)))

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each measure over the queries that count."""
        return self.per_query.summary().metrics


def evaluate_bilinear(
    model: BilinearModel,
    documents: Collection,
    preferences: Preferences,
    *,
    queries: Collection | None = None,
    measures: Sequence[str] = ("map",),
    convention: str = DEFAULT_CONVENTION,
) -> BilinearEvaluation:
    """Measure how well a model ranks.

    With classes, every document ranks all others, and those of its class are relevant; with
    judgments, a query ranks the documents that are judged for it.

    Parameters
    ----------
    model
        The model.
    documents, queries
        What is ranked, and for what; no queries means the documents.
    preferences
        Classes or judgments; a table of tuples has no rankings.
    measures, convention
        As in `dranking.evaluate`.

    Raises
    ------
    UsageError
        If the preferences are a table of tuples, or a measure does not exist.
    DataError
        If the vectors do not fit the model.
    """
    parts, errors, n_tuples = [], [], 0
    for block, scores in ranked_blocks(model, documents, preferences, queries=queries):
        parts.append(PerQuery.of_block(block, scores, list(measures), convention))
        wrong, n_pairs = order_errors(block, scores)
        errors.append(np.divide(wrong, n_pairs, out=np.full(len(wrong), np.nan), where=n_pairs > 0))
        n_tuples += int(n_pairs.sum())
    return BilinearEvaluation(PerQuery.concatenate(parts), np.concatenate(errors), n_tuples)


def ranked_blocks(
    model: BilinearModel,
    documents: Collection,
    preferences: Preferences,
    *,
    queries: Collection | None = None,
) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
    """Judged queries with their candidates, without features, and the model's scores, in order."""
    asked = documents if queries is None else queries
    if isinstance(preferences, SameClass):
        rows = np.flatnonzero(preferences.classes >= 0)
    elif isinstance(preferences, GradePreferences):
        rows = np.unique(preferences.query)
    else:
        raise UsageError("a table of tuples has no rankings to evaluate; give classes or qrels.")
    for first in range(0, len(rows), QUERIES_AT_ONCE):
        part = rows[first : first + QUERIES_AT_ONCE]
        scores = model.scores(asked.take(part), documents)
        if isinstance(preferences, SameClass):
            candidates = [rows[rows != row] for row in part]
            relevance = [
                (preferences.classes[c] == preferences.classes[row]).astype(np.float64)
                for row, c in zip(part, candidates, strict=True)
            ]
        else:
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


def best_blocks(
    model: BilinearModel, documents: Collection, n: int, *, queries: Collection | None = None
) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
    """The n documents with the highest scores for each query, best first, and their scores.

    Documents that are queries themselves are not ranked for themselves.
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
    """Pairs of different relevance in the wrong order or tied, and all of them, of each query.

    Each pair of grades is counted on its own, in O(n log n) for each grade of a query.
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
