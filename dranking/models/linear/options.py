"""Parameters that belong together as one object, and the values of parameters in JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from upath import UPath

from dranking.errors import UsageError


class Options(BaseEstimator):  # type: ignore[misc]
    """Base class of the parameters that belong together, in scikit-learn's way.

    Subclasses are dataclasses. A parameter of such a parameter has a name with two underscores:
    ``GridSearchCV(SPD(sgd=SGD()), {"sgd__eta0": [0.1, 1.0]})``.
    """

    @classmethod
    def of(cls, given: Any) -> Self:
        """The options that a user gives.

        Parameters
        ----------
        given
            Options; None for all defaults; a mapping from names to values, as in a configuration
            file; or the value of the first option.

        Raises
        ------
        UsageError
            If the mapping names an option that does not exist.
        """
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            return cls(given)
        known = cls._get_param_names()
        unknown = sorted(set(map(str, given)) - set(known))
        if unknown:
            raise UsageError(
                f"{cls.__name__} has no {', '.join(unknown)}; choose from {', '.join(known)}."
            )
        return cls(**given)


def json_ready(value: Any) -> Any:
    """Convert a parameter for JSON: NumPy numbers to Python's, infinity and places to text."""
    if isinstance(value, (os.PathLike, UPath)):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return json_ready(value.tolist())
    if isinstance(value, Options):
        return json_ready(value.get_params())
    if isinstance(value, Mapping):
        return {str(name): json_ready(v) for name, v in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [json_ready(v) for v in value]
    return str(value) if isinstance(value, float) and np.isinf(value) else value
