"""Views of the features: disjoint groups, each of which learns weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.filling import with_steps_of
from dranking.errors import DataError, UsageError, listed
from dranking.models.linear.checks import check_count
from dranking.models.linear.estimator import feature_indices

ViewGroups: TypeAlias = int | Sequence[Sequence[int | str]]


def split_views(dataset: Dataset, views: ViewGroups, seed: int) -> list[list[int]]:
    """Features of each view, ascending: a random partition of all features, or the given groups.

    Raises
    ------
    UsageError
        If a feature is in no view or in several, a view is empty, or there are fewer than two.
    DataError
        If there are fewer features than views, or no feature has a name that is given.
    """
    n = dataset.n_features
    if not isinstance(views, Sequence) or isinstance(views, str):
        n_views: Any = views
        check_count("views", n_views, least=2)
        if n < n_views:
            raise DataError(f"{views} views need as many features; the data has {n} feature(s).")
        order = np.random.default_rng(seed).permutation(n)
        return [sorted(part.tolist()) for part in np.array_split(order, n_views)]
    groups = [sorted(feature_indices(dataset, view, "a view")) for view in views]
    inside = [i for group in groups for i in group if 0 <= i < n]
    outside = [i for group in groups for i in group if not 0 <= i < n]
    times = np.bincount(inside, minlength=n)
    wrong = [dataset.feature_names[i] for i in np.flatnonzero(times != 1)]
    if wrong or outside or len(groups) < 2 or not all(groups):
        raise UsageError(
            "views must be at least two groups that hold every feature once"
            + (f"; in none or in several: {listed(wrong)}" if wrong else "")
            + (f"; not there: {listed([*map(str, outside)])}" if outside else "")
            + "."
        )
    return groups


def same_features(unlabelled: Dataset, dataset: Dataset) -> Dataset:
    """The unlabelled data, scaled like the labelled data.

    Raises
    ------
    DataError
        If the two have other features, another order of features, or another scaling.
    """
    columns = dict.fromkeys(source_names(dataset.feature_names, dataset.preparation))
    if unlabelled.feature_names not in (dataset.feature_names, tuple(columns)):
        raise DataError(
            f"the unlabelled data has {unlabelled.n_features} features, the labelled "
            f"{dataset.n_features}: names and order must be the same."
        )
    return with_steps_of(unlabelled, dataset.feature_names, dataset.preparation)
