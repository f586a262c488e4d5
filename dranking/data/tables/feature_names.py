"""Default names of features, and the check that names are unique."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from dranking.errors import DataError, listed


def default_feature_names(n_features: int) -> tuple[str, ...]:
    """Default names of features: ``f1``, ``f2``, ..., counted from 1 as in LETOR."""
    return tuple(f"f{i}" for i in range(1, n_features + 1))


def index_of(name: str) -> int:
    """The number of a feature with a default name, counted from 1; 0 for another name."""
    found = re.fullmatch(r"f([1-9][0-9]{0,8})", name)
    return int(found[1]) if found else 0


def width_of_text(names: Sequence[str]) -> int | None:
    """The number of features of text whose features have these names; None for other names."""
    return len(names) if tuple(names) == default_feature_names(len(names)) else None


def check_feature_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple.

    Raises
    ------
    DataError
        If a name is empty, or two features have the same name.
    """
    checked = tuple(map(str, names))
    if "" in checked:
        raise DataError(f"feature {checked.index('')} (counted from 0) has an empty name; name it.")
    repeated = [name for name, count in Counter(checked).items() if count > 1]
    if repeated:
        raise DataError(
            f"feature names must be unique; {len(repeated)} occur more than once: "
            f"{listed(repeated)}."
        )
    return checked
