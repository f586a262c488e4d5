"""Linear models: a few named weights, stored as JSON, applied to data sets, tables and arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy import sparse

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.transforms import QueryMinMax, Standard, Transform, missing_transforms
from dranking.engine.dask_collections import as_dataset
from dranking.engine.executor import get_executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, problems_in
from dranking.files.commit import atomic_write
from dranking.files.json_files import read_json

Transforms: TypeAlias = tuple[QueryMinMax | Standard, ...]

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
    weights: tuple[float, ...]
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
            if isinstance(transform, Standard):
                _check_standard(transform, n)
        return self

    def predict(self, data: Any, *, executor: Any = None) -> NDArray[np.float64]:
        """Scores of all documents, in order.

        Parameters
        ----------
        data
            A data set or a table (pandas, pyarrow), whose columns are found by name and may include
            others; or an array (n_documents, len(feature_names)) of this model's features in order.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Returns
        -------
        (n_documents,) float64; higher ranks first.

        Raises
        ------
        DataError
            If features are missing, or the data's scaling differs from the scaling that the model
            needs.
        """
        if isinstance(data, Dataset):
            parts = [scores for _, scores in self.predict_blocks(data, executor=executor)]
            return np.concatenate(parts) if parts else np.empty(0)
        return table_scores(data, self.feature_names, np.array(self.weights), self.transforms)

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

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model as one JSON file, whole or not at all.

        Raises
        ------
        UsageError
            If the file exists and `overwrite` is false.
        """
        atomic_write(path, self.to_json(), overwrite=overwrite)


def load_model(path: str | os.PathLike[str]) -> LinearModel:
    """Read a stored linear model. Runs no code from the file.

    Raises
    ------
    DataError
        If the file does not exist, is not a model, is of a newer schema, or has wrong content.
    """
    file = Path(path)
    try:
        content = read_json(file, MAX_MODEL_BYTES)
    except IsADirectoryError as error:
        raise DataError(f"{file}: is a directory; give the file of a linear model.") from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
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
    transforms: Sequence[QueryMinMax | Standard] = (),
    model: str = "the model",
) -> NDArray[np.float64]:
    """Scores of rows in memory; a table's columns are found by name, an array has columns `names`.

    Raises
    ------
    DataError
        If columns are missing, values cannot be features, or the features need scaling.
    """
    if np.ndim(X) == 1:
        raise DataError(
            f"X has shape {np.shape(X)}; it must be (n_documents, n_features). Reshape your data: "
            "X[None, :] is one document."
        )
    n_rows = X.shape[0] if sparse.issparse(X) else len(X)
    rows = as_dataset(X, None, qid=np.zeros(n_rows, dtype=np.int64))
    columns = rows.columns_of(names) if hasattr(X, "columns") else None
    if columns is None and rows.n_features != len(names):
        raise DataError(
            f"X has {rows.n_features} features, but {model} is expecting {len(names)} features "
            f"as input: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
        )
    if transforms:
        raise DataError(
            f"{model} scales its features, and scaling needs whole queries: pass a data set "
            "instead of an array or a table (dranking.from_arrays makes a data set)."
        )
    return np.concatenate(
        [linear_scores(rows.block(b, columns).features, weights) for b in range(rows.n_blocks)]
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
        Scalings that the features need, restricted to these features.

    Raises
    ------
    DataError
        If features are missing, or the data has another scaling.
    """
    columns = dataset.columns_of(names)
    present = tuple(t.restricted(columns) for t in dataset.transforms)
    return columns, missing_transforms(transforms, present)


def linear_scores(features: FeatureMatrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_documents,) float64 scores X w, summed column by column in order.

    Equal rows get equal scores in every bit, whatever their position: ties stay ties.
    """
    scores = np.zeros(features.shape[0])
    if sparse.issparse(features):
        columns = features.tocsc()
        for j, weight in enumerate(weights):
            entries = slice(columns.indptr[j], columns.indptr[j + 1])
            scores[columns.indices[entries]] += weight * columns.data[entries].astype(np.float64)
        return scores
    for j, weight in enumerate(weights):
        scores += weight * features[:, j].astype(np.float64)
    return scores


def score_block(
    block: QueryBlock, weights: NDArray[np.float64], transforms: tuple[QueryMinMax | Standard, ...]
) -> tuple[QueryBlock, NDArray[np.float64]]:
    """Apply the scalings that a block still needs, and score its documents."""
    for transform in transforms:
        block = transform.apply(block)
    return block, linear_scores(block.features, weights)


def _check_standard(transform: Standard, n_features: int) -> None:
    scale = np.array(transform.scale)
    mean = np.zeros(n_features) if transform.mean is None else np.array(transform.mean)
    if len(scale) != n_features or len(mean) != n_features:
        raise ValueError(
            f"transforms: standard has {len(scale)} scales and {len(mean)} means for "
            f"{n_features} features"
        )
    if not (np.isfinite(scale).all() and (scale > 0).all() and np.isfinite(mean).all()):
        raise ValueError("transforms: standard needs finite means and finite scales above 0")
