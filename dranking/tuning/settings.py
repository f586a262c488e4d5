"""The settings that a search tries: lambda, and other parameters of a kind of model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypeAlias, TypedDict, cast

from dranking.data.scaling import Normalize
from dranking.errors import UsageError
from dranking.models.linear.checks import check_positive, values_to_try

Axes: TypeAlias = dict[str, list[float | None]]
"""Values to try of each parameter, by its name."""

ALSO_ALLOWED: dict[str, tuple[float | None, ...]] = {"mu": (0.0,), "eta0": (None, math.inf)}
"""Allowed values of a parameter besides finite numbers above 0."""


class Setting(TypedDict):
    """Parameters of an estimator that a search chooses.

    Attributes
    ----------
    regularization
        lambda.
    mu
        Strength of the co-regularisation of ``lcra``; absent unless the search chooses it.
    eta0
        First step length, 1 / (lambda t0), of ``spd`` and ``lcra``; absent unless the search
        chooses it. None means the length that follows from the data, infinity pure Pegasos.
    rescore
        Measure by which the picks of a greedy selection are rescored, if the search chooses it.
    normalize, forms
        Scaling of the features, or the forms of each feature as in "raw,log", if the search chooses
        them: no parameters of the estimator.
    """

    regularization: float
    mu: NotRequired[float]
    eta0: NotRequired[float | None]
    rescore: NotRequired[str]
    normalize: NotRequired[Normalize]
    forms: NotRequired[str]


def check_axes(
    model: str, tunable: Sequence[str], values: Mapping[str, Iterable[float | None]]
) -> Axes:
    """Values to try of each parameter, ascending and without repetitions; None comes first.

    Parameters
    ----------
    model
        Name of the kind of model, for messages.
    tunable
        Parameters of this kind of model that a search can choose.
    values
        Values of each parameter that the search chooses.

    Raises
    ------
    UsageError
        If a parameter has no values, a value is out of range, the model has no such parameter, or
        there is no regularization.
    """
    axes: Axes = {}
    unknown = [name for name in values if name not in tunable]
    if unknown:
        raise UsageError(f"{model} has no {unknown[0]} to choose; it has {', '.join(tunable)}.")
    if "regularization" not in values:
        raise UsageError("the grid has no regularization; give at least one lambda to try.")
    for name in filter(values.__contains__, tunable):
        axes[name] = values_to_try(name, values[name])
        for value in axes[name]:
            if value not in ALSO_ALLOWED.get(name, ()):
                check_positive(name, value)
        once = {None if value is None else float(value) for value in axes[name]}
        axes[name] = sorted(once, key=lambda value: -1.0 if value is None else value)
    return axes


def settings_of(axes: Axes) -> list[Setting]:
    """All combinations of the values; the first parameter changes slowest."""
    combinations = itertools.product(*axes.values())
    return [cast(Setting, dict(zip(axes, values, strict=True))) for values in combinations]


def setting_of(point: Setting) -> Setting:
    """The parameters of the estimator at a point of a grid."""
    names = Setting.__annotations__.keys() - {"normalize", "forms"}
    return cast(Setting, {name: value for name, value in point.items() if name in names})


def setting_text(setting: Setting) -> str:
    """A setting, or the setting of a grid point, for messages.

    Examples
    --------
    >>> setting_text({"regularization": 0.125, "eta0": None})
    'regularization 0.125, eta0 by default'
    """
    texts = f"regularization {setting['regularization']:g}", other_parameters_text(setting)
    return ", ".join(filter(None, texts))


def other_parameters_text(setting: Setting) -> str:
    """The parameters of a setting other than lambda, for messages; may be empty."""
    texts = [f"mu {setting['mu']:g}"] if "mu" in setting else []
    if "eta0" in setting:
        eta0 = setting["eta0"]
        texts.append("eta0 by default" if eta0 is None else f"eta0 {eta0:g}")
    if "normalize" in setting:
        texts.append(f"normalize {setting['normalize']}")
    if "forms" in setting:
        texts.append(f"forms {setting['forms']}")
    if "rescore" in setting:
        texts.append(f"rescored by {setting['rescore']}")
    return ", ".join(texts)
