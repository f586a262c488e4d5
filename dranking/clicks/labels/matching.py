"""Labels of clicks for the documents of a data set, found by query id and document id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.labels.labels import LabelRules, labels_of
from dranking.clicks.propensities.propensities import Propensities
from dranking.clicks.store.source import ClickSource, QueryFold, bucket_tasks
from dranking.data.blocks import QueryBlock
from dranking.engine.executor import Executor
from dranking.errors import DataError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SEPARATOR = "\x1f"
"""Stands between the number of a query and the id of a document in keys."""


@dataclass(frozen=True)
class LabelTable:
    """Labels of documents, grouped by query.

    Attributes
    ----------
    query_ids
        (n_queries,) pyarrow array of texts.
    query_ptr
        (n_queries + 1,) int64; the rows of a query are adjacent.
    query_weights
        (n_queries,) float64, or None.
    document_ids
        (n_rows,) pyarrow array of texts.
    values, variances
        (n_rows,) float64.
    n_deep
        Number of impressions at positions without propensities.
    """

    query_ids: pa.Array
    query_ptr: Integers
    query_weights: Array | None
    document_ids: pa.Array
    values: Array
    variances: Array
    n_deep: int

    @property
    def n_documents(self) -> int:
        """Number of documents that were shown."""
        return len(self.values)

    def of_queries(self, rows: Integers) -> LabelTable:
        """The labels of the queries at these positions; -1 stands for a query without labels."""
        there = np.maximum(rows, 0)
        ptr, taken = self._taken(rows)
        weights = self.query_weights
        return replace(
            self,
            query_ids=self.query_ids.take(pa.array(rows, mask=rows < 0)),
            query_ptr=ptr,
            query_weights=None if weights is None else np.where(rows < 0, 0.0, weights[there]),
            document_ids=self.document_ids.take(pa.array(taken)),
            values=self.values[taken],
            variances=self.variances[taken],
        )

    def rows_of(self, rows: Integers) -> Integers:
        """The row in this table of each row of `of_queries(rows)`."""
        return self._taken(rows)[1]

    def _taken(self, rows: Integers) -> tuple[Integers, Integers]:
        """`query_ptr` of some queries, and the rows of their documents."""
        there = np.maximum(rows, 0)
        starts = self.query_ptr[there]
        sizes = np.where(rows < 0, 0, self.query_ptr[there + 1] - starts)
        ptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        return ptr, np.arange(ptr[-1]) - np.repeat(ptr[:-1], sizes) + np.repeat(starts, sizes)


def label_table(
    source: ClickSource, propensities: Propensities, rules: LabelRules, run: Executor
) -> LabelTable:
    """The labels of all queries of the counts; query weights have the mean 1."""
    n_folds = len(propensities.folds)
    sources: list[tuple[ClickSource, Propensities]] = [(source, propensities)]
    if n_folds:
        sources = [(QueryFold(source, k, n_folds), own) for k, own in enumerate(propensities.folds)]
    tasks = [
        task
        for some, own in sources
        for task in bucket_tasks(_table_of, some, run, own, rules, name="labels")
    ]
    parts = run.gather(tasks)
    sizes = np.concatenate([np.diff(part.query_ptr) for part in parts])
    weights = None
    if parts[0].query_weights is not None:
        weights = np.concatenate([part.query_weights for part in parts])
        weights = weights / weights[weights > 0].mean() if (weights > 0).any() else weights
    return LabelTable(
        query_ids=pa.concat_arrays([part.query_ids for part in parts]),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_weights=weights,
        document_ids=pa.concat_arrays([part.document_ids for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        variances=np.concatenate([part.variances for part in parts]),
        n_deep=sum(part.n_deep for part in parts),
    )


def _table_of(counts: ClickCounts, propensities: Propensities, rules: LabelRules) -> LabelTable:
    labels = labels_of(counts, propensities, rules)
    sizes = np.bincount(labels.query, minlength=len(counts.query_ids))
    return LabelTable(
        query_ids=pa.array(counts.query_ids.tolist(), pa.string()),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_weights=labels.query_weights,
        document_ids=pa.array(counts.document_ids[labels.document].tolist(), pa.string()),
        values=labels.values,
        variances=labels.variances,
        n_deep=labels.n_deep,
    )


def relabelled(
    blocks: Sequence[QueryBlock], table: LabelTable
) -> tuple[list[QueryBlock], NDArray[np.bool_]]:
    """Blocks with the labels of a table, whose queries are those of the blocks, in order.

    Documents that are not in the table have no label. Query weights of the table, if there are any,
    take the place of those of the blocks.

    Returns
    -------
    blocks, is_matched
        The blocks, and (n_rows,) whether a block has the document of a row of the table.

    Raises
    ------
    DataError
        If a block has no document ids.
    """
    done, first = [], 0
    is_matched = np.zeros(table.n_documents, bool)
    for block in blocks:
        own = table.of_queries(np.arange(first, first + block.n_queries))
        before = table.query_ptr[first]
        first += block.n_queries
        rows = matching_rows(block, own)
        relevance = np.full(block.n_documents, np.nan)
        relevance[rows >= 0] = own.values[rows[rows >= 0]]
        is_matched[before + rows[rows >= 0]] = True
        weights = block.query_weights if own.query_weights is None else own.query_weights
        done.append(replace(block, relevance=relevance, query_weights=weights))
    return done, is_matched


def document_ids_of(block: QueryBlock) -> pa.Array:
    """(n_documents,) pyarrow array of the document ids of a block, as texts.

    Raises
    ------
    DataError
        If the block has no document ids.
    """
    if block.doc_ids is None:
        raise DataError(
            "the data has no document ids, by which clicks find their documents; ingest it with "
            "document ids (dranking ingest --docid-column)."
        )
    return _texts(block.doc_ids)


def matching_rows(block: QueryBlock, table: LabelTable) -> Integers:
    """(n_documents,) row of each document in a table of the same queries; -1 where it has none."""
    rows = pc.index_in(
        _keys(block.query_ptr, document_ids_of(block)), _keys(table.query_ptr, table.document_ids)
    )
    found: Integers = rows.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def query_rows(table: LabelTable, query_ids: pa.Array) -> Integers:
    """Position in the table of each query of a data set; -1 where the table lacks it."""
    rows = pc.index_in(_texts(query_ids), table.query_ids).fill_null(-1)
    found: Integers = rows.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _keys(query_ptr: Integers, document_ids: pa.Array) -> pa.Array:
    """Texts that name a document of a query; the position of the query stands for its id."""
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    return pc.binary_join_element_wise(pa.array(query).cast(pa.string()), document_ids, SEPARATOR)


def _texts(ids: Any) -> pa.Array:
    return ids.cast(pa.string())
