"""The learning-to-rank plugins of Elasticsearch and OpenSearch: a ``model/linear``.

Source: "Uploading a trained model" in the documentation of both plugins, and the class
`MinMaxFeatureNormDefinition`, which refuses a negative minimum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, Json, model_validator

from dranking.data.affine_scalings import MinMax, Standard
from dranking.models.export.normalizers import min_max, scaling_of
from dranking.models.export.terms import Term
from dranking.models.linear.model import LinearModel


def elasticsearch(terms: Sequence[Term], name: str) -> str:
    """Write the body to POST to ``/_ltr/_featureset/FEATURESET/_createmodel``.

    The plugins compute in float32 and have no intercept, so normalisers subtract the means.
    """
    normalizers = {term.name: _normalizer(term) for term in terms if term.is_scaled}
    ranker: dict[str, Any] = {"type": "model/linear"}
    if normalizers:
        ranker["feature_normalizers"] = normalizers
    ranker["definition"] = json.dumps({term.name: term.weight for term in terms}, allow_nan=False)
    content = {"model": {"name": name, "model": ranker}}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _normalizer(term: Term) -> dict[str, dict[str, float]]:
    """The normaliser of a scaled feature; the plugins refuse a negative minimum."""
    if term.bounds is not None and term.bounds[0] >= 0:
        return {"min_max": {"minimum": term.bounds[0], "maximum": term.bounds[1]}}
    return {"standard": {"mean": term.mean, "standard_deviation": term.scale}}


class _Standard(BaseModel):
    model_config = ConfigDict(extra="forbid")
    mean: FiniteFloat
    standard_deviation: Annotated[FiniteFloat, Field(gt=0)]


class _MinMax(BaseModel):
    model_config = ConfigDict(extra="forbid")
    minimum: FiniteFloat = 0.0
    maximum: FiniteFloat


class _Normalizer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    standard: _Standard | None = None
    min_max: _MinMax | None = None

    def scaling(self) -> Standard | MinMax:
        if self.standard is not None and self.min_max is None:
            return Standard(mean=(self.standard.mean,), scale=(self.standard.standard_deviation,))
        if self.min_max is not None and self.standard is None:
            return min_max(self.min_max.minimum, self.min_max.maximum)
        raise ValueError("a normalizer must be either standard or min_max")


class _Ranker(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: Literal["model/linear"]
    definition: Json[dict[str, FiniteFloat]] | dict[str, FiniteFloat]
    feature_normalizers: dict[str, _Normalizer] = Field(default_factory=dict)


class _Named(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    feature_set: Any = None
    model: _Ranker


class ElasticsearchModel(BaseModel):
    """The body of a ``_createmodel`` request, or the answer to ``GET _ltr/_model/NAME``."""

    model_config = ConfigDict(extra="forbid")
    model: _Named

    @model_validator(mode="before")
    @classmethod
    def _from_answer(cls, content: Any) -> Any:
        answered = content.get("_source") if isinstance(content, dict) else None
        return {"model": answered.get("model")} if isinstance(answered, dict) else content

    def to_model(self) -> LinearModel:
        """Convert to a `LinearModel`."""
        ranker = self.model.model
        names = tuple(ranker.definition)
        norms = [ranker.feature_normalizers.get(name) for name in names]
        return LinearModel(
            feature_names=names,
            weights=tuple(ranker.definition.values()),
            transforms=scaling_of(
                names, [None if norm is None else norm.scaling() for norm in norms]
            ),
            provenance={"imported_from": "elasticsearch", "name": self.model.name},
        )
