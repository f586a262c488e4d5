"""Linear models: a few named weights, stored as JSON, applied to data sets, tables and arrays."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

import dranking
from dranking.data.blocks import QueryBlock
from dranking.data.column_constants import ColumnConstants, NullPolicy, ValueRule, check_permitted
from dranking.data.column_forms import Transform, forms_of
from dranking.data.dataset import Dataset
from dranking.data.steps import Steps, constants_of, scalings_of
from dranking.engine.choose_executor import get_executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, problems_in
from dranking.files.json_files import read_json
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.requests import request
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.models.linear.explanation import Explanation, explained
from dranking.models.linear.scoring import locate_features, score_block, table_scores
from dranking.models.trained_queries import (
    QueriesFile,
    TrainedQueries,
    read_queries,
    save_with_queries,
)

SCHEMA_VERSION = 2
MAX_MODEL_BYTES = 256 * 2**20
N_SHOWN = 5
"""Features in the short text of a model."""

CLICK_NIGHTS: Final = "click_nights"
"""Entry of the training data in the provenance: first and last night of the clicks."""

UNSCALED: Final = "fingerprint_before_scaling"
"""Entry of the training data in the provenance: the fingerprint of the data that was scaled."""


class _Trained:
    """The hashes of the training queries of a model, or the place of the model with their file.

    All are equal: models are compared by the checksum of the file.
    """

    def __init__(self, queries: TrainedQueries | None = None, place: Place | None = None) -> None:
        self.queries, self.place = queries, place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Trained)

    __hash__ = None  # type: ignore[assignment]


class LinearModel(BaseModel):
    """A linear ranker: the score is the sum of weight times feature, after the recorded steps.

    The steps are: missing values take the values of the training data, then come the scalings.

    Attributes
    ----------
    feature_names
        Names of the features with a weight, in the order of the training data's columns.
    weights
        One finite number for each feature.
    constants
        The value of each of `feature_names` that stands for a missing one, before the scalings: as
        fitted to the training data. For a form of a feature, the value of the feature; where some
        features are products, a value for each of the forms that they are made of. None if the
        training data permitted no missing value; a missing value is an error then.
    transforms
        Scalings that the features need, in order; restricted to `feature_names`.
    queries
        Number of the queries that the model was trained on, and checksum of the file
        ``model.queries`` beside ``model.json`` that holds their hashes; None if not recorded.
    provenance
        Origin of the model: ranker, parameters, data fingerprint, versions, metrics.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    format: Literal["dranking-model"] = "dranking-model"
    schema_version: int = Field(default=SCHEMA_VERSION, ge=1)
    kind: Literal["linear"] = "linear"
    feature_names: tuple[str, ...]
    weights: tuple[Annotated[float, Field(strict=True)], ...]
    constants: ColumnConstants | None = None
    transforms: tuple[Transform, ...] = ()
    queries: QueriesFile | None = None
    provenance: dict[str, Any] = Field(default_factory=dict)
    _trained: _Trained = PrivateAttr(default_factory=lambda: _Trained())

    @model_validator(mode="after")
    def _check_lengths(self) -> LinearModel:
        n = len(self.feature_names)
        if len(self.weights) != n:
            raise ValueError(f"weights has {len(self.weights)} entries for {n} feature_names")
        if len(set(self.feature_names)) != n:
            raise ValueError("feature_names has a name twice")
        forms = forms_of(self.transforms)
        n_values = n if forms is None else len(forms.forms)
        if self.constants is not None and self.constants.n_features != n_values:
            raise ValueError(f"constants has {self.constants.n_features} values, not {n_values}")
        for transform in self.transforms:
            if transform.n_features not in (None, n):
                raise ValueError(
                    f"transforms: {transform.kind} is for {transform.n_features} features, not {n}"
                )
        return self

    @classmethod
    def of_steps(
        cls,
        feature_names: Sequence[str],
        weights: Sequence[float],
        steps: Steps,
        provenance: Mapping[str, Any] | None = None,
    ) -> LinearModel:
        """The model of features to which steps lead from raw values."""
        return cls(
            feature_names=tuple(feature_names),
            weights=tuple(weights),
            constants=constants_of(steps),
            transforms=scalings_of(steps),
            provenance=dict(provenance or {}),
        )

    @property
    def preparation(self) -> Steps:
        """The filling and the scalings that the features need, in order."""
        return self.transforms if self.constants is None else (self.constants, *self.transforms)

    def of_factors(self, values: Sequence[Any]) -> list[Any]:
        """For each feature, its one of the `values` of all forms; for a product, both as text."""
        forms = forms_of(self.transforms)
        if forms is None or not forms.factors or not values:
            return list(values)
        texts = [value if isinstance(value, str) else f"{value:.6g}" for value in values]
        return [
            "; ".join(texts[i] for i in of) if len(of) > 1 else values[of[0]]
            for of in forms.factors
        ]

    def __repr__(self) -> str:
        """The features of the largest weights; the whole model is `to_json`."""
        order = sorted(range(len(self.weights)), key=lambda i: -abs(self.weights[i]))
        shown = [f"{self.weights[i]:.4g} {self.feature_names[i]}" for i in order[:N_SHOWN]]
        if len(order) > N_SHOWN:
            shown.append(f"... {len(order) - N_SHOWN:,} more")
        scalings = [f"scaling: {transform.kind}" for transform in self.transforms]
        n = len(order)
        fills = (
            []
            if self.constants is None or not self.constants.fills
            else [f"missing values: {self.constants.policy}"]
        )
        if self.constants is not None and self.constants.origins:
            fills.append("shifted")
        parts = [f"{n:,} feature{'' if n == 1 else 's'}", *fills, *scalings, *shown]
        return f"LinearModel({', '.join(parts)})"

    __str__ = __repr__

    def predict(self, data: Any, *, qid: Any = None, executor: Any = None) -> Any:
        """Scores of all documents, in order.

        Parameters
        ----------
        data
            A data set or a table, as `from_table` takes it, whose columns are found by name and may
            include others; or an array (n_documents, len(feature_names)) of this model's features
            in order. DataFrames and arrays of Dask too.
        qid
            (n_documents,) query ids of the rows of a table or an array, or the name of a column of
            the table, if features are scaled query by query.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Returns
        -------
        (n_documents,) float64 in the order of the rows given; higher ranks first. For a dask
        DataFrame, a lazy dask Series with its partitions and index; for a dask array, a lazy dask
        array with its chunks of rows.

        Raises
        ------
        DataError
            If features are missing, a value of theirs is missing for which `constants` have none,
            or the data's scaling or filling differs from those that the model needs.
        UsageError
            If `qid` is needed but not given; or rows of a data set lay apart, and only some of its
            queries are here.
        """
        if isinstance(data, Dataset):
            parts = [scores for _, scores in self.predict_blocks(data, executor=executor)]
            return data.in_given_order(np.concatenate(parts)) if parts else np.empty(0)
        weights = np.array(self.weights)
        return table_scores(data, self.feature_names, weights, self.preparation, qid=qid)

    def explain(self, data: Any, *, qid: Any = None, executor: Any = None) -> Explanation:
        """What each feature contributes to the scores of documents.

        A contribution is the weight times the value of the feature, after the recorded steps. The
        contributions of a document add up to its score, in every bit if they are added in order.

        Parameters
        ----------
        data, qid, executor
            As in `predict`, but no Dask collection; also one document, as a mapping from names of
            features to values, or as a pandas Series.

        Raises
        ------
        DataError, UsageError
            As in `predict`.

        Examples
        --------
        >>> model = LinearModel(feature_names=("clicks", "age"), weights=(0.5, -0.25))
        >>> model.explain({"clicks": 6.0, "age": 2.0})
        document 0: score 2.5
          +3         clicks
          -0.5       age
        """
        return explained(self, data, qid=qid, executor=executor)

    def predict_blocks(
        self, dataset: Dataset, *, executor: Any = None
    ) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
        """Yield blocks of the model's columns and their scores, in order, within bounded memory."""
        columns, missing = locate_features(self.feature_names, self.preparation, dataset)
        yield from map_blocks(
            score_block,
            dataset,
            get_executor(executor),
            np.array(self.weights),
            missing,
            columns=columns,
            name="predict",
        )

    def permitting_nulls(self, null: NullPolicy, null_indicator: bool = False) -> LinearModel:
        """The model that fills missing values of every feature.

        Where the training data lacks no value of a feature, a missing value is an error for the
        model itself.

        Parameters
        ----------
        null
            The policy by which the values of the training data were found: "zero", "minimum" or
            "mean". "error" leaves the model as it is.
        null_indicator
            Whether the training had features that tell of missing values.

        Raises
        ------
        UsageError
            If the model knows no values, they were found by another policy, or the training had no
            such features.
        """
        rule = ValueRule.of(null, null_indicator)
        check_permitted(rule, self.constants, "the training data of the model")
        if not rule.permits or self.constants is None:
            return self
        return self.model_copy(update={"constants": self.constants.permitting()})

    def trained_queries(self) -> TrainedQueries | None:
        """The hashes of the queries that the model was trained on; None if they are not known.

        They are those that `fit` kept, or those of the file beside the model, which is read once.

        Raises
        ------
        DataError
            If the file is damaged, or belongs to another model.
        """
        kept = self._trained
        if kept.queries is None and kept.place is not None and self.queries is not None:
            kept.queries = read_queries(kept.place, self.queries)
        return kept.queries

    def trained_on(self, queries: TrainedQueries | None) -> LinearModel:
        """The model with the hashes of the queries that it was trained on."""
        model = self.model_copy(update={"queries": None if queries is None else queries.file})
        model._trained = _Trained(queries)
        return model

    def to_json(self) -> str:
        """The model as an indented JSON document."""
        return json.dumps(self.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"

    @property
    def click_nights(self) -> tuple[str, str] | None:
        """First and last night of the clicks that the model was trained on, if it records them."""
        data = self.provenance.get("data")
        nights = data.get(CLICK_NIGHTS) if isinstance(data, dict) else None
        return None if nights is None else (str(nights[0]), str(nights[1]))

    def trained_on_clicks_of(self, nights: tuple[str, str]) -> LinearModel:
        """The model with the nights of its clicks in the provenance."""
        data = {**self.provenance.get("data", {}), CLICK_NIGHTS: list(nights)}
        return self.model_copy(update={"provenance": {**self.provenance, "data": data}})

    def save(
        self,
        path: AnyPlace,
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the model as one JSON file, whole or not at all.

        The file ``model.queries`` beside ``model.json`` gets the hashes of the training queries,
        if they are known; without it nobody can tell whether judged queries were trained on.

        Parameters
        ----------
        path
            The place to write to: a local path or a URL.
        overwrite
            Replace a file that exists.
        storage_options
            Options of the URL's file system, as pandas and Dask take them.

        Raises
        ------
        UsageError
            If the file exists and `overwrite` is false, or another file is in the place of
            ``model.queries``.
        DataError, TryAgainError
            If a store refuses access, or is out of reach.
        """
        place, queries = as_place(path, storage_options), self.trained_queries()
        check_output_file(place, overwrite)
        write = partial(atomic_write, place, self.to_json(), overwrite=overwrite)
        save_with_queries(place, queries, write)


def versions() -> dict[str, str]:
    """Versions of what trained a model, for the model's provenance."""
    return {
        "dranking": dranking.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def load_model(path: AnyPlace) -> LinearModel:
    """Read a stored linear model. Runs no code from the file.

    Raises
    ------
    DataError
        If the file does not exist, is not a model, is of a newer schema, or has wrong content.
    """
    file = as_place(path)
    if is_local(file) and request(file, file.is_dir):
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
    if isinstance(version, int) and 0 < version < SCHEMA_VERSION:
        raise DataError(
            f"{file}: model schema {version} is older than what this dranking reads "
            f"({SCHEMA_VERSION}); train the model anew."
        )
    try:
        model = LinearModel.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{file}: {problems_in(error, 'model')}.") from error
    model._trained = _Trained(place=file)
    return model
