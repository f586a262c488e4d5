"""Linear models: a handful of named weights, stored as JSON, applied to any data source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy import sparse

from dranking.data.atomic import atomic_write
from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.transforms import QueryMinMax, Standard, Transform, missing_transforms
from dranking.engine.executor import get_executor
from dranking.engine.stream import map_blocks
from dranking.errors import DataError

SCHEMA_VERSION = 1
MAX_MODEL_BYTES = 256 * 2**20


class LinearModel(BaseModel):
    """A linear ranker: score = sum of weight times feature, after the recorded scalings.

    Attributes
    ----------
    feature_names
        The features used, in the order of the training data's columns.
    weights
        One finite number for each.
    transforms
        Scalings that the features need, in order; restricted to `feature_names`.
    provenance
        Where the model comes from: ranker, parameters, data fingerprint, versions, metrics.
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
            if isinstance(transform, Standard) and len(transform.scale) != n:
                raise ValueError(f"transforms: standard has {len(transform.scale)} scales, not {n}")
        return self

    def predict(self, data: Any, *, executor: Any = None) -> NDArray[np.float64]:
        """Scores of all documents, in order.

        Parameters
        ----------
        data
            A data set, whose columns are found by name (it may have more, in any order), or an
            array (n_documents, len(feature_names)) of this model's features, raw.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Returns
        -------
        (n_documents,) float64; higher ranks first.

        Raises
        ------
        DataError
            If features are missing, or the data was scaled otherwise than the model needs.
        """
        if isinstance(data, Dataset):
            parts = [scores for _, scores in self.predict_blocks(data, executor=executor)]
            return np.concatenate(parts) if parts else np.empty(0)
        features = data if sparse.issparse(data) else np.asarray(data, dtype=np.float32)
        if features.ndim != 2 or features.shape[1] != len(self.weights):
            raise DataError(
                f"the array has shape {features.shape}; "
                f"the model needs {len(self.weights)} columns: {', '.join(self.feature_names[:10])}"
            )
        if self.transforms:
            raise DataError(
                "the model scales its features, which needs to know the queries: "
                "pass a data set instead of an array."
            )
        return linear_scores(features, np.array(self.weights))

    def predict_blocks(
        self, dataset: Dataset, *, executor: Any = None
    ) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
        """Blocks with only the columns used, and their scores, in order, memory bounded."""
        columns = dataset.columns_of(self.feature_names)
        present = tuple(t.restricted(columns) for t in dataset.transforms)
        missing = missing_transforms(self.transforms, present)
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
    """Read a stored model. Runs no code from the file.

    Raises
    ------
    DataError
        If the file is not there, is not a model, is of a newer schema, or has wrong content.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_MODEL_BYTES:
            raise DataError(f"{file}: larger than {MAX_MODEL_BYTES} bytes; not a linear model.")
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: not JSON ({error}); a model file is wanted.") from error
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
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'model'}: {e['msg']}" for e in error.errors()[:5]
        )
        raise DataError(f"{file}: {problems}.") from error


def linear_scores(features: FeatureMatrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """X w in float64, summed column by column in order.

    Equal rows get equal scores in every bit, wherever they stand: ties stay ties.
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
    """Scale what is not scaled yet, and score."""
    for transform in transforms:
        block = transform.apply(block)
    return block, linear_scores(block.features, weights)
