"""From features and weights to scores: columns found by name, scalings still to apply, products."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.block_source import check_features_there
from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import Scaling, forms_of, source_names
from dranking.data.dataset import Dataset
from dranking.data.roles import Columns
from dranking.data.steps import (
    Filling,
    Steps,
    constants_of,
    filled_of,
    missing_steps,
    restricted_steps,
    scalings_of,
)
from dranking.data.tables.alignment import aligned
from dranking.data.tables.any_table import as_table, is_dask, is_dask_frame, is_table, with_columns
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.recorded_steps import recorded_steps
from dranking.data.tables.vectors import spread_table, vector_of
from dranking.errors import DataError, UsageError, listed
from dranking.files.places import is_path
from dranking.ingestion.collections.scores import lazy_scores
from dranking.ingestion.dask_collections import as_dataset

Transforms: TypeAlias = tuple[Filling | Scaling, ...]
"""Steps that are applied to blocks, in order."""


def table_scores(
    X: Any,
    names: Sequence[str],
    weights: NDArray[np.float64],
    steps: Steps = (),
    *,
    qid: Any = None,
    model: str = "the model",
) -> Any:
    """Scores of rows; a table's columns are found by name, an array has columns `names`.

    Only columns whose weight is not 0 are looked at. A missing value takes the value of the
    training data, as `steps` say. Scores of a Dask collection are lazy, see
    `dranking.ingestion.collections.scores.lazy_scores`. In memory, and without `qid`, each row may
    have weights of its own: `weights` is then (n_features, n_documents).

    Raises
    ------
    DataError
        If such columns are missing or hold values that cannot be features, or an array has another
        number of columns.
    UsageError
        If the features are scaled query by query, and `qid` is None.
    """
    if is_dask(X):
        return _lazy_scores(X, names, weights, steps, qid=qid, model=model)
    used = np.flatnonzero(weights if weights.ndim == 1 else weights.any(axis=1))
    rows, blocks = prepared_rows(X, names, used, steps, qid=qid, model=model)
    scores = [linear_scores(block.features, weights[used]) for block in blocks]
    return rows.in_given_order(np.concatenate(scores))


def prepared_rows(
    X: Any,
    names: Sequence[str],
    used: NDArray[np.intp],
    steps: Steps,
    *,
    qid: Any,
    model: str,
) -> tuple[Dataset, Iterator[QueryBlock]]:
    """Rows in memory, and their blocks with the features `used` after the steps.

    Errors are those of `table_scores`.

    Without features, the rows are one block of no columns.
    """
    if is_path(X):
        raise UsageError(f"X is a path; give the data there: dranking.open_dataset({str(X)!r}).")
    if isinstance(qid, str):
        qid = _column(X, qid)
    if not is_table(X) and np.ndim(X) < 2:
        raise DataError(
            f"X has shape {np.shape(X)}; it must be (n_documents, n_features). Reshape your data: "
            "X[None, :] is one document."
        )
    qid = aligned(X, qid=qid)["qid"]
    of_used, needed = [names[i] for i in used.tolist()], restricted_steps(steps, used)
    if is_table(X):
        # Tables of filled values have the features that tell of gaps; others have their sources.
        likely = [*source_names(of_used, needed), *source_names(of_used, scalings_of(needed))]
        table = as_table(with_columns(X, [*likely, *map(vector_of, likely)]))
        X = spread_table(table, Columns(needed=likely))
    record = _record_of(X, of_used, needed)
    is_filled = filled_of(record) is not None
    # Several columns of a model may be forms of one feature.
    every = source_names(names, scalings_of(steps) if is_filled else steps)
    sources = list(source_names(of_used, scalings_of(needed) if is_filled else needed))
    columns = {name: i for i, name in enumerate(dict.fromkeys(every))}
    wanted = np.array([columns[name] for name in sources], dtype=np.intp)
    read, places = np.unique(wanted, return_inverse=True)
    X, present = _used_columns(X, list(columns), read, model)
    present = restricted_steps(present, places)
    constants = constants_of(needed)
    # Rows are refused where their values are read, with their place, unless the model fills gaps.
    nullable = np.zeros(len(read), dtype=np.bool_)
    if constants is not None:
        np.logical_or.at(nullable, places, constants.gaps)
    origins = np.zeros(len(read))
    if constants is not None and constants_of(record) is None:
        origins[places] = constants.origin_of_each
        subtracted = ColumnConstants.of_origins(constants.origin_of_each)
        present = present if subtracted is None else (subtracted, *present)
    missing = missing_steps(sources, needed, present, has_nulls=bool(nullable.any()))
    if qid is None and any(each.of_query for each in missing):
        raise UsageError(
            f"{model} scales the features of each query by its documents: pass qid=, the "
            "query id of each row, or a data set (dranking.from_arrays makes one)."
        )
    n_rows = X.shape[0] if sparse.issparse(X) else len(X)
    if not len(used):
        X, places, nullable = np.zeros((n_rows, 1)), used, np.zeros(1, dtype=np.bool_)
        origins = np.zeros(1)
    ids = np.zeros(n_rows, dtype=np.int64) if qid is None else qid
    keys = X.column_names if is_table(X) else default_feature_names(len(origins))
    by_name = {key: origin for key, origin in zip(keys, origins.tolist(), strict=True) if origin}
    rows = as_dataset(X, None, qid=ids, nullable=nullable, origins=by_name)
    return rows, (prepared_block(block, missing) for block in rows.read_blocks(columns=places))


def _column(X: Any, name: str) -> Any:
    """A column of a table; UsageError if there is no table, DataError if there is no column."""
    if not is_table(X):
        raise UsageError(
            f"qid is {name!r}, the name of a column, and X is no table: pass the query id of each "
            "row."
        )
    table = as_table(with_columns(X, [name]))
    if name not in table.column_names:
        raise DataError(f"the table has no column {name!r} of query ids.")
    return table[name]


def _record_of(X: Any, names: Sequence[str], steps: Steps) -> Steps:
    """The steps, without their features, that a table records; raw ones must hold no indicators."""
    if not is_table(X):
        return ()
    record = recorded_steps([("the table", X.schema)], ())
    if filled_of(record) is None:
        _check_no_indicators(names, steps, X.column_names)
    return record


def _check_no_indicators(names: Sequence[str], steps: Steps, columns: Collection[str]) -> None:
    """Raise DataError if raw columns have the name of an indicator that a model makes itself."""
    pairs = zip(source_names(names, scalings_of(steps)), source_names(names, steps), strict=True)
    there = [(name, source) for name, source in pairs if name != source and name in columns]
    if there:
        name, source = there[0]
        raise DataError(
            f"the table has a column {name!r}, and the model makes this feature itself: it is 1 "
            f"where {source!r} lacks a value. Give the raw table without that column. If dranking "
            "wrote the table, open its file with dranking.open_dataset, or read it with "
            "pyarrow.parquet.read_table: both keep the record that gaps were filled."
        )


def _used_columns(
    X: Any, names: Sequence[str], used: NDArray[np.intp], model: str
) -> tuple[Any, Steps]:
    """The columns of rows in memory that a model needs, in order, and their recorded steps."""
    if is_table(X):
        wanted = [names[i] for i in used]
        check_features_there(wanted, X.column_names)
        return X.select(wanted), recorded_steps([("the table", X.schema)], wanted)
    X = X if hasattr(X, "shape") else np.asarray(X)
    _check_width(X, names, model)
    if len(used) < len(names):
        X = (sparse.csr_array(X) if sparse.issparse(X) else X)[:, used]
    return X, ()


def _check_width(X: Any, names: Sequence[str], model: str) -> None:
    """Raise DataError unless an array has the columns `names`."""
    if X.ndim != 2 or X.shape[1] != len(names):
        raise DataError(
            f"X has {X.shape[-1]} features, but {model} is expecting {len(names)} features as "
            f"input: {listed(names)}."
        )


def _lazy_scores(
    X: Any,
    names: Sequence[str],
    weights: NDArray[np.float64],
    steps: Steps,
    *,
    qid: Any,
    model: str,
) -> Any:
    """Scores of a dask DataFrame or array, see `table_scores`; lazy, with the partitions of `X`."""
    used = np.flatnonzero(weights)
    wanted, needed = [names[i] for i in used.tolist()], restricted_steps(steps, used)
    if qid is not None:
        raise by_partition(model)
    columns = columns_of_collection(X, model, names, steps, used)
    score = partial(table_scores, names=wanted, weights=weights[used], steps=needed, model=model)
    return lazy_scores(X, score, columns)


def columns_of_collection(
    X: Any, model: str, names: Sequence[str], steps: Steps, used: NDArray[np.intp]
) -> Any:
    """The columns of a dask DataFrame, by name, or of a dask array, from which features are made.

    Parameters
    ----------
    model
        Name of the model, for errors.
    names, steps
        Names and steps of the columns of an array; of a DataFrame, others may be there too.
    used
        Positions in `names` of the features that are needed.

    Raises
    ------
    UsageError
        If the features are scaled query by query.
    DataError
        If columns are missing, or an array has another number of columns.
    """
    of_used, needed = [names[i] for i in used.tolist()], restricted_steps(steps, used)
    if any(each.of_query for each in needed):
        raise by_partition(model)
    sources = list(dict.fromkeys(source_names(of_used, needed)))
    if is_dask_frame(X):
        _check_no_indicators(of_used, needed, set(map(str, X.columns)))
        check_features_there(sources, set(map(str, X.columns)))
        # A table without columns would have no rows.
        return sources or [str(name) for name in X.columns[:1]]
    there = {name: i for i, name in enumerate(dict.fromkeys(source_names(names, steps)))}
    _check_width(X, list(there), model)
    return np.array([there[name] for name in sources], dtype=np.intp)


def by_partition(model: str) -> UsageError:
    """The error if the rows of a dask collection would be scaled query by query."""
    return UsageError(
        f"{model} scores the partitions of a dask collection one by one, so that features "
        "cannot be scaled within queries, and qid= has no use: write the collection to parquet "
        "and score that data set."
    )


def locate_features(
    names: Sequence[str], steps: Steps, dataset: Dataset
) -> tuple[NDArray[np.intp], Transforms]:
    """Columns of the named features in a data set, and the steps that its values still need.

    Parameters
    ----------
    names
        Names of the features, in the order of the returned columns.
    steps
        Steps that the features need, restricted to these features. If they are forms of features,
        and the data is raw, the columns are those of the raw features, one of them for each form
        of which the features are made.

    Raises
    ------
    DataError
        If features are missing, the data has another scaling or other values for missing ones, or
        rows of a query lie apart and its features need a scaling by all documents of the query.
    """
    is_filled = filled_of(dataset.preparation) is not None
    sources = source_names(names, scalings_of(steps) if is_filled else steps)
    columns = dataset.columns_of(sources if forms_of(dataset.transforms) is None else names)
    present = restricted_steps(dataset.preparation, columns)
    missing = missing_steps(sources, steps, present, dataset.has_nulls)
    within = [each.kind for each in missing if each.of_query]
    if within:
        dataset.check_whole_queries(
            f"The model scales features by all documents of a query ({', '.join(within)})"
        )
    return columns, missing


def linear_scores(features: FeatureMatrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_documents,) float64 scores X w, summed column by column in order.

    Equal rows get equal scores in every bit, whatever their position: ties stay ties. `weights` are
    (n_features,), or (n_features, n_documents) if each row has weights of its own.
    """
    scores = np.zeros(features.shape[0])
    if sparse.issparse(features):
        columns = features.tocsc()
        for j, weight in enumerate(weights):
            entries = slice(columns.indptr[j], columns.indptr[j + 1])
            rows = columns.indices[entries]
            own = weight[rows] if weights.ndim > 1 else weight
            scores[rows] += own * columns.data[entries].astype(np.float64)
        return scores
    for j, weight in enumerate(weights):
        scores += weight * features[:, j].astype(np.float64)
    return scores


def score_block(
    block: QueryBlock, weights: NDArray[np.float64], transforms: Transforms
) -> tuple[QueryBlock, NDArray[np.float64]]:
    """Apply the scalings that a block still needs, and score its documents."""
    block = prepared_block(block, transforms)
    return block, linear_scores(block.features, weights)


def prepared_block(block: QueryBlock, transforms: Transforms) -> QueryBlock:
    """A block with the scalings that it still needs."""
    for transform in transforms:
        block = transform.apply(block)
    return block
