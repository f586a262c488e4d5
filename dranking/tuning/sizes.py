"""The number of features that a search may take."""

from __future__ import annotations

from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.errors import UsageError
from dranking.tuning.automatic import N_FEATURES
from dranking.tuning.choice import Rule


def check_size(train: Dataset, max_features: int | None, model: str) -> int:
    """The largest number of features to try; UsageError if `max_features` is out of range."""
    n = train.n_features
    if model == "greedy-rankrls":  # selects one form of a feature
        n = len(set(source_names(train.feature_names, train.transforms)))
    size = min(n, N_FEATURES) if max_features is None else max_features
    if model != "greedy-rankrls" and max_features is None:
        size = n
    if not 1 <= size <= n:
        raise UsageError(f"max_features is {size}; the data has {n} features, so choose 1 to {n}.")
    return size


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
