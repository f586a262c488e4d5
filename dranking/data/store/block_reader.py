"""Reading the folder of one block; every file is verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dranking.data.blocks import QueryBlock, canonical_csr
from dranking.data.store.manifest import (
    DOCUMENTS_FILE,
    FEATURES,
    KIND,
    QUERIES_FILE,
    SPARSE_ARRAYS,
    DatasetManifest,
    IdType,
)
from dranking.data.store.zarr_arrays import read_array, read_rows, verified_chunk
from dranking.files.checksums import Bytes, DamagedFileError
from dranking.files.verified_folder import Value, VerifiedFolder


def read_block(
    root: Path, manifest: DatasetManifest, index: int, columns: NDArray[np.intp] | None = None
) -> QueryBlock:
    """Read one block with read-only arrays; see `Dataset.block`.

    Raises
    ------
    DataError
        If a file is missing or damaged; the message names the block, the file and the remedy.
    """
    reader = _BlockReader(root, manifest, index)
    documents, queries = reader.documents(), reader.queries()
    query_ptr = np.zeros(len(queries) + 1, np.int64)
    np.cumsum(_numbers(queries, "n_documents"), out=query_ptr[1:])
    query_ptr.flags.writeable = False
    features = reader.csr(columns) if manifest.sparse else reader.dense(columns)
    try:
        return QueryBlock(
            features=features,
            relevance=_numbers(documents, "relevance"),
            query_ptr=query_ptr,
            query_ids=_ids(queries, "query_id", manifest.query_id_type),
            doc_ids=_ids(documents, "doc_id", manifest.doc_id_type),
            comments=_ids(documents, "comment", "string"),
            query_weights=_numbers(queries, "weight") if "weight" in queries.schema.names else None,
        )
    except (ValueError, pa.ArrowException) as error:
        raise reader.damaged(QUERIES_FILE, f"does not fit the manifest: {error}") from error


def read_query_ids(root: Path, manifest: DatasetManifest, index: int) -> pa.Array:
    """Ids of the queries of one block."""
    queries = _BlockReader(root, manifest, index).queries()
    return _ids(queries, "query_id", manifest.query_id_type)


class _BlockReader(VerifiedFolder):
    """Verified access to the files of one block.

    Content that the writer never produces is refused even if its checksum is right, because kernels
    do not check pointers.
    """

    def __init__(self, root: Path, manifest: DatasetManifest, index: int) -> None:
        entry = manifest.blocks[index]
        super().__init__(root, index, entry.path, entry.checksums, KIND.remedy)
        self._manifest = manifest
        self._entry = entry

    def documents(self) -> pa.Table:
        """Table with one row per document."""
        table = self._table(DOCUMENTS_FILE)
        if len(table) != self._entry.n_documents:
            raise self.damaged(
                DOCUMENTS_FILE, f"has {len(table)} rows, other than the manifest says"
            )
        self._check_numbers(DOCUMENTS_FILE, table, relevance=pa.float64())
        return table

    def queries(self) -> pa.Table:
        """Table with one row per query."""
        table = self._table(QUERIES_FILE)
        if len(table) != self._entry.n_queries:
            raise self.damaged(QUERIES_FILE, f"has {len(table)} rows, other than the manifest says")
        has_weights = "weight" in table.schema.names
        types = {"n_documents": pa.int64(), **({"weight": pa.float64()} if has_weights else {})}
        self._check_numbers(QUERIES_FILE, table, **types)
        sizes = _numbers(table, "n_documents")
        if "query_id" not in table.schema.names:
            raise self.damaged(QUERIES_FILE, "has no column query_id")
        if sizes.min() < 1 or sizes.max() > self._entry.n_documents:
            raise self.damaged(QUERIES_FILE, "has a query without documents, or with too many")
        return table

    def dense(self, columns: NDArray[np.intp] | None) -> Any:
        """(n_documents, n_columns) float32, F-ordered."""
        manifest, entry = self._manifest, self._entry
        n_features = len(manifest.feature_names)
        shape = (entry.n_features, entry.n_documents)
        chunk = manifest.features_per_chunk
        if columns is None and entry.n_features == n_features:
            values = self._array(FEATURES, shape, np.float32, chunk)
        else:
            rows = _checked_columns(columns, n_features)
            values = self._explained(FEATURES, lambda read: read_rows(read, rows, shape, chunk))
        if entry.n_null and manifest.null_fill is not None:
            fill = np.asarray(manifest.null_fill, np.float32)
            fill = fill if columns is None else fill[columns]
            np.copyto(values, fill[:, None], where=np.isnan(values))
        values.flags.writeable = False
        return values.T

    def csr(self, columns: NDArray[np.intp] | None) -> sparse.csr_array:
        """(n_documents, n_columns) CSR array of float32 with sorted indices."""
        manifest, entry = self._manifest, self._entry
        n_features = len(manifest.feature_names)
        chunk = manifest.values_per_chunk
        names = zip(SPARSE_ARRAYS, (np.int64, np.int32, np.float32), strict=True)
        lengths = (entry.n_documents + 1, entry.n_values, entry.n_values)
        indptr, indices, data = (
            self._array(name, (length,), dtype, chunk)
            for (name, dtype), length in zip(names, lengths, strict=True)
        )
        self._explained(SPARSE_ARRAYS[0], lambda _: _check_csr(indptr, indices, n_features))
        if entry.n_null and manifest.null_fill is not None:
            null = np.isnan(data)
            data[null] = np.asarray(manifest.null_fill, np.float32)[indices[null]]
        shape = (entry.n_documents, n_features)
        features = canonical_csr(data, indices, indptr, shape)
        if columns is not None:
            features = features[:, _checked_columns(columns, n_features)]
            features.sort_indices()
        for part in (features.data, features.indices, features.indptr):
            part.flags.writeable = False
        return features

    def _table(self, name: str) -> pa.Table:
        return self.parsed(
            name, "parquet", lambda source: pq.ParquetFile(source).read(use_threads=False)
        )

    def _array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, chunk: int) -> Any:
        """A whole array, in chunks of `chunk` entries along the first axis."""
        return self._explained(name, lambda read: read_array(read, shape, dtype, chunk))

    def _explained(self, array: str, read: Callable[[Callable[[str], Bytes]], Value]) -> Value:
        """Run `read` on an array's verified chunks; the error names the chunk that is damaged."""
        current = array

        def chunk(name: str) -> Bytes:
            nonlocal current
            current = f"{array}/{name}"
            return verified_chunk(self.content(current), self._checksums[current])

        try:
            return read(chunk)
        except DamagedFileError as error:
            raise self.damaged(current, f"is not what was written, {error}") from error
        except MemoryError as error:
            why = "needs more memory than there is, if its manifest entry is right"
            raise self.damaged(current, why) from error

    def _check_numbers(self, name: str, table: pa.Table, **types: pa.DataType) -> None:
        """Raise DataError unless a table has these columns, without nulls."""
        for column, kind in types.items():
            if column not in table.schema.names or table.schema.field(column).type != kind:
                raise self.damaged(name, f"has no column {column} of {kind}")
            if table[column].null_count:
                raise self.damaged(name, f"has no {column} in some row")


def _check_csr(indptr: NDArray[np.int64], indices: NDArray[np.int32], n_features: int) -> None:
    """Raise DamagedFileError unless pointers and indices stay inside their arrays."""
    rising = indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()
    if not rising or (len(indices) and not 0 <= indices.min() <= indices.max() < n_features):
        raise DamagedFileError("it points outside the values or features")


def _numbers(table: pa.Table, name: str) -> Any:
    values = table[name].to_numpy()
    values.flags.writeable = False
    return values


def _ids(table: pa.Table, name: str, kind: IdType | None) -> Any:
    if name not in table.schema.names:
        return None
    return table[name].combine_chunks().cast(pa.int64() if kind == "int64" else pa.string())


def _checked_columns(columns: NDArray[np.intp] | None, n_features: int) -> NDArray[np.intp]:
    if columns is None:
        return np.arange(n_features)
    checked = np.asarray(columns, np.intp)
    if len(checked) and not 0 <= checked.min() <= checked.max() < n_features:
        raise IndexError(f"columns must be from 0 to {n_features - 1}.")
    return checked
