"""Reading the blocks of one segment in order; every chunk is fetched and decoded once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from itertools import islice
from math import prod
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock, canonical_csr
from dranking.data.store.manifest import DatasetManifest, IdType, SegmentEntry
from dranking.data.store.segment_files import SegmentFiles
from dranking.data.store.segment_layout import (
    DOCUMENTS_FILE,
    QUERIES_FILE,
    array_specs,
    object_name,
)
from dranking.data.store.zarr_arrays import ColumnReader, Grid, row_groups
from dranking.files.checksums import Bytes, DamagedFileError
from dranking.files.places import Place

WINDOW_BYTES = 10 * 2**20
"""Decoded bytes of the chunks that are fetched together from an object store, about 8 MiB
compressed."""

WINDOWS_AHEAD = 2
"""Windows of a segment that are fetched while another is decoded, from an object store."""

Columns = NDArray[np.intp]
Item = TypeVar("Item")
Value = TypeVar("Value")


class SegmentReader:
    """An open segment.

    Content that the writer never produces is refused even if its checksum is right, because kernels
    do not check pointers.

    Parameters
    ----------
    root
        The data set.
    manifest
        Its manifest.
    entry
        The entry of the segment in the index.

    Raises
    ------
    DataError
        If a file is missing or damaged; the message names the segment, the file and the remedy.
    """

    def __init__(self, root: Place, manifest: DatasetManifest, entry: SegmentEntry) -> None:
        self._manifest, self._entry = manifest, entry
        self._documents = _borders([block.n_documents for block in entry.blocks])
        self._values = _borders([block.n_values for block in entry.blocks])
        n_documents, n_values = self._documents[-1], self._values[-1]
        self._specs = array_specs(manifest.sparse, entry.n_features, n_documents, n_values)
        self._files = SegmentFiles(root, entry, self._specs)
        documents, queries = self._files.tables()
        self._document_table = _Table(
            self._files, DOCUMENTS_FILE, documents, [b.n_documents for b in entry.blocks]
        )
        self._query_table = _Table(
            self._files, QUERIES_FILE, queries, [b.n_queries for b in entry.blocks]
        )

    def blocks(
        self,
        first: int,
        last: int,
        columns: Columns | None = None,
        pool: Executor | None = None,
    ) -> Iterator[QueryBlock]:
        """The blocks from `first` to before `last` of the segment; see `Dataset.block`.

        With a pool, chunks are fetched ahead, beginning with this call.
        """
        read = self._csr if self._manifest.sparse else self._dense
        features = read(first, last, columns, pool)
        return map(self._block, range(first, last), features)

    def blocks_without_features(self) -> Iterator[QueryBlock]:
        """All blocks of the segment with no columns of features; no chunk of features is read."""
        for number, entry in enumerate(self._entry.blocks):
            yield self._block(number, np.empty((entry.n_documents, 0), np.float32))

    def features_of(self, number: int, rows: NDArray[np.bool_]) -> FeatureMatrix:
        """Features of the documents of a block in `rows`; see `Dataset.features_of`."""
        if self._manifest.sparse:
            (features,) = self._csr(number, number + 1, None, None)
            return features[rows]
        n_features = len(self._manifest.feature_names)
        all_rows = None if self._entry.n_features == n_features else np.arange(n_features)
        wanted = self._documents[number] + np.flatnonzero(rows)
        width = self._specs["features"].grid.columns_per_chunk
        ends = np.flatnonzero(np.diff(wanted // width) > 1) + 1
        parts = []
        with self._files.decoded(object_name("features", self._specs["features"])):
            for part in np.split(wanted, ends):
                start, end = int(part[0]), int(part[-1]) + 1
                reader = self._reader("features", all_rows, start, end, None)
                parts.append(reader.read(start, end).take(part - start, axis=1))
        values = np.concatenate(parts, axis=1)
        values.flags.writeable = False
        return values.T

    def _block(self, number: int, features: Any) -> QueryBlock:
        documents = self._document_table.read(number, relevance=pa.float64())
        queries = self._query_table.read(number, n_documents=pa.int64())
        sizes = _numbers(queries, "n_documents")
        if sizes.min() < 1 or sizes.max() > len(documents):
            raise self._files.damaged(
                QUERIES_FILE, "has a query without documents, or with too many"
            )
        query_ptr = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(sizes, out=query_ptr[1:])
        query_ptr.flags.writeable = False
        try:
            return QueryBlock(
                features=features,
                relevance=_numbers(documents, "relevance"),
                query_ptr=query_ptr,
                query_ids=_ids(queries, "query_id", self._manifest.query_id_type),
                doc_ids=_optional_ids(documents, "doc_id", self._manifest.doc_id_type),
                comments=_optional_ids(documents, "comment", "string"),
                query_weights=self._weights(queries),
            )
        except (ValueError, KeyError, pa.ArrowException) as error:
            raise self._files.damaged(
                QUERIES_FILE, f"does not fit the index of segments: {error}"
            ) from error

    def _weights(self, queries: pa.Table) -> NDArray[np.float64] | None:
        if "weight" not in queries.schema.names or queries["weight"].null_count == len(queries):
            return None
        self._query_table.check(queries, weight=pa.float64())
        weights: NDArray[np.float64] = _numbers(queries, "weight")
        return weights

    def _dense(
        self, first: int, last: int, columns: Columns | None, pool: Executor | None
    ) -> Iterator[Any]:
        """For each block (n_documents, n_columns) float32, F-ordered."""
        borders, n_features = self._documents, len(self._manifest.feature_names)
        rows = None
        if columns is not None or self._entry.n_features < n_features:
            rows = checked_columns(columns, n_features)
        reader = self._reader("features", rows, borders[first], borders[last], pool)

        def read(number: int) -> Any:
            with self._files.decoded(object_name("features", self._specs["features"])):
                values = reader.read(borders[number], borders[number + 1])
            values.flags.writeable = False
            return values.T

        return map(read, range(first, last))

    def _csr(
        self, first: int, last: int, columns: Columns | None, pool: Executor | None
    ) -> Iterator[sparse.csr_array]:
        """For each block a CSR array of float32 with sorted indices."""
        n_features = len(self._manifest.feature_names)
        wanted = None if columns is None else checked_columns(columns, n_features)
        if wanted is not None and not len(wanted):
            sizes = [block.n_documents for block in self._entry.blocks[first:last]]
            return (sparse.csr_array((size, 0), dtype=np.float32) for size in sizes)
        of_values = (self._values[first], self._values[last])
        of_pointers = (self._documents[first], self._documents[last] + 1)
        pointers = self._reader("indptr", None, *of_pointers, pool)
        readers = [self._reader(name, None, *of_values, pool) for name in ("indices", "data")]

        def read(number: int) -> sparse.csr_array:
            values = self._values[number : number + 2]
            documents = self._documents[number : number + 2]
            with self._files.decoded(object_name("indices", self._specs["indices"])):
                indptr = pointers.read(documents[0], documents[1] + 1)[0] - values[0]
                indices, data = (reader.read(*values)[0] for reader in readers)
                _check_csr(indptr, indices, n_features)
            return self._csr_array(number, indptr, indices, data, wanted)

        return map(read, range(first, last))

    def _csr_array(
        self, number: int, indptr: Any, indices: Any, data: Any, wanted: Columns | None
    ) -> sparse.csr_array:
        n_documents = self._entry.blocks[number].n_documents
        shape = (n_documents, len(self._manifest.feature_names))
        features = canonical_csr(data, indices, indptr, shape)
        if wanted is not None:
            features = features[:, wanted]
            features.sort_indices()
        for part in (features.data, features.indices, features.indptr):
            part.flags.writeable = False
        return features

    def _reader(
        self, name: str, rows: Columns | None, start: int, end: int, pool: Executor | None
    ) -> ColumnReader:
        """A reader of the columns from `start` to before `end` of an array."""
        spec = self._specs[name]
        groups = row_groups(spec.grid, rows)
        # On local disks a request costs little, and the least memory is best.
        window_bytes = 0 if pool is None else WINDOW_BYTES
        chunk_bytes = np.dtype(spec.dtype).itemsize * prod(spec.grid.chunk_shape) * len(groups)
        size = max(1, window_bytes // max(1, chunk_bytes))
        needed = spec.grid.column_groups(start, end)
        windows = [needed[i : i + size] for i in range(0, len(needed), size)]
        fetch = partial(self._fetch, object_name(name, spec), spec.grid, groups)
        fetched = read_ahead(fetch, windows, pool if groups else None, WINDOWS_AHEAD)
        contents = (content for window in fetched for content in window)
        return ColumnReader(spec.grid, spec.dtype, rows, end, contents)

    def _fetch(self, file: str, grid: Grid, groups: list[int], window: range) -> list[list[Bytes]]:
        """Contents of chunks: for each group of columns of a window, for some groups of rows."""
        numbers = [column * grid.n_row_groups + row for column in window for row in groups]
        if not numbers:
            return [[] for _ in window]
        contents = self._files.chunks(file, numbers)
        return [contents[i : i + len(groups)] for i in range(0, len(contents), len(groups))]


def read_query_ids(root: Place, manifest: DatasetManifest, entry: SegmentEntry) -> pa.Array:
    """Ids of the queries of a segment; fetches no documents. See `SegmentReader`."""
    n_documents = sum(block.n_documents for block in entry.blocks)
    n_values = sum(block.n_values for block in entry.blocks)
    specs = array_specs(manifest.sparse, entry.n_features, n_documents, n_values)
    files = SegmentFiles(root, entry, specs)
    sizes = [block.n_queries for block in entry.blocks]
    table = _Table(files, QUERIES_FILE, files.queries(), sizes)
    tables = [table.read(number) for number in range(len(sizes))]
    return _ids(pa.concat_tables(tables), "query_id", manifest.query_id_type)


class _Table:
    """A verified parquet file of a segment, with a row group for each block."""

    def __init__(self, files: SegmentFiles, name: str, content: bytes, sizes: list[int]) -> None:
        self._files, self._name = files, name
        self._content = pa.py_buffer(content)
        try:
            self._metadata = pq.ParquetFile(pa.BufferReader(self._content)).metadata
        except (pa.ArrowException, OSError) as error:
            raise files.damaged(name, f"is not parquet ({error})") from error
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        if [group.num_rows for group in groups] != sizes:
            raise files.damaged(name, "has other rows than the index of segments says")

    def read(self, number: int, **types: pa.DataType) -> pa.Table:
        """The rows of one block; `types` are columns that must be there, without nulls."""
        source = pa.BufferReader(self._content)
        try:
            file = pq.ParquetFile(source, metadata=self._metadata)
            table = file.read_row_group(number, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._files.damaged(self._name, f"is not parquet ({error})") from error
        self.check(table, **types)
        return table

    def check(self, table: pa.Table, **types: pa.DataType) -> None:
        """Raise DataError unless a table has these columns, without nulls."""
        for column, kind in types.items():
            if column not in table.schema.names or table.schema.field(column).type != kind:
                raise self._files.damaged(self._name, f"has no column {column} of {kind}")
            if table[column].null_count:
                raise self._files.damaged(self._name, f"has no {column} in some row")


def read_ahead(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    pool: Executor | None,
    n_ahead: int,
) -> Iterator[Value]:
    """Results of `function` in order; a pool begins now, and stays `n_ahead` results ahead."""
    if pool is None:
        return map(function, items)
    waiting = iter(items)
    pending: deque[Future[Value]] = deque(
        pool.submit(function, item) for item in islice(waiting, n_ahead)
    )

    def results() -> Iterator[Value]:
        try:
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(function, item) for item in islice(waiting, 1))
                yield result
        finally:
            for future in pending:
                future.cancel()

    return results()


def _borders(sizes: list[int]) -> list[int]:
    """The row at which each block begins, then the row at which the last block ends."""
    borders = [0]
    for size in sizes:
        borders.append(borders[-1] + size)
    return borders


def _check_csr(indptr: NDArray[np.int64], indices: NDArray[np.int32], n_features: int) -> None:
    """Raise DamagedFileError unless pointers and indices stay inside their arrays."""
    rising = indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()
    if not rising or (len(indices) and not 0 <= indices.min() <= indices.max() < n_features):
        raise DamagedFileError("it points outside the values or features")


def _numbers(table: pa.Table, name: str) -> Any:
    values = table[name].to_numpy()
    values.flags.writeable = False
    return values


def _optional_ids(table: pa.Table, name: str, kind: IdType | None) -> pa.Array | None:
    """Ids, or None if no row has one: other blocks of the segment may have ids."""
    if name not in table.schema.names or table[name].null_count == len(table):
        return None
    return _ids(table, name, kind)


def _ids(table: pa.Table, name: str, kind: IdType | None) -> pa.Array:
    return table[name].combine_chunks().cast(pa.int64() if kind == "int64" else pa.string())


def checked_columns(columns: Columns | None, n_features: int) -> Columns:
    """Positions of features; all features for None.

    Raises
    ------
    IndexError
        If there is no such feature.
    """
    if columns is None:
        return np.arange(n_features)
    checked = np.asarray(columns, np.intp)
    if len(checked) and not 0 <= checked.min() <= checked.max() < n_features:
        raise IndexError(f"columns must be from 0 to {n_features - 1}.")
    return checked
