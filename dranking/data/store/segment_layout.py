"""The content of the folder of a segment: its files, its arrays, and the table of their chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dranking.data.store.manifest import MAX_FILE_BYTES
from dranking.data.store.zarr_arrays import ArraySpec, StoredChunk, grid_of, zarr_metadata
from dranking.files.checksums import DamagedFileError

ARRAYS_FOLDER = "arrays"
"""The group of Zarr in a segment. zarr and xarray warn of all else in a group that they list."""

CHUNKS_FILE = "chunks.parquet"
DOCUMENTS_FILE = "documents.parquet"
QUERIES_FILE = "queries.parquet"

FEATURES_PER_CHUNK = 32
DOCUMENTS_PER_CHUNK = 4_096
VALUES_PER_CHUNK = 262_144

_COLUMNS = {
    "file": pa.string(),
    "offset": pa.int64(),
    "length": pa.int64(),
    "crc32c": pa.uint32(),
}

Chunks = Mapping[str, Sequence[StoredChunk]]
"""Chunks of every file of a segment; a parquet file is a single chunk."""


def array_specs(
    is_sparse: bool, n_features: int, n_documents: int, n_values: int
) -> dict[str, ArraySpec]:
    """The arrays of a segment by their names."""
    if not is_sparse:
        grid = grid_of(n_features, n_documents, FEATURES_PER_CHUNK, DOCUMENTS_PER_CHUNK)
        return {"features": ArraySpec(grid, np.float32, ("feature", "document"))}
    pointers = grid_of(1, n_documents + 1, 1, VALUES_PER_CHUNK)
    values = grid_of(1, n_values, 1, VALUES_PER_CHUNK)
    return {
        "indptr": ArraySpec(pointers, np.int64, ("pointer",)),
        "indices": ArraySpec(values, np.int32, ("value",)),
        "data": ArraySpec(values, np.float32, ("value",)),
    }


def group_files(specs: Mapping[str, ArraySpec]) -> dict[str, bytes]:
    """Content of the files that show the arrays of a segment to readers of Zarr."""
    return {f"{ARRAYS_FOLDER}/{name}": file for name, file in zarr_metadata(specs).items()}


def object_name(name: str, spec: ArraySpec) -> str:
    """The object of an array's only shard."""
    return f"{ARRAYS_FOLDER}/{name}/c" + "/0" * len(spec.dimensions)


def chunk_columns(chunks: Chunks) -> dict[str, pa.Array]:
    """The table of the chunks of all files, one row per chunk, in the order of the chunks."""
    rows = [(file, *chunk) for file, of_file in chunks.items() for chunk in of_file]
    return {
        name: pa.array(values, kind)
        for (name, kind), values in zip(_COLUMNS.items(), zip(*rows, strict=True), strict=True)
    }


def chunks_in(content: bytes, specs: Mapping[str, ArraySpec]) -> dict[str, list[StoredChunk]]:
    """Parse the table of chunks of a segment with these arrays.

    Raises
    ------
    DamagedFileError
        If there are other files or other numbers of chunks than such a segment has.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        rows = zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True)
        chunks: dict[str, list[StoredChunk]] = {}
        for file, *place in rows:
            chunks.setdefault(str(file), []).append(StoredChunk(*map(int, place)))
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise DamagedFileError(f"is no table of chunks ({error})") from error
    expected = {object_name(name, spec): spec.grid.n_chunks for name, spec in specs.items()}
    expected |= {DOCUMENTS_FILE: 1, QUERIES_FILE: 1}
    found = {file: len(of_file) for file, of_file in chunks.items()}
    if found != {file: n_chunks for file, n_chunks in expected.items() if n_chunks}:
        raise DamagedFileError("lists other chunks than a segment of this size has")
    limits = {object_name(name, spec): spec.max_chunk_bytes for name, spec in specs.items()}
    for file, of_file in chunks.items():
        limit = limits.get(file, MAX_FILE_BYTES)
        if any(chunk.offset < 0 or not 0 < chunk.length <= limit for chunk in of_file):
            raise DamagedFileError("has chunks that are too large, or numbers below 0")
    return chunks
