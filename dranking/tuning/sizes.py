"""The number of features that a search may take."""

from __future__ import annotations

from collections.abc import Iterable

from dranking.data.dataset import Dataset
from dranking.errors import UsageError
from dranking.rankrls.greedy.path import SelectionRules
from dranking.tuning.choice import Rule

N_FEATURES = 20
"""Largest number of features of a search whose user names none."""


def check_size(train: Dataset, max_features: int | None, model: str, *, has_forms: bool) -> int:
    """The largest number of features to try; UsageError if `max_features` is out of range.

    With forms, each set of forms has its own largest number, which hinges raise; see `size_within`.
    """
    if has_forms:
        size = N_FEATURES if max_features is None else max_features
        if size < 1:
            raise UsageError(f"max_features is {size}; give at least 1.")
        return size
    n = train.n_features
    if model == "greedy-rankrls":  # selects one form of a feature
        n = SelectionRules(1).most_selected(train)
    size = min(n, N_FEATURES) if max_features is None else max_features
    if model != "greedy-rankrls" and max_features is None:
        size = n
    if not 1 <= size <= n:
        raise UsageError(f"max_features is {size}; the data has {n} features, so choose 1 to {n}.")
    return size


def size_within(size: int, prepared: Iterable[Dataset]) -> int:
    """The largest number of features to try that may be selected together in all of the data."""
    return min(size, *(SelectionRules(1).most_selected(data) for data in prepared))


def check_nothing_about_size(
    train: Dataset, max_features: int | None, model: str, rule: Rule
) -> None:
    """Raise UsageError if an option chooses the number of features."""
    is_limited = max_features is not None and max_features < train.n_features
    if is_limited or rule == "smaller":
        raise UsageError(
            f"{model} has all features: max_features and rule choose among numbers of features; "
            "omit these options, or tune greedy-rankrls."
        )
