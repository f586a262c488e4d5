"""The documents that any of several runs retrieved, with the scores of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError
from dranking.metrics.given_runs import as_run
from dranking.metrics.judged_runs import match
from dranking.metrics.prediction_files import trec_order
from dranking.metrics.scores.rows import Rows

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Normalization = Literal["min-max", "zmuv", "sum", "none"]
"""Normalisations of the scores of a run within a query."""


@dataclass(frozen=True, eq=False)
class UnitedRuns:
    """Documents of several runs: a row for each query and document that a run retrieved.

    Attributes
    ----------
    block
        The queries and documents, without features and labels. Queries stand in the order in which
        the first run, then the second one, names them.
    documents
        (n_documents,) ids of the documents, those of the block.
    scores
        (n_documents, n_runs) scores; NaN where a run lacks a document.
    """

    block: QueryBlock
    documents: pa.DictionaryArray
    scores: Array

    @classmethod
    def of(cls, runs: Sequence[Any]) -> UnitedRuns:
        """The documents of runs in all forms that `dranking.evaluate` takes.

        Raises
        ------
        DataError
            If a run retrieved nothing, has a document twice, or a score that is not finite.
        """
        rows = [_checked(as_run(run)) for run in runs]
        query = pa.concat_arrays([each.query for each in rows]).dictionary_encode()
        document = pa.concat_arrays([each.document for each in rows]).dictionary_encode()
        n_documents = len(document.dictionary)
        keys = query.indices.to_numpy().astype(np.int64) * n_documents + document.indices.to_numpy()
        united, row = np.unique(keys, return_inverse=True)
        scores = np.full((len(united), len(rows)), np.nan)
        run = np.repeat(np.arange(len(rows)), [len(each.number) for each in rows])
        scores[row, run] = np.concatenate([each.number for each in rows])
        of_query, of_document = np.divmod(united, n_documents)
        starts = np.flatnonzero(np.diff(of_query, prepend=-1))
        ids = pa.DictionaryArray.from_arrays(of_document.astype(np.int32), document.dictionary)
        block = QueryBlock(
            features=sparse.csr_array((len(united), 0), dtype=np.float32),
            relevance=np.full(len(united), np.nan),
            query_ptr=np.append(starts, len(united)).astype(np.int64),
            query_ids=query.dictionary.take(pa.array(of_query[starts])),
            doc_ids=ids,
        )
        return cls(block, ids, scores)

    @cached_property
    def retrieved(self) -> NDArray[np.bool_]:
        """(n_documents, n_runs) whether a run retrieved a document."""
        return ~np.isnan(self.scores)

    @cached_property
    def n_shared(self) -> int:
        """Number of documents that more than one run retrieved."""
        return int((self.retrieved.sum(axis=1) > 1).sum())

    @cached_property
    def of_query(self) -> Ints:
        """(n_documents,) position of the query of each document."""
        return np.repeat(np.arange(self.block.n_queries), np.diff(self.block.query_ptr))

    def ranks(self) -> Array:
        """(n_documents, n_runs) ranks from 1, in the order of trec_eval; infinite where missing."""
        found = np.full(self.scores.shape, np.inf)
        for run, there in enumerate(self.retrieved.T):
            block = self.block.take_documents(there)
            order, _ = trec_order(block, self.scores[there, run])
            starts = np.repeat(block.query_ptr[:-1], np.diff(block.query_ptr))
            found[np.flatnonzero(there)[order], run] = np.arange(len(order)) - starts + 1
        return found

    def normalised(self, kind: Normalization) -> Array:
        """(n_documents, n_runs) scores of each run, normalised within queries; 0 where missing.

        Scores of a query that are all equal become 0, but for the kind ``none``.
        """
        found = np.zeros(self.scores.shape)
        for run, there in enumerate(self.retrieved.T):
            values, query = self.scores[there, run], self.of_query[there]
            found[there, run] = _normalised(values, query, kind)
        return found

    def above_least(self, scores: Array) -> Array:
        """(n_documents, n_runs) distances of scores from the least of the query; 0 where missing.

        They keep their digits as float32, whatever the offset of the scores.
        """
        there = np.where(self.retrieved, scores, np.inf)
        least = np.minimum.reduceat(there, self.block.query_ptr[:-1])[self.of_query]
        return np.where(self.retrieved, scores - np.where(np.isinf(least), 0.0, least), 0.0)

    def grades(self, judgements: Rows) -> tuple[Array, NDArray[np.bool_]]:
        """(n_documents,) grades, at least 0, and whether the query of a document is judged at all.

        An unjudged document of a judged query counts as a document of grade 0.
        """
        of_query = pa.array(self.of_query.astype(np.int32))
        queries = pa.DictionaryArray.from_arrays(of_query, self.block.query_ids)
        found = match((queries, self.documents), judgements.coded)
        grades = np.append(judgements.number, 0.0)[found.at]
        query, n = found.query, len(self.of_query)
        return np.maximum(grades, 0.0), np.isin(query[:n], query[n:])


def _checked(rows: Rows) -> Rows:
    """The rows of a run, whose documents are known to stand once for a query."""
    rows.check_finite("score")
    if not len(rows.number):
        raise DataError(f"{rows.where}: no query has a document.")
    _ = rows.coded
    return rows


def _normalised(scores: Array, query: Ints, kind: Normalization) -> Array:
    """(n,) normalised scores of one run, whose rows are sorted by query."""
    if kind == "none":
        return scores
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    sizes = np.diff(np.append(starts, len(query)))

    def of_rows(by_query: Array) -> Array:
        return np.repeat(by_query, sizes)

    low = of_rows(np.minimum.reduceat(scores, starts))
    if kind == "zmuv":
        above = scores - of_rows(np.add.reduceat(scores, starts) / sizes)
        unit = np.sqrt(of_rows(np.add.reduceat(np.square(above), starts) / sizes))
    elif kind == "sum":
        above = scores - low
        unit = of_rows(np.add.reduceat(above, starts))
    else:
        above = scores - low
        unit = of_rows(np.maximum.reduceat(above, starts))
    is_constant = of_rows(np.maximum.reduceat(scores, starts)) == low
    found: Array = np.where(is_constant, 0.0, above / np.where(is_constant, 1.0, unit))
    return found
