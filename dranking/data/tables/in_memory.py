"""Data sets in memory, from arrays and from flat tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import MAX_BLOCK_DOCUMENTS, QueryBlock, block_boundaries
from dranking.data.column_constants import ColumnConstants, NullPolicy, Shift, ValueRule
from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset
from dranking.data.filling import filled
from dranking.data.roles import DEFAULT_COLUMNS, DEFAULT_ROLES, Columns, Roles
from dranking.data.steps import Filling, constants_of, every_gap, scalings_of
from dranking.data.tables.alignment import aligned, weights_of_queries
from dranking.data.tables.any_table import as_table, check_index
from dranking.data.tables.columns import find_layout
from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.data.tables.given_rows import (
    as_features,
    block_features,
    check_lengths,
    given_row,
    span,
    taken,
)
from dranking.data.tables.ids import as_ids, check_no_null, row_place
from dranking.data.tables.index_columns import say_index_features
from dranking.data.tables.lost_digits import (
    NO_ORIGINS,
    Origins,
    check_raw,
    no_lists,
    origins_of,
    ranges_in_memory,
)
from dranking.data.tables.numeric_values import (
    Nullable,
    as_numbers,
    check_relevance,
)
from dranking.data.tables.query_rows import order_by_query, run_starts
from dranking.data.tables.recorded_steps import recorded_steps
from dranking.data.tables.refused_columns import TABLE
from dranking.data.tables.rows_to_block import concat_ids, rows_to_block
from dranking.data.tables.vectors import spread_table, with_vectors
from dranking.errors import DataError, UsageError


class MemoryDataset(Dataset):
    """Blocks held in the memory of this process.

    Parameters
    ----------
    blocks
        Blocks with equal numbers of features, all dense or all CSR.
    feature_names
        One unique name per column.
    transforms
        Scalings already applied to the values.
    roles
        Names of the columns that are not features, where the blocks come from a table.

    Raises
    ------
    DataError
        If there are no documents, or blocks and names differ in their number of features.
    """

    in_memory = True
    row_order: NDArray[np.int64] | None = None
    """(n_documents,) number of each row among those given; None where the order is theirs."""

    def __init__(
        self,
        blocks: Iterable[QueryBlock],
        feature_names: Iterable[str],
        transforms: Sequence[Scaling] = (),
        roles: Roles = DEFAULT_ROLES,
    ) -> None:
        self._blocks = tuple(blocks)
        self.feature_names = check_feature_names(feature_names)
        self.transforms = tuple(transforms)
        self.roles = roles
        self.blocks = tuple(block.info for block in self._blocks)
        if not self.n_documents:
            raise DataError("there are no documents; give at least one.")
        self.is_sparse = self._blocks[0].is_sparse
        for block in self._blocks:
            if block.n_features != self.n_features:
                raise DataError(
                    f"query {block.query_ids[0]} has {block.n_features} features, but there are "
                    f"{self.n_features} feature names."
                )

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The block itself, or a copy of some of its columns."""
        block = self._blocks[index]
        return block if columns is None else block.with_features(block.features[:, columns])

    def filled(
        self, constants: ColumnConstants | None, filling: Filling | None = None
    ) -> MemoryDataset:
        """The data set with values for missing ones; blocks without gaps are shared."""
        chosen = filling or every_gap(self.feature_names, constants)
        blocks = [chosen.of_columns(block) for block in self._blocks]
        data = MemoryDataset(blocks, chosen.names, self.transforms, self.roles)
        data.constants = constants
        data.row_order, data.is_reordered = self.row_order, self.is_reordered
        return data

    def in_given_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all documents, (n_documents, ...), in the order of the rows given."""
        if self.row_order is None:
            return super().in_given_order(values)
        found = np.empty_like(values)
        found[self.row_order] = values
        return found

    def in_own_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all rows given, (n_documents, ...), in the order of the documents."""
        return super().in_own_order(values) if self.row_order is None else values[self.row_order]


def from_arrays(  # noqa: PLR0913 - one call with keywords
    X: Any,
    y: Any,
    qid: Any,
    *,
    query_weights: Any = None,
    doc_ids: Any = None,
    feature_names: Sequence[str] | None = None,
    null: NullPolicy = "error",
    null_indicator: bool = False,
    shift: Shift = "none",
    max_documents: int = MAX_BLOCK_DOCUMENTS,
) -> MemoryDataset:
    """Make a data set from features, relevance and query ids in memory.

    Values of rows belong to the rows of `X` in order; where both have a pandas index, by label.

    Parameters
    ----------
    X
        (n_documents, n_features) finite numbers: NumPy array, scipy.sparse matrix or array (kept
        sparse), a table as `from_table` takes it, or nested sequences. C-ordered float32 is used
        in place and must not change while the data set is in use; every other form is converted
        to float32 block by block.
    y
        (n_documents,) relevance; NaN or null for an unlabelled document. None stands for no
        labels at all.
    qid
        (n_documents,) ids of the queries, integers or strings. Rows of a query that lie apart are
        brought together: queries by first appearance, rows of a query in the order given.
    query_weights
        Numbers, at least 0: a mapping from query id to weight, a pandas Series indexed by query id,
        a table with the columns ``qid`` and ``weight``; or (n_queries,) numbers in the order in
        which the queries come in the rows. None stands for ones.
    doc_ids
        (n_documents,) ids of the documents, integers or strings.
    feature_names
        (n_features,) unique names. None stands for the column names of a table, otherwise for
        f1, f2, ...
    null
        The meaning of a missing value of `X`: "error"; or "zero", "minimum" or "mean", that of the
        feature over all documents. Models that are trained on the data set record the values.
    null_indicator
        Beside `null`: whether further features tell of missing values, as in `LinearRanker.fit`.
    shift
        "auto" subtracts an origin from values that float32 would merge, as in `LinearRanker.fit`.
    max_documents
        Largest number of documents in a block, unless a single query is larger.

    Raises
    ------
    DataError
        If lengths differ, a value is missing or beyond float32 (the message names row, column and
        query).
    UsageError
        If `qid` is None, a table has a column ``qid`` or ``relevance`` of its own, or indexes
        differ and do not tell which values belong to which rows; if there is no such `null`.

    Warns
    -----
    DataWarning
        If rows of a query lie apart, values are joined to rows by the labels of an index in another
        order, or a column of `X` has a name that tools give to the index of a frame.
    """
    rule = ValueRule.of(null, null_indicator, shift)
    rows = rows_in_memory(
        X,
        y,
        qid,
        query_weights=query_weights,
        doc_ids=doc_ids,
        feature_names=feature_names,
        nullable=rule.permits,
        origins="auto" if rule.shift == "auto" else NO_ORIGINS,
        max_documents=max_documents,
    )
    return filled(rows, rule)


def rows_in_memory(  # noqa: PLR0913 - one call with keywords
    X: Any,
    y: Any,
    qid: Any,
    *,
    query_weights: Any = None,
    doc_ids: Any = None,
    feature_names: Sequence[str] | None = None,
    nullable: Nullable = False,
    origins: Origins = NO_ORIGINS,
    max_documents: int = MAX_BLOCK_DOCUMENTS,
) -> MemoryDataset:
    """The data set of `from_arrays`, in which values of `nullable` features may be missing.

    `origins` are subtracted from columns before the conversion to float32.
    """
    if qid is None:
        raise UsageError("qid is missing; pass the query id of each row as qid=.")
    y, qid, doc_ids = aligned(X, y=y, qid=qid, doc_ids=doc_ids).values()
    features, names = as_features(X)
    names = names if feature_names is None else tuple(feature_names)
    if names is None:
        names = default_feature_names(features.shape[1])
    n_documents = features.shape[0]
    ids = as_ids(qid, "qid")
    check_no_null(ids, "qid")
    relevance = np.full(n_documents, np.nan) if y is None else as_numbers(y, "y")
    documents = None if doc_ids is None else as_ids(doc_ids, "doc_ids")
    check_lengths(n_documents, qid=ids, y=relevance, doc_ids=documents)
    check_lengths(features.shape[1], "columns", feature_names=names)
    if isinstance(features, pa.Table):
        features = features.rename_columns(list(names))
        if y is not None:  # scores have no labels
            say_index_features(features.schema)
    if origins == "auto" and sparse.issparse(features):
        raise UsageError(
            "shift: not for sparse features, whose zeros would be zeros no longer; give X.toarray()"
            ", or leave shift out."
        )
    check_raw(features, names, origins, "X")
    subtracted = origins_of(ranges_in_memory(features, names), names, origins, "X")
    if len(subtracted) and sparse.issparse(features):
        features = features.toarray()
    check_relevance(relevance)
    may_miss = np.broadcast_to(nullable, len(names))
    order = order_by_query(ids)
    in_order = ids if order is None else ids.take(pa.array(order))
    query_ptr = np.append(run_starts(in_order), n_documents)
    query_ids = in_order.take(pa.array(query_ptr[:-1]))
    weights = None
    if query_weights is not None:
        weights = weights_of_queries(query_weights, query_ids)

    def block(first: int, last: int) -> QueryBlock:
        rows = span(query_ptr[first], query_ptr[last], order)
        return QueryBlock(
            features=block_features(features, rows, names, ids, may_miss, subtracted),
            relevance=relevance[rows],
            query_ptr=query_ptr[first : last + 1] - query_ptr[first],
            query_ids=query_ids[first:last],
            doc_ids=None if documents is None else taken(documents, rows),
            query_weights=None if weights is None else weights[first:last],
        )

    data = MemoryDataset(_blocks(block, query_ptr, max_documents), names)
    data.row_order, data.is_reordered = order, order is not None
    data.constants, data.has_nulls = ColumnConstants.of_origins(subtracted), bool(may_miss.any())
    return data


def from_table(
    table: Any,
    columns: Columns | Mapping[str, Any] = DEFAULT_COLUMNS,
    *,
    null: NullPolicy = "error",
    null_indicator: bool = False,
    shift: Shift = "none",
    max_documents: int = MAX_BLOCK_DOCUMENTS,
) -> MemoryDataset:
    """Make a data set from a flat table in memory, one row per document.

    Parameters
    ----------
    table
        pandas DataFrame; pyarrow table, record batch, record-batch reader, data set or scanner;
        Polars frame or lazy frame; DuckDB relation; or another object with ``__arrow_c_stream__``.
        It is read into memory. Scalings recorded in the table's metadata, as `write_parquet` does,
        count as applied.
    columns
        The roles of the columns: `Columns`, or a mapping such as ``{"qid": "query_id"}``.
    null, null_indicator, shift
        The meaning of a missing feature value, and whether origins are subtracted, as in
        `from_arrays`.
    max_documents
        Largest number of documents in a block, unless a single query is larger.

    Raises
    ------
    DataError
        If a column is missing or of a wrong type, or a value is not allowed (the message names row,
        column and query).
    UsageError
        If a column is named for two purposes, or there is no such `null`.

    Examples
    --------
    A pyarrow data set reads hive folders and filters rows. Delta Lake and Iceberg hand out their
    tables as one, too: ``DeltaTable(url).to_pyarrow_dataset()``, and of an Iceberg table
    ``table.scan(row_filter="date >= '2026-11-01'").to_arrow_batch_reader()``.

    >>> import tempfile, pyarrow as pa, pyarrow.dataset as pads, dranking as dr
    >>> rows = pa.table({
    ...     "date": ["2026-10-31", "2026-11-01", "2026-11-01"],
    ...     "query_id": [1, 2, 2],
    ...     "label": [0, 1, 0],
    ...     "bm25": [0.5, 2.5, 1.5],
    ... })
    >>> folder = tempfile.mkdtemp()
    >>> dates = pads.partitioning(pa.schema([("date", pa.string())]), flavor="hive")
    >>> pads.write_dataset(rows, folder, format="parquet", partitioning=dates)
    >>> lake = pads.dataset(folder, partitioning=dates)
    >>> newest = lake.scanner(filter=pads.field("date") >= "2026-11-01")
    >>> columns = dr.Columns(qid="query_id", relevance="label", exclude=["date"])
    >>> ds = dr.from_table(newest, columns)
    >>> ds.n_queries, ds.n_documents, ds.feature_names
    (1, 2, ('bm25',))
    """
    rule = ValueRule.of(null, null_indicator, shift)
    columns = Columns.of(columns).nullable_if(rule.permits).shifted_if(rule.shift == "auto")
    check_index(table, columns)
    return filled(rows_of_table(as_table(table), columns, TABLE, max_documents), rule)


def rows_of_table(
    table: pa.Table, columns: Columns, where: str, max_documents: int = MAX_BLOCK_DOCUMENTS
) -> MemoryDataset:
    """The data set of `from_table`, in which values may be missing; `where` names it in errors."""
    table = spread_table(table, columns, lambda row: f"{where}: row {row}")
    columns = with_vectors(columns, table.schema)
    layout = find_layout(table.schema, columns, where)
    names = layout.feature_names
    steps = recorded_steps([(where, table.schema)], names)
    wanted = {} if constants_of(steps) is not None else columns.origins
    if wanted == "auto" and layout.width is not None:
        raise no_lists(where)
    check_raw(table, layout.columns, wanted, where)
    ranges = ranges_in_memory(table, layout.columns)
    layout = replace(layout, origins=origins_of(ranges, layout.columns, wanted, where))
    ids = concat_ids([table], layout.roles.qid, layout.qid_is_text)
    check_no_null(ids, layout.roles.qid)
    order = order_by_query(ids)
    query_ptr = np.append(run_starts(ids if order is None else ids.take(order)), len(ids))
    positions = np.arange(len(layout.feature_names))
    may_miss = columns.may_miss(layout.feature_names)

    def block(first: int, last: int) -> QueryBlock:
        rows = span(query_ptr[first], query_ptr[last], order)
        place = lambda row: row_place(given_row(rows, row))  # noqa: E731
        return rows_to_block([taken(table, rows)], layout, positions, place, missing=may_miss)

    blocks = _blocks(block, query_ptr, max_documents)
    data = MemoryDataset(blocks, names, scalings_of(steps), layout.roles)
    data.row_order, data.is_reordered = order, order is not None
    data.constants = constants_of(steps) or ColumnConstants.of_origins(layout.origins)
    data.has_nulls = bool(may_miss.any())
    return data


def _blocks(
    make: Callable[[int, int], QueryBlock], query_ptr: NDArray[np.int64], max_documents: int
) -> Iterable[QueryBlock]:
    cuts = block_boundaries(np.diff(query_ptr), max_documents).tolist()
    return (make(first, last) for first, last in pairwise(cuts))
