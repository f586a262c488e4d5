"""Linear models: a few named weights, stored as JSON, applied to data sets, tables and arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset, check_features_there
from dranking.data.tables.any_table import as_table, is_table
from dranking.data.tables.recorded_scalings import recorded_transforms
from dranking.data.transforms import (
    Scaling,
    Transform,
    forms_of,
    missing_transforms,
    source_names,
)
from dranking.engine.collections.one_expression import is_dask, is_dask_frame
from dranking.engine.collections.scores import lazy_scores
from dranking.engine.dask_collections import as_dataset
from dranking.engine.executor import get_executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, UsageError, problems_in
from dranking.files.atomic_files import atomic_write
from dranking.files.json_files import read_json
from dranking.files.places import AnyPlace, as_place, is_local

Transforms: TypeAlias = tuple[Scaling, ...]

SCHEMA_VERSION = 1
MAX_MODEL_BYTES = 256 * 2**20


class LinearModel(BaseModel):
    """A linear ranker: the score is the sum of weight times feature, after the recorded scalings.

    Attributes
    ----------
    feature_names
        Names of the features with a weight, in the order of the training data's columns.
    weights
        One finite number for each feature.
    transforms
        Scalings that the features need, in order; restricted to `feature_names`.
    provenance
        Origin of the model: ranker, parameters, data fingerprint, versions, metrics.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    format: Literal["dranking-model"] = "dranking-model"
    schema_version: int = Field(default=SCHEMA_VERSION, ge=1)
    kind: Literal["linear"] = "linear"
    feature_names: tuple[str, ...]
    weights: tuple[Annotated[float, Field(strict=True)], ...]
    transforms: tuple[Transform, ...] = ()
    provenance: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_lengths(self) -> LinearModel:
        n = len(self.feature_names)
        if len(self.weights) != n:
            raise ValueError(f"weights has {len(self.weights)} entries for {n} feature_names")
        if len(set(self.feature_names)) != n:
            raise ValueError("feature_names has a name twice")
        for transform in self.transforms:
            if transform.n_features not in (None, n):
                raise ValueError(
                    f"transforms: {transform.kind} is for {transform.n_features} features, not {n}"
                )
        return self

    def predict(self, data: Any, *, qid: Any = None, executor: Any = None) -> Any:
        """Scores of all documents, in order.

        Parameters
        ----------
        data
            A data set or a table, as `from_table` takes it, whose columns are found by name and may
            include others; or an array (n_documents, len(feature_names)) of this model's features
            in order. DataFrames and arrays of Dask too.
        qid
            (n_documents,) query ids of the rows of a table or an array, if features are scaled
            query by query; the rows of a query are adjacent.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Returns
        -------
        (n_documents,) float64; higher ranks first. For a dask DataFrame, a lazy dask Series with
        its partitions and index; for a dask array, a lazy dask array with its chunks of rows.

        Raises
        ------
        DataError
            If features are missing, a value of theirs is missing, or the data's scaling differs
            from the scaling that the model needs.
        UsageError
            If `qid` is needed but not given.
        """
        if isinstance(data, Dataset):
            parts = [scores for _, scores in self.predict_blocks(data, executor=executor)]
            return np.concatenate(parts) if parts else np.empty(0)
        weights = np.array(self.weights)
        return table_scores(data, self.feature_names, weights, self.transforms, qid=qid)

    def predict_blocks(
        self, dataset: Dataset, *, executor: Any = None
    ) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
        """Yield blocks of the model's columns and their scores, in order, within bounded memory."""
        columns, missing = locate_features(self.feature_names, self.transforms, dataset)
        yield from map_blocks(
            score_block,
            dataset,
            get_executor(executor),
            np.array(self.weights),
            missing,
            columns=columns,
            name="predict",
        )

    def to_json(self) -> str:
        """The model as an indented JSON document."""
        return json.dumps(self.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"

    def save(
        self,
        path: AnyPlace,
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the model as one JSON file, whole or not at all.

        Parameters
        ----------
        path
            Where to write: a local path or a URL.
        overwrite
            Replace a file that exists.
        storage_options
            Options of the URL's file system, as pandas and Dask take them.

        Raises
        ------
        UsageError
            If the file exists and `overwrite` is false.
        DataError, TryAgainError
            If a store refuses access, or is out of reach.
        """
        atomic_write(as_place(path, storage_options), self.to_json(), overwrite=overwrite)


def load_model(path: AnyPlace) -> LinearModel:
    """Read a stored linear model. Runs no code from the file.

    Raises
    ------
    DataError
        If the file does not exist, is not a model, is of a newer schema, or has wrong content.
    """
    file = as_place(path)
    if is_local(file) and file.is_dir():
        raise DataError(f"{file}: is a directory; give the file of a linear model.")
    try:
        content = read_json(file, MAX_MODEL_BYTES)
    except FileNotFoundError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{file}: {error}; give a model file.") from error
    if not isinstance(content, dict) or content.get("format") != "dranking-model":
        raise DataError(f"{file}: not a dranking model (no 'format': 'dranking-model').")
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DataError(
            f"{file}: model schema {version} is newer than this dranking reads "
            f"({SCHEMA_VERSION}); upgrade dranking."
        )
    try:
        return LinearModel.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{file}: {problems_in(error, 'model')}.") from error


def table_scores(
    X: Any,
    names: Sequence[str],
    weights: NDArray[np.float64],
    transforms: Transforms = (),
    *,
    qid: Any = None,
    model: str = "the model",
) -> Any:
    """Scores of rows; a table's columns are found by name, an array has columns `names`.

    Only columns whose weight is not 0 are looked at. Scores of a Dask collection are lazy, see
    `dranking.engine.collections.scores.lazy_scores`. In memory, and without `qid`, each row may
    have weights of its own: `weights` is then (n_features, n_documents).

    Raises
    ------
    DataError
        If such columns are missing or hold values that cannot be features, or an array has another
        number of columns.
    UsageError
        If the features are scaled query by query, and `qid` is None.
    """
    if not is_table(X) and np.ndim(X) < 2:
        raise DataError(
            f"X has shape {np.shape(X)}; it must be (n_documents, n_features). Reshape your data: "
            "X[None, :] is one document."
        )
    if is_dask(X):
        return _lazy_scores(X, names, weights, transforms, qid=qid, model=model)
    used = np.flatnonzero(weights if weights.ndim == 1 else weights.any(axis=1))
    # Several columns of a model may be forms of one feature.
    sources = source_names(names, transforms)
    columns = {name: i for i, name in enumerate(dict.fromkeys(sources))}
    wanted = np.array([columns[sources[i]] for i in used.tolist()], dtype=np.intp)
    read, places = np.unique(wanted, return_inverse=True)
    X, present = _used_columns(X, list(columns), read, model)
    missing = missing_transforms(tuple(t.restricted(used) for t in transforms), present)
    if qid is None and any(each.of_query for each in missing):
        raise UsageError(
            f"{model} scales the features of each query by its documents: pass qid=, the "
            "query id of each row, or a data set (dranking.from_arrays makes one)."
        )
    n_rows = X.shape[0] if sparse.issparse(X) else len(X)
    if not len(used):
        return np.zeros(n_rows)
    rows = as_dataset(X, None, qid=np.zeros(n_rows, dtype=np.int64) if qid is None else qid)
    blocks = rows.read_blocks(columns=places)
    return np.concatenate([score_block(block, weights[used], missing)[1] for block in blocks])


def _used_columns(
    X: Any, names: Sequence[str], used: NDArray[np.intp], model: str
) -> tuple[Any, Transforms]:
    """The columns of rows in memory that a model needs, in order, and their recorded scalings."""
    if is_table(X):
        table, wanted = as_table(X), [names[i] for i in used]
        check_features_there(wanted, table.column_names)
        present = recorded_transforms([("the table", table.schema)], wanted)
        return table.select(wanted), present
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
            f"input: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
        )


def _lazy_scores(
    X: Any,
    names: Sequence[str],
    weights: NDArray[np.float64],
    transforms: Transforms,
    *,
    qid: Any,
    model: str,
) -> Any:
    """Scores of a dask DataFrame or array, see `table_scores`; lazy, with the partitions of `X`."""
    used = np.flatnonzero(weights)
    wanted = [names[i] for i in used.tolist()]
    needed = tuple(t.restricted(used) for t in transforms)
    if qid is not None:
        raise by_partition(model)
    columns = columns_of_collection(X, model, names, transforms, used)
    score = partial(
        table_scores, names=wanted, weights=weights[used], transforms=needed, model=model
    )
    return lazy_scores(X, score, columns)


def columns_of_collection(
    X: Any, model: str, names: Sequence[str], transforms: Transforms, used: NDArray[np.intp]
) -> Any:
    """The columns of a dask DataFrame, by name, or of a dask array, from which features are made.

    Parameters
    ----------
    model
        Name of the model, for errors.
    names, transforms
        Names and scalings of the columns of an array; of a DataFrame, others may be there too.
    used
        Positions in `names` of the features that are needed.

    Raises
    ------
    UsageError
        If the features are scaled query by query.
    DataError
        If columns are missing, or an array has another number of columns.
    """
    needed = tuple(t.restricted(used) for t in transforms)
    if any(each.of_query for each in needed):
        raise by_partition(model)
    sources = list(dict.fromkeys(source_names([names[i] for i in used.tolist()], needed)))
    if is_dask_frame(X):
        check_features_there(sources, set(map(str, X.columns)))
        return sources
    there = {name: i for i, name in enumerate(dict.fromkeys(source_names(names, transforms)))}
    _check_width(X, list(there), model)
    return np.array([there[name] for name in sources], dtype=np.intp)


def by_partition(model: str) -> UsageError:
    """What is raised if the rows of a dask collection would be scaled query by query."""
    return UsageError(
        f"{model} scores the partitions of a dask collection one by one, so that features "
        "cannot be scaled within queries, and qid= has no use: write the collection to parquet "
        "and score that data set."
    )


def locate_features(
    names: Sequence[str], transforms: Transforms, dataset: Dataset
) -> tuple[NDArray[np.intp], Transforms]:
    """Columns of the named features in a data set, and the scalings that its values still need.

    Parameters
    ----------
    names
        Names of the features, in the order of the returned columns.
    transforms
        Scalings that the features need, restricted to these features. If they are forms of
        features, and the data is raw, the columns are those of the raw features, one of them for
        each form.

    Raises
    ------
    DataError
        If features are missing, or the data has another scaling.
    """
    if forms_of(dataset.transforms) is None:
        names = source_names(names, transforms)
    columns = dataset.columns_of(names)
    present = tuple(t.restricted(columns) for t in dataset.transforms)
    return columns, missing_transforms(transforms, present)


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
    for transform in transforms:
        block = transform.apply(block)
    return block, linear_scores(block.features, weights)
