"""Data sets as Dask collections, one chunk or partition per block, read when it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.placed_dataset import PlacedDataset, columns_of_block
from dranking.ingestion.collections.known_arrays import BLOCKS


def to_dask_array(dataset: Dataset) -> tuple[Any, Any, Any]:
    """A data set as dask arrays with one chunk per block; computing a chunk reads its block.

    The arrays have no record of scalings and of values that were filled in for missing ones.

    Returns
    -------
    X
        (n_documents, n_features) float32; the chunks of sparse data are `csr_array`.
    y
        (n_documents,) float64 relevance; NaN means unlabelled.
    qid
        (n_documents,) query ids, int64 or object.
    """
    import dask.array as da
    from dask import delayed

    no_columns = np.empty(0, dtype=np.intp)
    qid_type = _qid(dataset.block(0, no_columns)).dtype
    meta = _sparse_meta(dataset.n_features) if dataset.is_sparse else None
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for index, info in enumerate(dataset.blocks):
        block = _delayed_block(dataset, index)
        # Sparse blocks cannot be read without their features: one read then serves X, y and qid.
        labels = block if dataset.is_sparse else _delayed_block(dataset, index, no_columns)
        n = info.n_documents
        shape = (n, dataset.n_features)
        parts[0].append(_chunk(delayed(_features)(block), shape, np.float32, meta))
        parts[1].append(_chunk(delayed(_relevance)(labels), (n,), np.float64))
        parts[2].append(_chunk(delayed(_qid)(labels), (n,), qid_type))
    X, y, qid = (da.concatenate(part) for part in parts)
    return X, y, qid


def _chunk(value: Any, shape: tuple[int, ...], dtype: Any, meta: Any = None) -> Any:
    """An array of one delayed chunk, whose name says that it is made of a block."""
    import dask.array as da

    name = f"{BLOCKS}{value.key}"
    return da.from_delayed(value, shape, dtype=dtype, meta=meta, name=name)


def to_dask_dataframe(dataset: Dataset) -> Any:
    """A data set as a dask DataFrame with one partition per block; computing it reads the block.

    The DataFrame has no record of scalings and of values that were filled in for missing ones.

    Returns
    -------
    Columns `qid`, `docid` if the data has document ids, `relevance` and `weight`, then a float32
    column for each feature, under the feature's name.
    """
    import dask.dataframe as dd
    from dask import delayed

    names = list(dataset.feature_names)
    with_doc_ids = _has_doc_ids(dataset)
    empty = _frame(dataset.block(0), names, with_doc_ids).iloc[:0]
    parts = [
        delayed(_frame)(_delayed_block(dataset, b), names, with_doc_ids)
        for b in range(dataset.n_blocks)
    ]
    return dd.from_delayed(parts, meta=empty, verify_meta=False)


def _delayed_block(dataset: Dataset, index: int, columns: NDArray[np.intp] | None = None) -> Any:
    """A delayed block: the task reads the block, or holds this one block of data in memory."""
    from dask import delayed

    if isinstance(dataset, PlacedDataset):
        task = delayed(dataset.tasks[index])
        return task if columns is None else delayed(columns_of_block, pure=False)(task, columns)
    if dataset.in_memory:
        return delayed(dataset.block(index, columns), pure=False, traverse=False)
    return delayed(dataset.block, pure=False)(index, columns)


def _has_doc_ids(dataset: Dataset) -> bool:
    """Whether any block has document ids; blocks without ids may be among them."""
    no_columns = np.empty(0, dtype=np.intp)
    blocks = dataset.read_blocks(columns=no_columns)
    return any(block.doc_ids is not None for block in blocks)


def _features(block: QueryBlock) -> Any:
    return block.features


def _relevance(block: QueryBlock) -> Any:
    return block.relevance


def _qid(block: QueryBlock) -> Any:
    ids = np.asarray(block.query_ids.to_numpy(zero_copy_only=False))
    return np.repeat(ids, np.diff(block.query_ptr))


def _sparse_meta(n_features: int) -> Any:
    from scipy import sparse

    return sparse.csr_array((0, n_features), dtype=np.float32)


def _frame(block: QueryBlock, names: list[str], with_doc_ids: bool) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {"qid": _qid(block)}
    if with_doc_ids:
        ids = pa.nulls(block.n_documents) if block.doc_ids is None else block.doc_ids
        columns["docid"] = ids.to_pandas(integer_object_nulls=True)
    columns["relevance"] = block.relevance
    columns["weight"] = np.repeat(block.weights, np.diff(block.query_ptr))
    features = block.features.toarray() if block.is_sparse else block.features
    return pd.concat(
        [pd.DataFrame(columns), pd.DataFrame(np.asarray(features), columns=names)], axis=1
    )
