"""Flat parquet files as a data set, and data sets written as parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from upath import UPath

from dranking.data.block_source import RowsApart
from dranking.data.blocks import MAX_BLOCK_DOCUMENTS, BlockInfo, QueryBlock, block_boundaries
from dranking.data.column_constants import ColumnConstants
from dranking.data.dataset import Dataset
from dranking.data.parquet.advice import ingest_advice
from dranking.data.parquet.common_layout import common_layout
from dranking.data.parquet.files import ParquetFiles
from dranking.data.parquet.hive_folders import find_files, read_footers, with_origins
from dranking.data.roles import DEFAULT_COLUMNS, DOC_ID, QID, RELEVANCE, RESERVED, WEIGHT, Columns
from dranking.data.steps import constants_of, scalings_of
from dranking.data.tables.any_table import no_dataset
from dranking.data.tables.ids import as_ids, check_no_null
from dranking.data.tables.numeric_values import arrow_numbers
from dranking.data.tables.query_rows import QueryScan, repeated_run
from dranking.data.tables.recorded_steps import (
    Schemas,
    recorded_steps,
    steps_metadata,
)
from dranking.data.tables.rows_to_block import rows_to_block
from dranking.errors import DataError, UsageError, listed
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.atomic_files import atomic_path


class ParquetDataset(Dataset):
    """Flat parquet files, one row per document, read in place.

    `columns` says which column is what. A null or NaN relevance means unlabelled; a missing feature
    value is an error, unless the feature is `nullable`. An index that pandas stored is no feature.

    The rows of a query are adjacent, but may continue in the next row group or file. Opening reads
    the query ids and the relevance; reading a block reads just its row groups and columns.

    Parameters
    ----------
    source
        A file, a directory, or several of these in order. Of a directory, the files
        ``*.parquet`` are read, sorted by name with numbers in numerical order.
    columns
        Roles of the columns.
    where
        A condition on folders ``key=value``, see `dranking.data.parquet.where`; None for all files.
    max_documents
        Largest number of documents in a block, unless a single query is larger.
    may_lie_apart
        Open also files in which rows of a query lie apart, see `Dataset.rows_apart`.
    may_lack
        Whether files may lack features of other files, which are missing values then.

    Raises
    ------
    DataError
        If a file does not exist, is damaged, or has other columns than the first file; if a
        column is missing or of a wrong type; if the rows of a query are not adjacent and
        `may_lie_apart` is false; if there are no rows.
    UsageError
        If a column is named for two purposes.
    """

    def __init__(
        self,
        source: AnyPlace | Sequence[AnyPlace],
        *,
        columns: Columns = DEFAULT_COLUMNS,
        where: str | None = None,
        max_documents: int = MAX_BLOCK_DOCUMENTS,
        may_lie_apart: bool = False,
        may_lack: bool = False,
    ) -> None:
        given = [source] if isinstance(source, str | os.PathLike | UPath) else source
        footers = read_footers(find_files(given, where), columns)
        if not footers:
            raise DataError("no parquet file is named; give a file or a directory.")
        self._files = ParquetFiles([footer.part for footer in footers])
        schemas = [
            (footer.part.path, pa.ipc.read_schema(pa.py_buffer(footer.schema)))
            for footer in footers
        ]
        self._layout = common_layout(schemas, columns, may_lack=may_lack)
        self.feature_names = self._layout.feature_names
        self._column_names = list(dict.fromkeys(n for _, schema in schemas for n in schema.names))
        self._nullable = columns.may_miss(self.feature_names)
        self.has_nulls = bool(self._nullable.any())
        self.roles = self._layout.roles
        steps = recorded_steps(schemas, self.feature_names)
        constants, self.transforms = constants_of(steps), scalings_of(steps)
        self._layout = with_origins(self._layout, footers, {} if constants else columns.origins)
        self.constants = constants or ColumnConstants.of_origins(self._layout.origins)
        queries = self._scan(schemas, ingest_advice(given, columns, where, self._layout))
        if self.rows_apart is not None and not may_lie_apart:
            raise self.rows_apart.error()
        ptr = queries.query_ptr
        cuts = block_boundaries(np.diff(ptr), max_documents)
        unlabelled = np.concatenate(([0], np.cumsum(queries.flagged_per_query)))
        self._row_ptr: list[int] = ptr[cuts].tolist()
        n_queries, n_unlabelled = np.diff(cuts).tolist(), np.diff(unlabelled[cuts]).tolist()
        self.blocks = tuple(
            BlockInfo(n, n_queries[b], n * self.n_features, n_unlabelled[b])
            for b, n in enumerate(np.diff(self._row_ptr).tolist())
        )

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block; features are F-ordered from columns, C-ordered from lists.

        Raises
        ------
        DataError
            If the file is damaged or was replaced, or if a value is not allowed; the message names
            the file and the row.
        """
        start, stop = self._row_ptr[index], self._row_ptr[index + 1]
        features = np.arange(self.n_features) if columns is None else columns
        return rows_to_block(
            self._files.read(start, stop, self._layout.to_read(features)),
            self._layout,
            features,
            partial(self._place, start),
            missing=self._nullable[features],
        )

    def _place(self, start: int, row: int) -> str:
        return self._files.place(start + row)

    def query_ids(self) -> pa.Array:
        """(n_queries,) ids of all queries, in order; reads only the id column."""
        return self._find_queries(with_relevance=False).query_ids

    def values_by_query(self, name: str) -> Iterator[tuple[pa.ChunkedArray, pa.ChunkedArray]]:
        """Query ids and values of a column that need be no feature, in pieces of the rows.

        Raises
        ------
        DataError
            If no file has the column.
        """
        if name not in self._column_names:
            raise DataError(
                f"there is no column {name!r}; the columns are {listed(self._column_names)}."
            )
        qid = self._layout.roles.qid
        for _, table in self._files.scan(list(dict.fromkeys([qid, name]))):
            yield table[qid], table[name]

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return self._files.digests()

    def _scan(self, schemas: Schemas, remedy: str) -> QueryScan:
        """Find the queries and whether their rows are adjacent, and fix the type of the ids."""
        queries = self._find_queries(with_relevance=True)
        query_ids = queries.query_ids
        if not len(query_ids):
            raise DataError(
                f"{self._files.parts[0].path}: there are no rows; give files that have rows."
            )
        repeated = repeated_run(query_ids, queries.query_ptr, self._files.place)
        self.rows_apart = None if repeated is None else RowsApart(repeated, remedy)
        if repeated is not None:
            self.n_queries = pc.count_distinct(query_ids).as_py()
        self._layout = replace(
            self._layout,
            qid_is_text=pa.types.is_string(query_ids.type),
            doc_id_is_text=self._layout.doc_id_is_text or self._has_large_doc_ids(schemas),
        )
        return queries

    def _find_queries(self, with_relevance: bool) -> QueryScan:
        roles = self._layout.roles
        relevance = roles.relevance if with_relevance else None
        queries = QueryScan()
        for start, table in self._files.scan([roles.qid, *([relevance] if relevance else [])]):
            is_text, place = self._layout.qid_is_text, partial(self._place, start)
            ids = as_ids(table.column(roles.qid), roles.qid, as_string=is_text, place=place)
            check_no_null(ids, roles.qid, place)
            missing = None
            if relevance:
                missing = np.isnan(arrow_numbers(table.column(relevance)).astype(np.float64))
            queries.add(ids, missing)
        return queries

    def _has_large_doc_ids(self, schemas: Schemas) -> bool:
        """Whether a document id is an integer beyond int64."""
        name = self._layout.roles.docid
        if name is None:
            return False
        unsigned = any(schema.field(name).type == pa.uint64() for _, schema in schemas)
        return unsigned and any(
            pa.types.is_string(as_ids(table.column(name), DOC_ID).type)
            for _, table in self._files.scan([name])
        )


def write_parquet(
    dataset: Dataset,
    path: AnyPlace,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a data set as one flat parquet file, block by block, whole or not at all.

    The columns are ``qid``, ``docid`` if the data has document ids, ``relevance`` (null if
    unlabelled), ``weight`` if the data has query weights, and one float32 column per feature. Every
    block is a row group. Origins that were subtracted, values that were filled in for missing ones,
    and scalings are recorded in the metadata, which other tools lose. Comments are not written.

    Parameters
    ----------
    dataset
        A dense data set.
    path
        File to write; missing parent directories are made.
    overwrite
        Replace a file that exists.
    storage_options
        Options of the file system of a URL, as pandas and Dask take them.

    Raises
    ------
    UsageError
        If the file exists and `overwrite` is false; if the data is sparse; if a feature has the
        name of another column.
    DataError
        If there are no documents or no features.
    """
    if not isinstance(dataset, Dataset):
        raise no_dataset(dataset, "write_parquet")
    if dataset.is_sparse:
        raise UsageError(
            "sparse features would be written with all their zeros; write a dataset directory "
            "(dranking ingest), which stores them sparse."
        )
    clashes = [name for name in dataset.feature_names if name in RESERVED]
    if clashes:
        raise UsageError(
            f"feature {clashes[0]!r} has the name of another column of the file; rename it."
        )
    schema = _schema_to_write(dataset)
    with (
        atomic_path(as_place(path, storage_options), overwrite=overwrite) as temporary,
        pq.ParquetWriter(
            temporary,
            schema,
            compression="lz4",
            use_dictionary=[name for name in RESERVED if name in schema.names],
            column_encoding=dict.fromkeys(dataset.feature_names, "BYTE_STREAM_SPLIT"),
            write_page_checksum=True,
        ) as writer,
    ):
        for index in range(dataset.n_blocks):
            block = dataset.block(index)
            if block.n_documents:
                table = _block_table(block, schema)
                writer.write_table(table, row_group_size=block.n_documents)


def _schema_to_write(dataset: Dataset) -> pa.Schema:
    """Schema of the file, from a pass over the blocks without features."""
    no_columns = np.empty(0, dtype=np.intp)
    query_types, doc_types, has_weights = set(), set(), False
    for index in range(dataset.n_blocks):
        block = dataset.block(index, no_columns)
        if block.n_documents:
            query_types.add(block.query_ids.type)
            doc_types |= set() if block.doc_ids is None else {block.doc_ids.type}
            has_weights = has_weights or block.query_weights is not None
    if not (query_types and dataset.n_features):
        raise DataError("there are no documents or no features to write.")
    fields = [pa.field(QID, _common_type(query_types), nullable=False)]
    if doc_types:
        fields.append(pa.field(DOC_ID, _common_type(doc_types)))
    fields.append(pa.field(RELEVANCE, pa.float64()))
    if has_weights:
        fields.append(pa.field(WEIGHT, pa.float64(), nullable=False))
    # Columns that are not nullable have no definition levels, which saves a third of reading time.
    fields += [pa.field(name, pa.float32(), nullable=False) for name in dataset.feature_names]
    return pa.schema(fields, steps_metadata(dataset.preparation, dataset.feature_names))


def _common_type(types: set[pa.DataType]) -> pa.DataType:
    return types.pop() if len(types) == 1 else pa.string()


def _block_table(block: QueryBlock, schema: pa.Schema) -> pa.Table:
    query = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    columns = {
        QID: block.query_ids.take(pa.array(query)),
        DOC_ID: pa.nulls(block.n_documents) if block.doc_ids is None else block.doc_ids,
        RELEVANCE: pa.array(block.relevance, mask=np.isnan(block.relevance)),
        WEIGHT: pa.array(block.weights[query]),
    }
    arrays = [
        columns[name].cast(schema.field(name).type) for name in RESERVED if name in schema.names
    ]
    arrays += [pa.array(np.ascontiguousarray(values)) for values in block.features.T]
    return pa.Table.from_arrays(arrays, schema=schema)
