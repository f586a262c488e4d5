"""Parameters of estimators: what must hold of their values, and their values in JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from upath import UPath

from dranking.errors import UsageError
from dranking.rankers.linear.options import Options


def check_positive(name: str, value: Any) -> None:
    """Raise UsageError unless `value` is a finite number above 0."""
    if not (_is(value, Real) and np.isfinite(value) and value > 0):
        raise UsageError(f"{name} is {value!r}; it must be a finite number above 0.")


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


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))


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
