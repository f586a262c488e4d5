"""Reading the folder of one block, every file verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import QueryBlock, canonical_csr
from dranking.data.chunks import (
    Buffer,
    DamagedFileError,
    checksum,
    read_array,
    read_rows,
    verified_chunk,
)
from dranking.data.manifest import (
    DOCUMENTS_FILE,
    FEATURES,
    QUERIES_FILE,
    SPARSE_ARRAYS,
    DatasetManifest,
    IdType,
)
from dranking.errors import DataError


def read_block(
    root: Path, manifest: DatasetManifest, index: int, columns: NDArray[np.intp] | None = None
) -> QueryBlock:
    """Read one block; its arrays are read-only. See `Dataset.block`.

    Raises
    ------
    DataError
        If a file is missing or damaged, naming the block, the file and what to do.
    """
    reader = _BlockReader(root, manifest, index)
    documents = reader.table(DOCUMENTS_FILE)
    queries = reader.table(QUERIES_FILE)
    if len(queries) != manifest.blocks[index].n_queries:
        raise reader.damaged(QUERIES_FILE, f"has {len(queries)} rows, unlike the manifest says")
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
    except ValueError as error:
        raise reader.damaged(QUERIES_FILE, f"does not fit the manifest: {error}") from error


def read_query_ids(root: Path, manifest: DatasetManifest, index: int) -> pa.Array:
    """The ids of the queries of one block."""
    queries = _BlockReader(root, manifest, index).table(QUERIES_FILE)
    return _ids(queries, "query_id", manifest.query_id_type)


class _BlockReader:
    """Verified access to the files of one block."""

    def __init__(self, root: Path, manifest: DatasetManifest, index: int) -> None:
        self._root = root
        self._manifest = manifest
        self._entry = manifest.blocks[index]
        self._index = index

    def damaged(self, name: str, why: str) -> DataError:
        """The error for a file of this block."""
        file = self._root / self._entry.path / name
        return DataError(
            f"block {self._index} of {self._root} is damaged: {file} {why}. "
            "Restore the file from a copy, or ingest the data anew."
        )

    def table(self, name: str) -> pa.Table:
        """A parquet file."""
        content = self._content(name)
        if checksum(content) != self._entry.checksums[name]:
            raise self.damaged(name, "is not what was written, its checksum is wrong")
        return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)

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
            values = self._guarded(FEATURES, lambda read: read_rows(read, rows, shape, chunk))
        if entry.n_null and manifest.null_fill is not None:
            fill = np.asarray(manifest.null_fill, np.float32)
            fill = fill if columns is None else fill[columns]
            np.copyto(values, fill[:, None], where=np.isnan(values))
        values.flags.writeable = False
        return values.T

    def csr(self, columns: NDArray[np.intp] | None) -> sparse.csr_array:
        """(n_documents, n_columns) CSR array of float32, its indices sorted."""
        manifest, entry = self._manifest, self._entry
        n_features = len(manifest.feature_names)
        chunk = manifest.values_per_chunk
        names = zip(SPARSE_ARRAYS, (np.int64, np.int32, np.float32), strict=True)
        lengths = (entry.n_documents + 1, entry.n_values, entry.n_values)
        indptr, indices, data = (
            self._array(name, (length,), dtype, chunk)
            for (name, dtype), length in zip(names, lengths, strict=True)
        )
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

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any, chunk: int) -> Any:
        return self._guarded(name, lambda read: read_array(read, shape, dtype, chunk))

    def _guarded(self, array: str, read: Callable[[Callable[[str], Buffer]], Any]) -> Any:
        """Run `read` on the chunks of an array; damage becomes an error that names the chunk."""
        current = array

        def chunk(name: str) -> Buffer:
            nonlocal current
            current = f"{array}/{name}"
            return verified_chunk(self._content(current), self._entry.checksums[current])

        try:
            return read(chunk)
        except DamagedFileError as error:
            raise self.damaged(current, f"is not what was written, {error}") from error

    def _content(self, name: str) -> bytes:
        file = self._root / self._entry.path / name
        try:
            return file.read_bytes()
        except FileNotFoundError as error:
            raise self.damaged(name, "is missing") from error
        except OSError as error:
            raise self.damaged(name, f"cannot be read ({error.strerror})") from error


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
