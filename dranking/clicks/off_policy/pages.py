"""Pages: the first documents that a ranker shows for each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError
from dranking.metrics.kernels.measures import rank_order

Integers = NDArray[np.int64]
Texts = NDArray[np.str_]


@dataclass(frozen=True)
class Pages:
    """The first documents of queries, as a ranker orders them.

    Attributes
    ----------
    query_ids
        (n_queries,) ids of the queries, text.
    query
        (n_shown,) index in `query_ids` of each document shown, ascending.
    document_ids
        (n_shown,) ids of the documents, text.
    rank
        (n_shown,) int64, 0 for the first document of a page.
    """

    query_ids: Texts
    query: Integers
    document_ids: Texts
    rank: Integers

    @classmethod
    def of_block(cls, block: QueryBlock, scores: ArrayLike, cutoff: int) -> Pages:
        """The first `cutoff` documents of each query by descending score.

        Documents of equal score keep the order of the data.

        Raises
        ------
        DataError
            If the documents have no ids, or a query has a document twice: its clicks would count
            twice.
        """
        if block.doc_ids is None:
            raise DataError(
                "the documents of the data have no ids, so that their clicks cannot be found; name "
                "the column of ids with --docid-column (Columns(docid=...), for retrain "
                "data.docid)."
            )
        _check_documents_once(block, block.doc_ids)
        order = rank_order(np.asarray(scores, dtype=np.float64), block.query_ptr)
        sizes = np.diff(block.query_ptr)
        rank = np.arange(len(order)) - np.repeat(block.query_ptr[:-1], sizes)
        shown = rank < cutoff
        return cls(
            query_ids=_texts(block.query_ids),
            query=np.repeat(np.arange(len(sizes)), sizes)[shown],
            document_ids=_texts(block.doc_ids)[order[shown]],
            rank=rank[shown],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Pages]) -> Pages:
        """The pages of all parts, which have no query in common."""
        before = np.cumsum([0, *(len(part.query_ids) for part in parts)])
        return cls(
            query_ids=np.concatenate([part.query_ids for part in parts]),
            query=np.concatenate([p.query + n for p, n in zip(parts, before, strict=False)]),
            document_ids=np.concatenate([part.document_ids for part in parts]),
            rank=np.concatenate([part.rank for part in parts]),
        )

    def check_queries_once(self) -> None:
        """Check that every query has one page.

        Raises
        ------
        DataError
            If a query occurs twice: its clicks would count twice.
        """
        ordered = np.sort(self.query_ids)
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if len(repeated):
            raise DataError(
                f"{len(repeated):,} queries, such as {str(repeated[0])!r}, occur more than once in "
                "the data, so that their clicks would count twice. Give one list of documents for "
                "each query: of data in several parts, the newest."
            )

    def of_queries(self, query_ids: Texts) -> Pages:
        """The pages of the queries among some sorted ids; `query` becomes an index in these ids."""
        index = np.searchsorted(query_ids, self.query_ids)
        known = index < len(query_ids)
        known[known] = query_ids[index[known]] == self.query_ids[known]
        rows = np.flatnonzero(known[self.query])
        return Pages(query_ids, index[self.query[rows]], self.document_ids[rows], self.rank[rows])


def _check_documents_once(block: QueryBlock, doc_ids: pa.Array) -> None:
    """Raise DataError if a query of a block has two documents of one id."""
    number = doc_ids.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    query = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    order = np.lexsort((number, query))
    same = (np.diff(query[order]) == 0) & (np.diff(number[order]) == 0)
    if same.any():
        row = order[np.argmax(same)]
        raise DataError(
            f"query {block.query_ids[query[row]]} has document {doc_ids[row]} more than once, "
            "so that its clicks would count twice. Remove the repeated rows."
        )


def _texts(ids: pa.Array) -> Texts:
    return np.asarray(ids.cast(pa.string()).to_pylist(), dtype=np.str_)
