"""Data as users have it, Dask collections included, made a data set; and back to Dask."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.errors import UsageError


def as_dataset(X: Any, y: Any = None, *, qid: Any = None, query_weights: Any = None) -> Dataset:
    """The data set that the arguments of an estimator's `fit` describe.

    Parameters
    ----------
    X
        A `Dataset` (then the rest is None); features in memory in any form `from_arrays` takes; a
        dask array with `y` and `qid`; or a dask DataFrame with columns `qid` and `relevance`
        (and, if there, `docid` and `weight`), all others features.
    y, qid, query_weights
        As in `dranking.from_arrays`.

    Raises
    ------
    UsageError
        If a data set comes with `y` or `qid`, or arrays without `qid`.
    DataError
        If the data is wrong.
    """
    from dranking.data.memory import from_arrays, from_table

    if isinstance(X, Dataset):
        if y is not None or qid is not None or query_weights is not None:
            raise UsageError("a data set holds its own relevance, qid and weights; pass it alone.")
        return X
    if _is_dask(X) and hasattr(X, "npartitions") and hasattr(X, "columns") and qid is None:
        return from_table(_collected(X))
    X, y, qid, query_weights = (_computed(v) for v in (X, y, qid, query_weights))
    return from_arrays(X, y, qid, query_weights=query_weights)


def to_dask_array(dataset: Dataset) -> tuple[Any, Any, Any]:
    """A data set as dask arrays, a chunk per block, read when they are computed.

    Returns
    -------
    X
        (n_documents, n_features) float32; of sparse data, chunks are `csr_array`.
    y
        (n_documents,) float64 relevance; NaN is unlabelled.
    qid
        (n_documents,) query ids, int64 or object.
    """
    import dask.array as da
    from dask import delayed

    qid_type = _qid_dtype(dataset)
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for index, info in enumerate(dataset.blocks):
        block = delayed(dataset.block, pure=False)(index)
        meta = _sparse_meta(dataset.n_features) if dataset.is_sparse else None
        parts[0].append(
            da.from_delayed(
                delayed(_features)(block),
                (info.n_documents, dataset.n_features),
                dtype=np.float32,
                meta=meta,
            )
        )
        parts[1].append(da.from_delayed(delayed(_relevance)(block), (info.n_documents,), float))
        parts[2].append(da.from_delayed(delayed(_qid)(block), (info.n_documents,), qid_type))
    X, y, qid = (da.concatenate(p) for p in parts)
    return X, y, qid


def to_dask_dataframe(dataset: Dataset) -> Any:
    """A data set as a dask DataFrame, a partition per block, read when it is computed.

    Returns
    -------
    Columns `qid`, `docid` where the data has ids, `relevance`, `weight`, then the features by
    name as float32.
    """
    import dask.dataframe as dd
    from dask import delayed

    names = list(dataset.feature_names)
    empty = _frame(dataset.block(0), names).iloc[:0]
    parts = [
        delayed(_frame)(delayed(dataset.block, pure=False)(b), names)
        for b in range(dataset.n_blocks)
    ]
    return dd.from_delayed(parts, meta=empty, verify_meta=False)


def _is_dask(value: Any) -> bool:
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.base.is_dask_collection(value))


def _collected(frame: Any) -> pa.Table:
    """A dask DataFrame as one table, partition by partition: never two copies of everything."""
    parts = (frame.partitions[i].compute() for i in range(frame.npartitions))
    tables = [pa.Table.from_pandas(part, preserve_index=False) for part in parts]
    return pa.concat_tables(tables, promote_options="permissive")


def _computed(value: Any) -> Any:
    return value.compute() if _is_dask(value) else value


def _features(block: QueryBlock) -> Any:
    return block.features


def _relevance(block: QueryBlock) -> Any:
    return block.relevance


def _qid(block: QueryBlock) -> Any:
    ids = np.asarray(block.query_ids.to_numpy(zero_copy_only=False))
    return np.repeat(ids, np.diff(block.query_ptr))


def _qid_dtype(dataset: Dataset) -> Any:
    no_columns = np.empty(0, dtype=np.intp)
    return _qid(dataset.block(0, no_columns)).dtype


def _sparse_meta(n_features: int) -> Any:
    from scipy import sparse

    return sparse.csr_array((0, n_features), dtype=np.float32)


def _frame(block: QueryBlock, names: list[str]) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {"qid": _qid(block)}
    if block.doc_ids is not None:
        columns["docid"] = block.doc_ids.to_pandas()
    columns["relevance"] = block.relevance
    columns["weight"] = np.repeat(block.weights, np.diff(block.query_ptr))
    features = block.features.toarray() if block.is_sparse else block.features
    return pd.concat(
        [pd.DataFrame(columns), pd.DataFrame(np.asarray(features), columns=names)], axis=1
    )
