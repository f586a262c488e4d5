"""Writing the folder of one block: features as Zarr arrays, all else as parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock, canonical_csr
from dranking.data.store.manifest import (
    DOCUMENTS_FILE,
    FEATURES,
    FEATURES_PER_CHUNK,
    QUERIES_FILE,
    SPARSE_ARRAYS,
    VALUES_PER_CHUNK,
    BlockEntry,
    IdType,
    block_path,
)
from dranking.data.store.zarr_arrays import write_array
from dranking.data.tables.ids import int64_or_string
from dranking.errors import DataError
from dranking.files.checksums import checksum

MAX_SPARSE_FEATURES = 2**31 - 1


class WrittenBlock(NamedTuple):
    """A block on disk and the types of its ids; `doc_id_type` is None without document ids."""

    entry: BlockEntry
    query_id_type: IdType
    doc_id_type: IdType | None


def write_block(root: Path, index: int, block: QueryBlock, allow_null: bool) -> WrittenBlock:
    """Write one block into the directory of a data set.

    Parameters
    ----------
    root
        The directory, in which the block's folder is made.
    index
        Number of the block.
    block
        A block of at least one query. Integer ids may have any width.
    allow_null
        Whether NaN stands for a missing value; otherwise NaN is an error.

    Raises
    ------
    DataError
        If a feature value is not finite (the message names the query), or a query has no id.
    """
    block = _canonical(block)
    n_null = _count_null(block, allow_null)
    folder = root / block_path(index)
    folder.mkdir(parents=True)
    checksums = _write_features(folder, block.features)
    for name, table in ((DOCUMENTS_FILE, _documents(block)), (QUERIES_FILE, _queries(block))):
        content = _parquet(table)
        (folder / name).write_bytes(content)
        checksums[name] = checksum(content)
    entry = BlockEntry(
        path=block_path(index),
        n_features=block.n_features,
        n_null=n_null,
        digest=block.digest(),
        checksums=checksums,
        **vars(block.info),
    )
    return WrittenBlock(
        entry,
        query_id_type=_id_type(block.query_ids),
        doc_id_type=None if block.doc_ids is None else _id_type(block.doc_ids),
    )


def _canonical(block: QueryBlock) -> QueryBlock:
    """The block in the dtypes and memory layout in which it will be read."""
    features = block.features
    if block.is_sparse:
        if block.n_features > MAX_SPARSE_FEATURES:
            raise DataError(
                f"{block.n_features} features; sparse data can have at most {MAX_SPARSE_FEATURES}."
            )
        features = sparse.csr_array(features, dtype=np.float32)
        if not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
        features = canonical_csr(
            features.data,
            features.indices.astype(np.int32, copy=False),
            features.indptr,
            features.shape,
        )
    else:
        features = np.asfortranarray(features, dtype=np.float32)
    return QueryBlock(
        features=features,
        relevance=np.asarray(block.relevance, np.float64),
        query_ptr=np.asarray(block.query_ptr, np.int64),
        query_ids=_plain_ids(block.query_ids),
        doc_ids=None if block.doc_ids is None else _plain_ids(block.doc_ids),
        comments=None if block.comments is None else block.comments.cast(pa.string()),
        query_weights=block.query_weights,
    )


def _plain_ids(ids: pa.Array) -> pa.Array:
    """Ids as int64 if they are integers that fit, otherwise as strings."""
    return int64_or_string(ids) if pa.types.is_integer(ids.type) else ids.cast(pa.string())


def _id_type(ids: pa.Array) -> IdType:
    return "int64" if pa.types.is_int64(ids.type) else "string"


def _count_null(block: QueryBlock, allow_null: bool) -> int:
    """Number of NaN values; infinite values are an error, and NaN too unless allowed."""
    values = block.features.data if block.is_sparse else block.features.T
    finite = np.isfinite(values)
    if block.query_ids.null_count:
        raise DataError(
            f"{block.query_ids.null_count} queries have no id (null); give each query an id."
        )
    if finite.all():
        return 0
    null = np.isnan(values)
    wrong = ~finite if not allow_null else ~finite & ~null
    if wrong.any():
        first = np.unravel_index(np.argmax(wrong), wrong.shape)
        if block.is_sparse:
            row = np.searchsorted(block.features.indptr, first[0], side="right") - 1
            feature = block.features.indices[first[0]]
        else:
            feature, row = first
        query = np.searchsorted(block.query_ptr, row, side="right") - 1
        raise DataError(
            f"query {block.query_ids[query]}: feature {feature} (counted from 0) of document "
            f"{row - block.query_ptr[query]} of the query (counted from 0) is {values[first]}. "
            "Feature values must be finite float32 numbers."
        )
    return int(null.sum())


def _write_features(folder: Path, features: FeatureMatrix) -> dict[str, str]:
    if sparse.issparse(features):
        chunk = VALUES_PER_CHUNK
        indptr = features.indptr.astype(np.int64)
        parts = (indptr, features.indices.astype(np.int32, copy=False), features.data)
        arrays = dict(zip(SPARSE_ARRAYS, parts, strict=True))
    else:
        chunk = FEATURES_PER_CHUNK
        arrays = {FEATURES: features.T}
    return {
        f"{array}/{name}": crc
        for array, values in arrays.items()
        for name, crc in write_array(folder / array, values, chunk).items()
    }


def _documents(block: QueryBlock) -> pa.Table:
    columns = {"relevance": block.relevance, "doc_id": block.doc_ids, "comment": block.comments}
    return pa.table({name: values for name, values in columns.items() if values is not None})


def _queries(block: QueryBlock) -> pa.Table:
    columns = {
        "query_id": block.query_ids,
        "n_documents": np.diff(block.query_ptr),
        "weight": block.query_weights,
    }
    return pa.table({name: values for name, values in columns.items() if values is not None})


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return bytes(sink.getvalue())
