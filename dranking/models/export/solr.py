"""Apache Solr's learning-to-rank module: a LinearModel for its model store.

Source: the classes `model.LinearModel`, `norm.StandardNormalizer` and `norm.MinMaxNormalizer` of
`org.apache.solr.ltr`, and `store.rest.ManagedModelStore`, which reads and writes their JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from dranking.data.affine_scalings import MinMax, Standard
from dranking.models.export.normalizers import min_max, scaling_of
from dranking.models.export.terms import Term
from dranking.models.linear.model import LinearModel

STORE = "feature_store"
"""Entry of the provenance of an imported model: its feature store in Solr."""

MODEL_CLASS = "org.apache.solr.ltr.model.LinearModel"
STANDARD_CLASS = "org.apache.solr.ltr.norm.StandardNormalizer"
MIN_MAX_CLASS = "org.apache.solr.ltr.norm.MinMaxNormalizer"


def solr(terms: Sequence[Term], name: str, store: str | None = None) -> str:
    """Write the body to PUT to ``/solr/COLLECTION/schema/model-store``.

    Solr computes in float32 and has no intercept, so normalisers subtract the means. `store` is the
    feature store that has the features; None for Solr's default one.
    """
    content = {
        "class": MODEL_CLASS,
        "name": name,
        **({} if store is None else {"store": store}),
        "features": [_feature(term) for term in terms],
        "params": {"weights": {term.name: term.weight for term in terms}},
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _feature(term: Term) -> dict[str, Any]:
    """A feature of the model; the parameters of its normaliser are strings, as Solr writes them."""
    if not term.is_scaled:
        return {"name": term.name}
    kind, params = STANDARD_CLASS, {"avg": repr(term.mean), "std": repr(term.scale)}
    if term.bounds is not None:
        kind, params = MIN_MAX_CLASS, dict(zip(("min", "max"), map(repr, term.bounds), strict=True))
    return {"name": term.name, "norm": {"class": kind, "params": params}}


class _StandardParams(BaseModel):
    model_config = ConfigDict(extra="forbid")
    avg: FiniteFloat
    std: Annotated[FiniteFloat, Field(gt=0)]


class _StandardNorm(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    kind: Literal["org.apache.solr.ltr.norm.StandardNormalizer"] = Field(alias="class")
    params: _StandardParams

    def scaling(self) -> Standard:
        return Standard(mean=(self.params.avg,), scale=(self.params.std,))


class _MinMaxParams(BaseModel):
    model_config = ConfigDict(extra="forbid")
    min: FiniteFloat
    max: FiniteFloat


class _MinMaxNorm(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    kind: Literal["org.apache.solr.ltr.norm.MinMaxNormalizer"] = Field(alias="class")
    params: _MinMaxParams

    def scaling(self) -> MinMax:
        return min_max(self.params.min, self.params.max)


class _IdentityNorm(BaseModel):
    """What Solr answers for a feature that has no normaliser."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    kind: Literal["org.apache.solr.ltr.norm.IdentityNormalizer"] = Field(alias="class")

    def scaling(self) -> None:
        return None


_Norm: TypeAlias = Annotated[
    _StandardNorm | _MinMaxNorm | _IdentityNorm, Field(discriminator="kind")
]


class _Feature(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    norm: _Norm | None = None


class _Weights(BaseModel):
    model_config = ConfigDict(extra="forbid")
    weights: dict[str, FiniteFloat]


class SolrModel(BaseModel):
    """A linear model as it is sent to Solr, or the answer of a model store that has one model."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    kind: Literal["org.apache.solr.ltr.model.LinearModel"] = Field(alias="class")
    name: str
    store: str | None = None
    features: list[_Feature]
    params: _Weights

    @model_validator(mode="before")
    @classmethod
    def _from_answer(cls, content: Any) -> Any:
        if not isinstance(content, dict) or not isinstance(content.get("models"), list):
            return content
        models = content["models"]
        if len(models) != 1:
            raise ValueError(f"{len(models)} models; leave the one to import in the file")
        return models[0]

    def to_model(self) -> LinearModel:
        """Convert to a `LinearModel`."""
        names = tuple(feature.name for feature in self.features)
        norms = [None if each.norm is None else each.norm.scaling() for each in self.features]
        provenance = {"imported_from": "solr", "name": self.name}
        if self.store is not None:
            provenance[STORE] = self.store
        return LinearModel(
            feature_names=names,
            weights=tuple(self.params.weights[name] for name in names),
            transforms=scaling_of(names, norms),
            provenance=provenance,
        )
