"""The learning-to-rank plugins of Elasticsearch and OpenSearch: a ``model/linear``.

Source: "Uploading a trained model" in the documentation of both plugins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, Json

from dranking.data.transforms import Standard
from dranking.models.export.terms import Term
from dranking.models.linear.model import LinearModel


def elasticsearch(terms: Sequence[Term], name: str) -> str:
    """Write the body to POST to ``/_ltr/_featureset/FEATURESET/_createmodel``.

    The plugins compute in float32 and have no intercept, so normalisers subtract the means.
    """
    normalizers = {
        term.name: {"standard": {"mean": term.mean, "standard_deviation": term.scale}}
        for term in terms
        if term.is_scaled
    }
    ranker: dict[str, Any] = {"type": "model/linear"}
    if normalizers:
        ranker["feature_normalizers"] = normalizers
    ranker["definition"] = json.dumps({term.name: term.weight for term in terms}, allow_nan=False)
    content = {"model": {"name": name, "model": ranker}}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


class _Standard(BaseModel):
    model_config = ConfigDict(extra="forbid")
    mean: FiniteFloat
    standard_deviation: Annotated[FiniteFloat, Field(gt=0)]


class _Normalizer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    standard: _Standard


class _Ranker(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: Literal["model/linear"]
    definition: Json[dict[str, FiniteFloat]] | dict[str, FiniteFloat]
    feature_normalizers: dict[str, _Normalizer] = Field(default_factory=dict)


class _Named(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    model: _Ranker


class ElasticsearchModel(BaseModel):
    """The body of a ``_createmodel`` request, as documented by the plugins."""

    model_config = ConfigDict(extra="forbid")
    model: _Named

    def to_model(self) -> LinearModel:
        """Convert to a `LinearModel`."""
        ranker = self.model.model
        norms = [ranker.feature_normalizers.get(name) for name in ranker.definition]
        scaling = Standard(
            mean=tuple(norm.standard.mean if norm else 0.0 for norm in norms),
            scale=tuple(norm.standard.standard_deviation if norm else 1.0 for norm in norms),
        )
        return LinearModel(
            feature_names=tuple(ranker.definition),
            weights=tuple(ranker.definition.values()),
            transforms=(scaling,) if any(norms) else (),
            provenance={"imported_from": "elasticsearch", "name": self.model.name},
        )
