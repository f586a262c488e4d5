"""The settings that a search tries: a lambda each, and what else a kind of model has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypeAlias, TypedDict, cast

from dranking.errors import UsageError
from dranking.rankers.linear.estimator import check_positive

Axes: TypeAlias = dict[str, list[float | None]]
"""Values to try of each parameter, by name."""

MAY_BE: dict[str, tuple[float | None, ...]] = {"mu": (0.0,), "eta0": (None, math.inf)}
"""What these may be besides a finite number above 0."""


class Setting(TypedDict):
    """Parameters of an estimator that a search chooses.

    Attributes
    ----------
    regularization
        lambda.
    mu
        Of ``lcra``, if it is chosen: strength of the co-regularisation.
    eta0
        Of ``spd`` and ``lcra``, if it is chosen: first step length, 1 / (lambda t0); None follows
        from the data, infinity is pure Pegasos.
    """

    regularization: float
    mu: NotRequired[float]
    eta0: NotRequired[float | None]


def check_axes(
    model: str, tunable: Sequence[str], values: Mapping[str, Iterable[float | None] | None]
) -> Axes:
    """Values to try of each parameter, ascending and each once; None comes first.

    Parameters
    ----------
    model
        The kind of model, for messages.
    tunable
        The parameters that it can be chosen by.
    values
        The values given of each parameter; those of which they are None are not chosen.

    Raises
    ------
    UsageError
        If there is no value to try, one is out of range, or the model has no such parameter.
    """
    axes: Axes = {}
    for name, given in values.items():
        if given is None:
            continue
        if name not in tunable:
            raise UsageError(f"{model} has no {name} to choose; it has {', '.join(tunable)}.")
        axes[name] = list(given)
        if not axes[name]:
            raise UsageError(f"there is no {name} to try; name at least one value.")
        for value in axes[name]:
            if value not in MAY_BE.get(name, ()):
                check_positive(name, value)
        once = {None if value is None else float(value) for value in axes[name]}
        axes[name] = sorted(once, key=lambda value: -1.0 if value is None else value)
    return axes


def settings_of(axes: Axes) -> list[Setting]:
    """All combinations; the first parameter changes slowest."""
    combinations = itertools.product(*axes.values())
    return [cast(Setting, dict(zip(axes, values, strict=True))) for values in combinations]


def setting_of(point: Setting) -> Setting:
    """That part of a point of a grid."""
    names = Setting.__annotations__
    return cast(Setting, {name: value for name, value in point.items() if name in names})


def setting_text(setting: Setting) -> str:
    """A setting for messages; of a point of a grid that part alone.

    Examples
    --------
    >>> setting_text({"regularization": 0.125, "eta0": None})
    'regularization 0.125, eta0 by default'
    """
    return ", ".join(
        filter(None, (f"regularization {setting['regularization']:g}", others_text(setting)))
    )


def others_text(setting: Setting) -> str:
    """What a setting says beside lambda; empty if that is nothing."""
    texts = [f"mu {setting['mu']:g}"] if "mu" in setting else []
    if "eta0" in setting:
        eta0 = setting["eta0"]
        texts.append("eta0 by default" if eta0 is None else f"eta0 {eta0:g}")
    return ", ".join(texts)
