"""A linear model as a sum of terms: weight * (value - mean) / scale, which any engine can compute.

Where the model was trained on logarithms, quantiles or hinges, the value is that form of the
feature; not every engine can compute it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from dranking.data.affine_scalings import MinMax
from dranking.data.column_forms import ColumnForms, Scaling, forms_of, source_names
from dranking.data.transforms import Form, Hinge, Log, Quantile, QueryMinMax, QueryRank
from dranking.errors import UsageError, listed
from dranking.models.linear.model import LinearModel

Bent: TypeAlias = Log | Quantile | Hinge
"""Scalings of single documents that are not linear."""


class Term(NamedTuple):
    """The part of a score that comes from one feature: weight * (form(value) - mean) / scale.

    Of a product, the two factors are terms: that of the first has the weight.

    Attributes
    ----------
    name
        Name of the feature in the engine.
    weight, mean, scale
        Finite numbers; the scale is positive.
    form
        A scaling of this feature that is not linear; None if there is none.
    missing
        The value that stands for a missing value, before any scaling; None where the training data
        has no gaps, so that a missing value has no score.
    is_indicator
        Whether the value is 1 where the feature is missing, and 0 elsewhere.
    origin
        The number that is subtracted from the feature first.
    times
        The other factor of a product, with the weight 1; None if there is none.
    bounds
        The values that become 0 and 1, where the feature is scaled by its extremes alone; None
        elsewhere. Mean and scale say the same.
    """

    name: str
    weight: float
    mean: float
    scale: float
    form: Bent | None = None
    missing: float | None = None
    is_indicator: bool = False
    origin: float = 0.0
    times: Term | None = None
    bounds: tuple[float, float] | None = None

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
    names_there = _engine_names(model, names or {})
    indicators = (
        [False] * len(names_there) if model.constants is None else model.constants.indicators
    )
    of_each = [
        _term(name, [_form_of(step, at) for step in model.transforms])._replace(
            missing=_value_of_gap(model, at),
            is_indicator=bool(indicators[at]),
            origin=0.0 if model.constants is None else model.constants.origin_of_each[at],
        )
        for at, name in enumerate(names_there)
    ]
    forms = forms_of(model.transforms)
    columns = [(at,) for at in range(len(of_each))] if forms is None else forms.columns
    return [
        of_each[of[0]]._replace(weight=weight, times=of_each[of[1]] if of[1:] else None)
        for of, weight in zip(columns, model.weights, strict=True)
    ]


def factors_of(terms: Sequence[Term]) -> list[Term]:
    """The terms, and behind them the second factors of those that are products."""
    return [*terms, *(term.times for term in terms if term.times is not None)]


def _value_of_gap(model: LinearModel, column: int) -> float | None:
    """The value for a missing one; None if the training data has no gap, and for indicators."""
    constants = model.constants
    if (
        constants is None
        or not constants.fills
        or not constants.gaps[column]
        or constants.indicators[column]
    ):
        return None
    return constants.values[column]


def _form_of(transform: Scaling, column: int) -> Form | None:
    """The scaling of one feature; None if the feature is raw."""
    if isinstance(transform, ColumnForms):
        return transform.forms[column]
    return transform.restricted(np.array([column]))


def _term(name: str, steps: Sequence[Form | None]) -> Term:
    """The term of one feature with these scalings, in order, and the weight 1."""
    mean, scale, bent = 0.0, 1.0, None
    for place, step in enumerate(steps):
        if isinstance(step, QueryMinMax | QueryRank):
            raise UsageError(
                f"the model scales its features by {step.kind}, over all documents of a "
                "query, but an engine scores every document on its own. Train on features that are "
                "scaled document by document (dranking ingest --normalize none, standard, "
                "minmax, log or quantile)."
            )
        if isinstance(step, Bent):
            if place:
                raise UsageError(
                    f"the model scales its features by {step.kind} after another scaling, "
                    "which cannot be exported; train on data with one scaling."
                )
            bent = step
        elif step is not None:
            mean += scale * (0.0 if step.subtracted is None else step.subtracted[0])
            scale *= step.divisors[0]
    return Term(name, 1.0, mean, scale, bent, bounds=_bounds_of(steps))


def _bounds_of(steps: Sequence[Form | None]) -> tuple[float, float] | None:
    """The extremes of a feature whose only scaling is by these, if float32 tells them apart."""
    scalings = [step for step in steps if step is not None]
    if len(scalings) != 1 or not isinstance(scalings[0], MinMax):
        return None
    low, high = scalings[0].low[0], scalings[0].high[0]
    with np.errstate(over="ignore"):
        return (low, high) if np.float32(low) < np.float32(high) else None


def check_forms(
    model: LinearModel, terms: Sequence[Term], engine: str, possible: tuple[type[Bent], ...]
) -> None:
    """Raise UsageError if an engine cannot compute a product, a scaling, or an indicator."""
    named = zip(model.feature_names, terms, strict=True)
    products = [name for name, term in named if term.times is not None]
    if products and not possible:
        raise UsageError(
            f"{engine} cannot compute products of features, and the model has {listed(products)}. "
            "Export to vespa, onnx, sql or python, or train without products: dranking tune "
            "--forms raw."
        )
    terms = factors_of(terms)
    told = [term.name for term in terms if term.is_indicator]
    if told and not possible:
        raise UsageError(
            f"{engine} cannot tell that a value is missing, and the model has features that do, of "
            f"{listed(told)}. Export to vespa, onnx, sql or python, or train "
            "without these features (null_indicator)."
        )
    shifts = (term.name for term in terms if term.origin and not term.is_indicator)
    shifted = list(dict.fromkeys(shifts))
    if shifted and not possible:
        raise UsageError(
            f"{engine} computes in float32, which merges the values of {listed(shifted)}, and "
            "cannot subtract an origin before. Export to vespa, onnx, sql or python, or let the "
            "feature of the engine hold the difference and train on that."
        )
    twice = [name for name, count in Counter(term.name for term in terms).items() if count > 1]
    if twice and not possible:
        raise UsageError(f"{engine} cannot have several forms of feature {twice[0]}.")
    for term in terms:
        if term.form is not None and not isinstance(term.form, possible):
            raise UsageError(
                f"{engine} cannot compute the {term.form.kind} scaling of feature {term.name}. "
                "Export to python, which computes every scaling of single documents, let the "
                "engine's feature hold the scaled value and train on such values, or train on raw "
                "or standard-scaled features."
            )


def other_than_zero(terms: Sequence[Term]) -> str:
    """The values for missing ones that are not 0, by feature; empty if there are none.

    Examples
    --------
    >>> other_than_zero([Term("rating", 1.0, 0.0, 1.0, missing=4.5), Term("age", 1.0, 0.0, 1.0)])
    'rating 4.5'
    """
    values = (f"{term.name} {term.missing:g}" for term in factors_of(terms) if term.missing)
    return listed(list(dict.fromkeys(values)))


def check_float32(terms: Sequence[Term], engine: str) -> None:
    """Check that float32 can hold the numbers of a model.

    Raises
    ------
    UsageError
        If a weight or mean becomes infinite, or a scale infinite or 0.
    """
    terms = factors_of(terms)
    numbers = np.array([term[1:4] for term in terms]).reshape(-1, 3)
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
    sources = source_names(model.feature_names, model.preparation)
    unknown = sorted(set(names) - set(sources))
    if unknown:
        raise UsageError(
            f"names are given for {listed(unknown)}, which the model does not use; it uses "
            f"{listed(list(dict.fromkeys(sources)))}."
        )
    called = {name: names.get(name, name) for name in sources}
    twice = sorted(name for name, count in Counter(called.values()).items() if count > 1)
    if twice:
        raise UsageError(f"two features would have the same name: {listed(twice)}.")
    return [called[name] for name in sources]
