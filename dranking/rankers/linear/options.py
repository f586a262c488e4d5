"""Parameters that belong together: an object that is one parameter of a ranker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from sklearn.base import BaseEstimator

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
