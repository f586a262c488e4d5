"""Writing one segment: features as Zarr arrays, all else as parquet files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock, canonical_csr
from dranking.data.store.manifest import BlockEntry, IdType, SegmentEntry, WrittenSegment
from dranking.data.store.segment_layout import (
    CHUNKS_FILE,
    DOCUMENTS_FILE,
    QUERIES_FILE,
    array_specs,
    chunk_columns,
    group_files,
    object_name,
)
from dranking.data.store.zarr_arrays import StoredChunk, write_shard
from dranking.data.tables.ids import int64_or_string
from dranking.data.tables.numeric_values import check_query_weights, check_relevance
from dranking.errors import DataError
from dranking.files.places import Place
from dranking.files.writing.atomic_files import new_folder

MAX_SPARSE_FEATURES = 2**31 - 1


def write_segment(root: Place, name: str, blocks: Sequence[QueryBlock]) -> WrittenSegment:
    """Write one segment of a data set, from any process that has access to the place.

    Two workers may write the same segment, even at the same time: the task of a worker that seems
    lost runs again on another one. If a local segment is complete already, it is kept.

    Parameters
    ----------
    root
        Directory to write the parts of the data set to: `DirectoryCommit.root`.
    name
        Name of the segment inside: `DirectoryCommit.name("segments/000017")`.
    blocks
        At least one block, each of at least one query; all dense or all sparse. Integer ids may be
        of any integer type. Blocks with fewer features than the widest block get zeros for the
        features that they lack.

    Returns
    -------
    A small description of the segment, from which `commit_dataset` makes the index.

    Raises
    ------
    DataError
        If a feature value is not finite, or a grade or query weight out of range (the message names
        the query), a query has no id, or some blocks are sparse and others dense.
    """
    check_alike(block.is_sparse for block in blocks)
    for block in blocks:
        check_labels(block)
        _check_values(block)
    width = max(block.n_features for block in blocks)
    blocks = _with_common_ids([_canonical(block, width) for block in blocks])
    n_documents = sum(block.n_documents for block in blocks)
    n_values = sum(block.info.n_values for block in blocks)
    specs = array_specs(blocks[0].is_sparse, width, n_documents, n_values)
    files = group_files(specs)
    files[DOCUMENTS_FILE] = parquet_of([document_columns(block) for block in blocks])
    files[QUERIES_FILE] = parquet_of([query_columns(block) for block in blocks])
    chunks = {name: [whole_file(files[name])] for name in (DOCUMENTS_FILE, QUERIES_FILE)}
    with new_folder(root, name) as folder:
        for array, columns in _columns(blocks).items():
            file = object_name(array, specs[array])
            chunks[file] = write_shard(folder / file, *specs[array][:2], columns)
        files[CHUNKS_FILE] = parquet_of([chunk_columns(chunks)])
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
    entry = SegmentEntry(
        name=name,
        n_features=width,
        chunks_bytes=len(files[CHUNKS_FILE]),
        chunks_digest=hashlib.blake2b(files[CHUNKS_FILE], digest_size=16).hexdigest(),
        blocks=tuple(map(_entry, blocks)),
    )
    query_id_type = id_type(blocks[0].query_ids)
    return WrittenSegment(entry, blocks[0].is_sparse, query_id_type, _doc_id_type(blocks))


def check_alike(sparse: Iterable[bool]) -> None:
    """Raise DataError if some blocks are sparse and others dense."""
    if len(set(sparse)) > 1:
        raise DataError(
            "some blocks are sparse and some dense; make all blocks sparse or all dense."
        )


def _entry(block: QueryBlock) -> BlockEntry:
    info, features_digest = block.info, block.features_digest()
    return BlockEntry(
        n_documents=info.n_documents,
        n_queries=info.n_queries,
        n_unlabelled=info.n_unlabelled,
        n_values=info.n_values,
        digest=block.digest_with(features_digest),
        features_digest=features_digest,
    )


def _canonical(block: QueryBlock, width: int) -> QueryBlock:
    """The block in the dtypes and memory layout in which it will be read, with `width` features."""
    features = block.features
    if block.is_sparse:
        if block.n_features > MAX_SPARSE_FEATURES:
            raise DataError(
                f"{block.n_features} features; sparse data can have at most {MAX_SPARSE_FEATURES}."
            )
        features = scipy.sparse.csr_array(features, dtype=np.float32)
        if not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
        features = canonical_csr(
            features.data,
            features.indices.astype(np.int32, copy=False),
            features.indptr,
            (block.n_documents, width),
        )
    else:
        missing = width - block.n_features
        features = np.asfortranarray(features, dtype=np.float32)
        if missing:
            zeros = np.zeros((block.n_documents, missing), np.float32, order="F")
            features = np.hstack([features, zeros])
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


def _with_common_ids(blocks: list[QueryBlock]) -> list[QueryBlock]:
    """The blocks with ids of one type, integers or strings: a column of a file has one type."""
    given = [block.doc_ids for block in blocks if block.doc_ids is not None]
    as_text = {
        "query_ids": any(pa.types.is_string(block.query_ids.type) for block in blocks),
        "doc_ids": any(pa.types.is_string(ids.type) for ids in given),
    }
    names = [name for name, is_text in as_text.items() if is_text]
    return [
        replace(
            block,
            **{
                name: ids.cast(pa.string())
                for name in names
                if (ids := getattr(block, name)) is not None
            },
        )
        for block in blocks
    ]


def id_type(ids: pa.Array) -> IdType:
    """Name of the type of ids, as the manifest has it."""
    return "int64" if pa.types.is_int64(ids.type) else "string"


def _doc_id_type(blocks: Sequence[QueryBlock]) -> IdType | None:
    given = [block.doc_ids for block in blocks if block.doc_ids is not None]
    return id_type(given[0]) if given else None


def check_labels(block: QueryBlock) -> None:
    """Raise DataError if a query has no id, or a grade or a query weight is out of range."""
    if block.query_ids.null_count:
        raise DataError(
            f"{block.query_ids.null_count} queries have no id (null); give each query an id."
        )
    check_relevance(block.relevance, partial(_place, block))
    if block.query_weights is not None:
        check_query_weights(block.query_weights, block.query_ids)


def _place(block: QueryBlock, row: int) -> str:
    query = int(np.searchsorted(block.query_ptr, row, side="right")) - 1
    document = row - int(block.query_ptr[query])
    return f"query {block.query_ids[query]}, document {document} (counted from 0)"


def _check_values(block: QueryBlock) -> None:
    """Raise DataError if a feature value is not finite."""
    values = block.features.data if block.is_sparse else block.features.T
    finite = np.isfinite(values)
    if not finite.all():
        first = np.unravel_index(np.argmin(finite), finite.shape)
        if block.is_sparse:
            row = np.searchsorted(block.features.indptr, first[0], side="right") - 1
            feature = block.features.indices[first[0]]
        else:
            feature, row = first
        raise DataError(
            f"{_place(block, int(row))}: feature {feature} (counted from 0) is {values[first]}. "
            "Feature values must be finite float32 numbers."
        )


def _columns(blocks: Sequence[QueryBlock]) -> dict[str, Callable[[int, int], NDArray[Any]]]:
    """The arrays of a segment by name; each is a function that returns a range of its columns."""
    if not blocks[0].is_sparse:
        return {"features": _Joined([block.features.T for block in blocks])}
    parts = [block.features for block in blocks]
    ends = np.cumsum([0] + [part.nnz for part in parts])
    starts = ends[:-1]
    pointers = [p.indptr[1:].astype(np.int64) + s for p, s in zip(parts, starts, strict=True)]
    return {
        "indptr": _Joined([np.zeros((1, 1), np.int64), *(p[None] for p in pointers)]),
        "indices": _Joined([part.indices[None].astype(np.int32, copy=False) for part in parts]),
        "data": _Joined([part.data[None] for part in parts]),
    }


class _Joined:
    """Matrices of equally many rows, joined side by side; a call copies a range of columns."""

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([part.shape[1] for part in parts]).tolist()

    def __call__(self, start: int, end: int) -> NDArray[Any]:
        values = np.empty((len(self._parts[0]), end - start), self._parts[0].dtype)
        for part, its_end in zip(self._parts, self._ends, strict=True):
            its_start = its_end - part.shape[1]
            first, last = max(start, its_start), min(end, its_end)
            if first < last:
                values[:, first - start : last - start] = part[
                    :, first - its_start : last - its_start
                ]
        return values


def document_columns(block: QueryBlock) -> dict[str, Any]:
    """Columns of a block's table of documents by name; None for a column that it lacks."""
    return {"relevance": block.relevance, "doc_id": block.doc_ids, "comment": block.comments}


def query_columns(block: QueryBlock) -> dict[str, Any]:
    """Columns of a block's table of queries by name; None for a column that it lacks."""
    return {
        "query_id": block.query_ids,
        "n_documents": np.diff(block.query_ptr),
        "weight": block.query_weights,
    }


def parquet_of(parts: Sequence[Mapping[str, Any]]) -> bytes:
    """A parquet file with a row group for each part; a column that a part lacks is null there."""
    tables = [
        pa.table({name: values for name, values in part.items() if values is not None})
        for part in parts
    ]
    joined = pa.concat_tables(tables, promote_options="default")
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        joined.schema,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        start = 0
        for table in tables:
            writer.write_table(joined.slice(start, len(table)), row_group_size=len(table))
            start += len(table)
    return bytes(sink.getvalue())


def whole_file(content: bytes) -> StoredChunk:
    """Place and checksum of a file that is read whole, as if the file were one chunk."""
    return StoredChunk(0, len(content), google_crc32c.value(content))
