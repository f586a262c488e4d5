"""Scores from elsewhere, matched to the documents of a data set."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.roles import DOCUMENT_NAMES, QUERY_NAMES
from dranking.data.tables.any_table import as_table
from dranking.data.tables.ids import as_ids, check_no_null
from dranking.data.tables.numeric_values import as_numbers
from dranking.data.tables.query_rows import run_starts
from dranking.errors import DataError, quoted
from dranking.metrics.prediction_files import document_ids
from dranking.metrics.scores.rows import NO_IDS, Rows, first_of

QID, DOCID, SCORE = "qid", "docid", "score"
"""Columns of scores that this package wrote."""

IN_MEMORY = "the scores"
"""The name of scores that are no file, in errors."""

_A_RUN = (
    "Or, if they are a run of any depth, give its judgements alone: query ids, document ids and "
    "grades without other columns."
)


class ScoreTable:
    """Scores by query and document, in any order.

    Ids are compared as strings. Without document ids, the scores of a query belong to its documents
    in order.

    Parameters
    ----------
    query_ids
        (n,) query id of each score, of any type that `from_arrays` takes.
    scores
        (n,) numbers.
    doc_ids
        (n,) document ids. None, or nulls alone, stand for none.
    where
        Name of the scores in errors.
    place
        Describes the place of a score, counted from 0, for errors; None names its row.
    empty
        Ids of the queries of a run without any document, a pyarrow string array.

    Raises
    ------
    DataError
        If lengths differ, or a query id is missing.
    """

    def __init__(
        self,
        query_ids: Any,
        scores: Any,
        doc_ids: Any = None,
        where: str = IN_MEMORY,
        place: Callable[[int], str] | None = None,
        empty: pa.Array = NO_IDS,
    ) -> None:
        place = place or (lambda row: f"{where}, row {row}")

        ids = as_ids(query_ids, "qid", as_string=True, place=place)
        check_no_null(ids, "qid", place)
        values = as_numbers(scores, SCORE)
        if len(values) != len(ids):
            raise DataError(f"{where}: {len(values)} scores for {len(ids)} query ids.")
        documents = (
            None if doc_ids is None else as_ids(doc_ids, "docid", as_string=True, place=place)
        )
        if documents is not None and documents.null_count == len(documents) > 0:
            documents = None
        # Rows of a query come together and keep their order.
        order = np.argsort(ids.dictionary_encode().indices.to_numpy(), kind="stable")
        ids = ids.take(pa.array(order))
        starts = run_starts(ids)
        self._ptr = np.append(starts, len(ids))
        self._position = {
            query: position for position, query in enumerate(ids.take(pa.array(starts)).to_pylist())
        }
        self._scores = values[order]
        self._documents = None if documents is None else documents.take(pa.array(order))
        self._where = where
        self._order, self._place, self._empty = order, place, empty

    @property
    def has_doc_ids(self) -> bool:
        """Whether scores belong to documents by id, and not by their place in a query."""
        return self._documents is not None

    @cached_property
    def rows(self) -> Rows:
        """The scores, the queries by first appearance, and the documents of a query in their order.

        Raises
        ------
        DataError
            If documents have no ids, or a score is NaN.
        """
        if self._documents is None:
            raise DataError(
                f"{self._where}: the scores name no documents, so that no judgements can be found; "
                "add a column doc_id."
            )
        sizes = np.repeat(np.arange(len(self._ptr) - 1), np.diff(self._ptr))
        query = pa.array(self._position, pa.string()).take(pa.array(sizes))
        order, place = self._order, self._place
        there = self._documents, self._scores, self._where
        return Rows(query, *there, lambda at: place(order[at]), self._empty)

    @classmethod
    def from_table(
        cls,
        table: Any,
        qid: str = QID,
        docid: str = DOCID,
        where: str = IN_MEMORY,
        score: str = SCORE,
    ) -> ScoreTable:
        """Scores of a table with columns ``qid``, ``score`` and, if documents have ids, ``docid``.

        Parameters
        ----------
        table
            A table of any library.
        qid, docid, score
            Names of the columns.
        where
            Name of the scores in errors.

        Raises
        ------
        DataError
            If a column is missing or of a wrong type.
        """
        rows = as_table(table)
        qid = first_of([qid, *QUERY_NAMES], rows.column_names) or qid
        docid = first_of([docid, *DOCUMENT_NAMES], rows.column_names) or docid
        absent = [name for name in (qid, score) if name not in rows.column_names]
        if absent:
            raise DataError(
                f"{where}: there is no column {quoted(absent)}. Scores are a table "
                f"of qid, docid (optional) and score; the columns are "
                f"{quoted(rows.column_names)}. {_how_to_name(absent, score, where)}"
            )
        documents = rows[docid] if docid in rows.column_names else None
        return cls(rows[qid], rows[score], documents, where)

    def of_block(self, block: QueryBlock) -> NDArray[np.float64]:
        """(n_documents,) scores of a block's documents.

        Raises
        ------
        DataError
            If a query or a document has no score or several, or scores belong to documents that
            the data lacks; the message names the first.
        """
        queries = self._queries(block)
        starts, ends = self._ptr[queries], self._ptr[queries + 1]
        sizes = ends - starts
        rows = np.repeat(starts - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(
            sizes.sum()
        )
        if self._documents is None:
            self._check_sizes(block, sizes)
            return np.asarray(self._scores[rows])
        # A document's key is its query in the block and its id, as one number.
        theirs = self._documents.take(pa.array(rows))
        check_no_null(theirs, "docid", lambda row: f"{self._where}, row {rows[row]}")
        ours = document_ids(block)
        codes = pa.concat_arrays([theirs, ours]).dictionary_encode()
        number = codes.indices.to_numpy().astype(np.int64)
        of_query = [np.repeat(np.arange(len(sizes)), s) for s in (sizes, np.diff(block.query_ptr))]
        keys = np.concatenate(of_query) * len(codes.dictionary) + number
        scored, wanted = keys[: len(rows)], keys[len(rows) :]
        order = np.argsort(scored, kind="stable")
        self._check_keys(block, scored[order], theirs.take(pa.array(order)), wanted, ours, of_query)
        found = rows[order][np.searchsorted(scored[order], wanted)]
        return np.asarray(self._scores[found])

    def _queries(self, block: QueryBlock) -> NDArray[np.int64]:
        """(n_queries,) positions of the block's queries among those with scores."""
        ids = block.query_ids.cast(pa.string()).to_pylist()
        found = [self._position.get(query, -1) for query in ids]
        if -1 in found:
            raise DataError(
                f"{self._where}: no score for query {ids[found.index(-1)]} and "
                f"{found.count(-1) - 1} more of its block; score all queries of the data."
            )
        return np.array(found, dtype=np.int64)

    def _check_sizes(self, block: QueryBlock, sizes: NDArray[np.int64]) -> None:
        expected = np.diff(block.query_ptr)
        if not np.array_equal(sizes, expected):
            at = int(np.argmax(sizes != expected))
            raise DataError(
                f"{self._where}: {sizes[at]} scores for query {block.query_ids[at]}, which has "
                f"{expected[at]} documents. Score every document once, in the order of the data, "
                "or name documents in a column docid."
            )

    def _check_keys(
        self,
        block: QueryBlock,
        scored: NDArray[np.int64],
        theirs: pa.Array,
        wanted: NDArray[np.int64],
        ours: pa.Array,
        of_query: list[NDArray[np.int64]],
    ) -> None:
        """Raise DataError unless sorted keys of scores are exactly the keys of the documents."""
        repeated = np.flatnonzero(scored[1:] == scored[:-1])
        if len(repeated):
            query = block.query_ids[np.sort(of_query[0])[repeated[0]]]
            raise DataError(
                f"{self._where}: document {theirs[repeated[0]]} of query {query} has more than one "
                "score; give every document one."
            )
        absent = ~np.isin(wanted, scored)
        if absent.any():
            at = int(np.argmax(absent))
            query = block.query_ids[of_query[1][at]]
            raise DataError(
                f"{self._where}: no score for document {ours[at]} of query {query} and "
                f"{int(absent.sum()) - 1} more of its block; score all documents of the data. "
                f"{_A_RUN}"
            )
        unknown = ~np.isin(scored, wanted)
        if unknown.any():
            at = int(np.argmax(unknown))
            query = block.query_ids[np.sort(of_query[0])[at]]
            raise DataError(
                f"{self._where}: the data has no document {theirs[at]} of query {query}; give "
                f"scores of the documents of the data, and of no others. {_A_RUN}"
            )


def _how_to_name(absent: list[str], score: str, where: str) -> str:
    """Advice on columns of scores that have other names."""
    if where == IN_MEMORY:
        return "Give them these names: table.rename(columns=...)."
    ways = ""
    if absent != [score]:
        ways = (
            "Name the columns of ids with --qid-column and --docid-column "
            "(read_scores(path, qid, docid))."
        )
    if score in absent:
        ways += " Name the column of scores with --score-column (read_scores(path, score=...))."
    return ways.strip()
