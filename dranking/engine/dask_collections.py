"""The arguments of `fit` as a data set, Dask collections included; data sets as collections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.roles import QID, RELEVANCE, Columns
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.ids import as_ids, row_place
from dranking.data.tables.numeric_values import as_float32, feature_error
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.executor import get_executor
from dranking.errors import DataError, UsageError


def as_dataset(X: Any, y: Any = None, *, qid: Any = None, query_weights: Any = None) -> Dataset:
    """Make a data set of the arguments of an estimator's `fit`.

    Dask collections are computed once. Their partitions then come to this process one by one, and
    each is released before the next comes, so there are never two copies of a dense array.

    Parameters
    ----------
    X
        A `Dataset` (`y`, `qid` and `query_weights` must then be None); a table as `from_table`
        takes it; features in any form that `from_arrays` takes; a dask array of features; or a dask
        DataFrame with columns `qid` and `relevance`, optional columns `docid` and `weight`, and
        features in all other columns.
    y, qid, query_weights
        As in `dranking.from_arrays`. With a table: names of its columns, or None for its columns
        `relevance` and `qid`.

    Raises
    ------
    UsageError
        If a data set comes with `y` or `qid`, or arrays without `qid`.
    DataError
        If the data has a flaw that `dranking.from_arrays` refuses.
    """
    from dranking.data.tables.any_table import is_table
    from dranking.data.tables.in_memory import from_arrays, from_table, table_dataset

    if isinstance(X, Dataset):
        if y is not None or qid is not None or query_weights is not None:
            raise UsageError("a data set holds its own relevance, qid and weights; pass it alone.")
        return X
    if is_table(X) and _names_columns(y) and _names_columns(qid) and query_weights is None:
        return table_dataset(X, Columns(qid=qid or QID, relevance=y or RELEVANCE))
    if _is_dask(X) and hasattr(X, "columns") and qid is None:
        return from_table(_as_table(X))
    if qid is not None:
        y, qid, query_weights = (_computed(values) for values in (y, qid, query_weights))
        X = _as_float32_array(X, qid) if _is_dense_dask_array(X) else _computed(X)
    return from_arrays(X, y, qid, query_weights=query_weights)


def to_dask_array(dataset: Dataset) -> tuple[Any, Any, Any]:
    """A data set as dask arrays with one chunk per block; computing a chunk reads its block.

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
        features = delayed(_features)(block)
        shape = (n, dataset.n_features)
        parts[0].append(da.from_delayed(features, shape, dtype=np.float32, meta=meta))
        parts[1].append(da.from_delayed(delayed(_relevance)(labels), (n,), dtype=np.float64))
        parts[2].append(da.from_delayed(delayed(_qid)(labels), (n,), dtype=qid_type))
    X, y, qid = (da.concatenate(part) for part in parts)
    return X, y, qid


def to_dask_dataframe(dataset: Dataset) -> Any:
    """A data set as a dask DataFrame with one partition per block; computing it reads the block.

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

    if dataset.in_memory:
        return delayed(dataset.block(index, columns), pure=False, traverse=False)
    return delayed(dataset.block, pure=False)(index, columns)


def _has_doc_ids(dataset: Dataset) -> bool:
    """Whether any block has document ids; blocks without ids may be among them."""
    no_columns = np.empty(0, dtype=np.intp)
    blocks = dataset.read_blocks(columns=no_columns)
    return any(block.doc_ids is not None for block in blocks)


def _names_columns(value: Any) -> bool:
    """Whether a value is the name of a column, or None for the default name."""
    return value is None or isinstance(value, str)


def _is_dask(value: Any) -> bool:
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.base.is_dask_collection(value))


def _is_dense_dask_array(X: Any) -> bool:
    return (
        _is_dask(X)
        and type(getattr(X, "_meta", None)) is np.ndarray
        and X.ndim == 2
        and X.dtype.kind in "biuf"
    )


def _as_float32_array(X: Any, qid: Any) -> NDArray[np.float32]:
    """Values of a dask array of numbers; errors name the query by `qid`."""
    from dask import delayed

    parts = _persisted(X.rechunk({1: -1}).to_delayed().ravel())
    n_documents = sum(_all_computed([delayed(len)(part) for part in parts]))
    array = np.empty((n_documents, X.shape[1]), dtype=np.float32)
    start = 0
    for part in _taken(parts):
        values, flaw = as_float32(part)
        if flaw is not None:
            row, column = divmod(flaw.position, X.shape[1])
            row += start
            ids, names = as_ids(qid, "qid"), default_feature_names(X.shape[1])
            query = ids[row] if row < len(ids) else "unknown"
            raise feature_error(row_place(row), query, names[column], flaw)
        array[start : start + len(values)] = values
        start += len(values)
    return array


def _as_table(frame: Any) -> pa.Table:
    """A dask DataFrame as one Arrow table."""
    parts = _taken(_persisted(frame.to_delayed()))
    try:
        tables = [
            pa.Table.from_pandas(part.rename(columns=str), preserve_index=False) for part in parts
        ]
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"two columns of the dask DataFrame have one name, or a column mixes types ({error})."
        ) from error


def _persisted(parts: Any) -> list[Any]:
    """Compute delayed values together, so that tasks which several values share run once."""
    from dask import persist

    return list(persist(*parts, traverse=False))


def _taken(parts: list[Any]) -> Iterator[Any]:
    """Yield the results of delayed values in order; release each value as it is taken."""
    parts.reverse()
    while parts:
        yield _computed(parts.pop())


def _computed(value: Any) -> Any:
    return _all_computed([value])[0] if _is_dask(value) else value


def _all_computed(values: list[Any]) -> Any:
    """Compute Dask collections; on a cluster, the deadlines of `DaskExecutor.gather` hold."""
    from dask import compute

    executor = get_executor()
    if isinstance(executor, DaskExecutor):
        return executor.gather(executor.client.compute(values))
    return compute(*values)


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
