"""A linear model as a sum that any engine can compute: weight * (value - mean) / scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dranking.data.transforms import Standard
from dranking.errors import UsageError
from dranking.rankers.linear.model import LinearModel


class Term(NamedTuple):
    """The part of a score that comes from one feature: weight * (value - mean) / scale.

    Attributes
    ----------
    name
        Name of the feature in the engine.
    weight, mean, scale
        Finite numbers; the scale is positive.
    """

    name: str
    weight: float
    mean: float
    scale: float

    @property
    def is_scaled(self) -> bool:
        """Whether the value is centred or scaled."""
        return (self.mean, self.scale) != (0.0, 1.0)


def terms_of(model: LinearModel, names: Mapping[str, str] | None = None) -> list[Term]:
    """The terms of a model, in the order of its features.

    Parameters
    ----------
    model
        A linear model whose scaling does not depend on other documents.
    names
        Names of features in the engine, for the features whose names differ.

    Raises
    ------
    UsageError
        If the scaling needs the whole query, or a name belongs to no feature or is used twice.
    """
    mean = [0.0] * len(model.weights)
    scale = [1.0] * len(model.weights)
    for transform in model.transforms:
        if not isinstance(transform, Standard):
            raise UsageError(
                f"the model scales its features by {transform.kind}, over all documents of a "
                "query, but an engine scores every document on its own. Train on raw or "
                "standard-scaled features (ingest --normalize none or standard)."
            )
        means = transform.mean or [0.0] * len(mean)
        mean = [m + s * more for m, s, more in zip(mean, scale, means, strict=True)]
        scale = [s * more for s, more in zip(scale, transform.scale, strict=True)]
    called = _engine_names(model, names or {})
    return [Term(*term) for term in zip(called, model.weights, mean, scale, strict=True)]


def check_float32(terms: Sequence[Term], engine: str) -> None:
    """Check that float32 can hold the numbers of a model.

    Raises
    ------
    UsageError
        If a weight or mean becomes infinite, or a scale infinite or 0.
    """
    numbers = np.array([term[1:] for term in terms]).reshape(-1, 3)
    with np.errstate(over="ignore", under="ignore"):
        held = numbers.astype(np.float32)
    wrong = ~np.isfinite(held).all(axis=1) | (held[:, 2] == 0)
    if wrong.any():
        term = terms[int(np.argmax(wrong))]
        raise UsageError(
            f"{engine} computes in float32, which cannot hold feature {term.name} with weight "
            f"{term.weight:g}, mean {term.mean:g} and scale {term.scale:g}; bring the feature's "
            "values nearer to 1 and train again."
        )


def _engine_names(model: LinearModel, names: Mapping[str, str]) -> list[str]:
    unknown = sorted(set(names) - set(model.feature_names))
    if unknown:
        raise UsageError(
            f"names are given for {', '.join(unknown[:5])}, which the model does not use; it uses "
            f"{', '.join(model.feature_names[:10])}."
        )
    called = [names.get(name, name) for name in model.feature_names]
    twice = sorted(name for name, count in Counter(called).items() if count > 1)
    if twice:
        raise UsageError(f"two features would have the same name: {', '.join(twice[:5])}.")
    return called
