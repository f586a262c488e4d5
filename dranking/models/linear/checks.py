"""Checks of parameters and of training data, which raise errors that say what to change.

Imports no scikit-learn: commands that train nothing use these checks too.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from dranking.data.dataset import Dataset
from dranking.errors import DataError, UsageError


def check_positive(name: str, value: Any) -> None:
    """Raise UsageError unless `value` is a finite number above 0."""
    if not (_is(value, Real) and np.isfinite(value) and value > 0):
        raise UsageError(f"{name} is {value!r}; it must be a finite number above 0.")


def values_to_try(name: str, values: Any) -> list[Any]:
    """The values of a grid as a list; UsageError if they are no list, or there are none."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(
            f"{name} is {values!r}; give the values to try as a list, such as [1.0, 8.0], or "
            "[2.0**e for e in range(11)]."
        )
    if not (found := list(values)):
        raise UsageError(f"{name} is empty; give at least one value to try.")
    return found


def check_whole(name: str, value: Any) -> None:
    """Raise UsageError unless `value` is a whole number."""
    if not _is(value, Integral):
        raise UsageError(f"{name} is {value!r}; it must be a whole number.")


def check_count(name: str, value: Any, *, least: int = 1, optional: bool = False) -> None:
    """Raise UsageError unless `value` is a whole number >= `least`; `optional` allows None."""
    if optional and value is None:
        return
    check_whole(name, value)
    if value < least:
        raise UsageError(f"{name} is {value}; it must be at least {least}.")


def check_training_data(dataset: Dataset) -> None:
    """Raise DataError if the data has no features, no labelled document, or missing values."""
    if dataset.has_nulls:
        raise DataError(
            "values of the data may be missing, and training needs a value for each: open it with "
            "null='zero', 'minimum' or 'mean'."
        )
    if not dataset.n_features:
        raise DataError(
            f"the data has 0 feature(s) (shape=({dataset.n_documents}, 0)) while a minimum of 1 "
            "is required."
        )
    if dataset.n_unlabelled == dataset.n_documents:
        raise DataError(
            f"there is no labelled document among {dataset.n_documents}; "
            "training needs documents with relevance."
        )


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
