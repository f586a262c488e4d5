"""Apache Solr's learning-to-rank module: a LinearModel for its model store.

Source: the `org.apache.solr.ltr.model.LinearModel` and `norm.StandardNormalizer` classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from dranking.data.transforms import Standard
from dranking.models.export.terms import Term
from dranking.models.linear.model import LinearModel

MODEL_CLASS = "org.apache.solr.ltr.model.LinearModel"
NORMALIZER_CLASS = "org.apache.solr.ltr.norm.StandardNormalizer"


def solr(terms: Sequence[Term], name: str) -> str:
    """Write the body to PUT to ``/solr/COLLECTION/schema/model-store``.

    Solr computes in float32 and has no intercept, so normalisers subtract the means.
    """
    content = {
        "class": MODEL_CLASS,
        "name": name,
        "features": [_feature(term) for term in terms],
        "params": {"weights": {term.name: term.weight for term in terms}},
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _feature(term: Term) -> dict[str, Any]:
    if not term.is_scaled:
        return {"name": term.name}
    params = {
        "avg": repr(term.mean),
        "std": repr(term.scale),
    }  # strings, as in Solr's documentation
    return {"name": term.name, "norm": {"class": NORMALIZER_CLASS, "params": params}}


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid")
    avg: FiniteFloat
    std: Annotated[FiniteFloat, Field(gt=0)]


class _Norm(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    kind: Literal["org.apache.solr.ltr.norm.StandardNormalizer"] = Field(alias="class")
    params: _Params


class _Feature(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    norm: _Norm | None = None


class _Weights(BaseModel):
    model_config = ConfigDict(extra="forbid")
    weights: dict[str, FiniteFloat]


class SolrModel(BaseModel):
    """A stored linear model, as documented by Solr."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    kind: Literal["org.apache.solr.ltr.model.LinearModel"] = Field(alias="class")
    name: str
    store: str | None = None
    features: list[_Feature]
    params: _Weights

    def to_model(self) -> LinearModel:
        """Convert to a `LinearModel`."""
        norms = [feature.norm for feature in self.features]
        scaling = Standard(
            mean=tuple(norm.params.avg if norm else 0.0 for norm in norms),
            scale=tuple(norm.params.std if norm else 1.0 for norm in norms),
        )
        return LinearModel(
            feature_names=tuple(feature.name for feature in self.features),
            weights=tuple(self.params.weights[feature.name] for feature in self.features),
            transforms=(scaling,) if any(norms) else (),
            provenance={"imported_from": "solr", "name": self.name},
        )
