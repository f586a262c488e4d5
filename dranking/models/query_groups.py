"""Groups of judged queries by a column of the data, or by values of queries from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.parquet.dataset import ParquetDataset
from dranking.data.roles import DOCUMENT_NAMES, QUERY_NAMES
from dranking.data.tables.any_table import as_table, is_dask_frame, is_table
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, UsageError, listed
from dranking.metrics.query_groups import (
    QueryGroups,
    groups_of_queries,
    is_mapping_of_queries,
    read_query_groups,
)
from dranking.metrics.scores.rows import first_of


def query_groups(by: Any) -> QueryGroups | None:
    """Groups that need no data: values of queries; None for the name of a column.

    Raises
    ------
    UsageError
        If it is something else.
    """
    if isinstance(by, QueryGroups):
        return by
    if isinstance(by, str):
        return None
    if is_mapping_of_queries(by):
        return groups_of_queries(by)
    raise UsageError(
        f"by is a {type(by).__name__}; give the name of a column of the data, or a mapping or a "
        "pandas Series from query id to value."
    )


def read_again(data: Any) -> Any:
    """Data that can be read twice: a stream as the table that it holds, other data as it is."""
    is_frame = is_dask_frame(data) or hasattr(data, "iloc")
    return as_table(data) if is_table(data) and not is_frame else data


def groups_of_frame(by: Any, frame: Any) -> tuple[Any, Any]:
    """Groups by a column of a dask DataFrame, and the frame without this column if it is text.

    Other data than a dask DataFrame, and other groups, come back as they are.
    """
    qid = QUERY_NAMES[0]
    if not isinstance(by, str) or not is_dask_frame(frame) or qid not in frame.columns:
        return by, frame
    if by not in frame.columns:
        raise _no_column(by, f"the columns are {listed([*map(str, frame.columns)])}")
    rows = as_table(frame[[*dict.fromkeys([qid, by])]].drop_duplicates().compute())
    groups = QueryGroups.of_rows(by, [(rows[qid], rows[by])], "the data")
    # Columns of a frame that are no ids are features, which texts cannot be.
    is_kept = by in {*QUERY_NAMES, *DOCUMENT_NAMES} or frame.dtypes[by].kind in "biuf"
    return groups, frame if is_kept else frame.drop(columns=by)


def groups_of_judgements(by: Any, judgements: Any) -> QueryGroups:
    """Groups by values of queries, or by a column of a table of judgements."""
    if (found := query_groups(by)) is not None:
        return found
    if isinstance(judgements, str | os.PathLike):
        return read_query_groups(judgements, by)
    if not is_table(judgements):
        raise _no_column(by, "the judgements are no table")
    table = as_table(judgements)
    qid = first_of(QUERY_NAMES, table.column_names)
    if qid is None or by not in table.column_names:
        raise _no_column(by, f"the columns are {listed(table.column_names)}")
    return QueryGroups.of_rows(by, [(table[qid], table[by])], "the judgements")


def groups_of_data(by: Any, data: Any, dataset: Dataset, executor: Executor) -> QueryGroups:
    """Groups by values of queries, or by a column of data with features.

    Parameters
    ----------
    by
        As in `dranking.evaluate`.
    data
        What the user gave: of a table, columns are read that are no features.
    dataset
        The same as a data set.
    executor
        Executor of the pass over a feature.
    """
    if (found := query_groups(by)) is not None:
        return found
    qid = dataset.roles.qid
    if is_table(data):
        table = as_table(data)
        if by not in table.column_names:
            raise _no_column(by, f"the columns are {listed(table.column_names)}")
        return QueryGroups.of_rows(by, [(table[qid], table[by])], "the data")
    if isinstance(dataset, ParquetDataset):
        return QueryGroups.of_rows(by, dataset.values_by_query(by), "the data")
    if by not in dataset.feature_names:
        raise _no_column(by, "data that is no table and no parquet has its features alone")
    return QueryGroups.of_rows(by, _feature_values(by, dataset, executor), "the data")


def _feature_values(by: str, dataset: Dataset, executor: Executor) -> Iterator[tuple[Any, Any]]:
    """Query ids, and values of a feature, one for each run of rows with one value."""
    columns = dataset.columns_of([by])
    yield from map_blocks(
        _runs_of_values, dataset, executor, columns=columns, name="values of queries"
    )


def _runs_of_values(block: QueryBlock) -> tuple[Any, NDArray[np.float32]]:
    column = block.features[:, [0]]
    values = np.asarray(column.toarray() if block.is_sparse else column).ravel()
    query = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    changes = (np.diff(query, prepend=-1) != 0) | (np.diff(values, prepend=np.nan) != 0)
    rows = np.flatnonzero(changes)
    return block.query_ids.take(query[rows]), values[rows]


def _no_column(by: str, found: str) -> DataError:
    return DataError(
        f"there is no column {by!r} to group the queries by: {found}. Give a column of the data, "
        "or values of queries: --by FILE:COLUMN, in Python a mapping from query id to value."
    )
