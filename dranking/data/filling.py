"""The values that stand for missing ones, fitted to a data set in one pass over its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from dranking.data.column_forms import Scaling, missing_transforms
from dranking.data.dataset import Dataset
from dranking.data.null_fill import NullFill, NullPolicy, check_permitted
from dranking.data.scaling import (
    FeatureMoments,
    MapBlocks,
    blocks_here,
    feature_moments,
    merged_moments,
)
from dranking.data.steps import Steps, check_filled_alike, fill_of, filling, scalings_of
from dranking.errors import DataError

AnyDataset = TypeVar("AnyDataset", bound=Dataset)


def filled(
    dataset: AnyDataset,
    null: NullPolicy,
    map_blocks: MapBlocks = blocks_here,
    kept: Mapping[str, float] = MappingProxyType({}),
) -> AnyDataset:
    """A data set with its missing values filled as a policy says, fitted to this data set.

    Parameters
    ----------
    dataset
        Raw data, in which values may be missing unless the policy is "error"; or data whose values
        for missing ones are known, which it keeps.
    null
        "error", which leaves the data set as it is; "zero", "minimum" or "mean".
    map_blocks
        Reads the blocks for the fit.
    kept
        Values of some features, by name, that are known already, and kept.

    Raises
    ------
    DataError
        If the data is scaled already.
    UsageError
        If the known values were found by another policy.
    """
    if null == "error":
        return dataset
    if dataset.fill is not None:
        check_permitted(null, dataset.fill, "the data")
        how = filling(dataset.feature_names, dataset.fill.permitting(), (), dataset.transforms)
        return dataset.filled(dataset.fill, how)  # type: ignore[return-value]
    if dataset.transforms:
        raise scaled_already(dataset.transforms)
    moments = reduce(merged_moments, map_blocks(feature_moments, dataset))
    fill = fill_from(moments, null, dataset.n_documents).keeping(dataset.feature_names, kept)
    return dataset.filled(fill)  # type: ignore[return-value]


def with_steps_of(dataset: Dataset, needed: Steps, *, permits: bool = False) -> Dataset:
    """Later data with the values for missing ones, and the scalings, of earlier data.

    Parameters
    ----------
    dataset
        The later data, with the features of the earlier data.
    needed
        The steps of the earlier data.
    permits
        Whether a value may be missing also where the earlier data lacks none.

    Raises
    ------
    DataError
        If the data was scaled otherwise, or its missing values were filled with other values.
    """
    names, scalings, fill = dataset.feature_names, scalings_of(needed), fill_of(needed)
    added = missing_transforms(scalings, dataset.transforms)
    if dataset.fill is not None:
        check_filled_alike(names, fill, dataset.fill)
    if dataset.has_nulls or fill is not None:
        permitted = fill.permitting() if fill is not None and permits else fill
        how = filling(names, permitted, scalings, dataset.transforms)
        dataset = dataset.filled(fill, how)
    return dataset.transformed(added)


def scaled_already(transforms: Sequence[Scaling]) -> DataError:
    """The error for scaled data whose missing values would be filled."""
    kinds = " then ".join(transform.kind for transform in transforms)
    return DataError(
        f"the data was scaled by {kinds}, and missing values are filled before any scaling; give "
        "raw data."
    )


def fill_from(moments: FeatureMoments, null: NullPolicy, n_documents: int = 0) -> NullFill:
    """The values for missing ones from the moments of the values that are there.

    Features of which fewer than `n_documents` values are there have gaps.
    """
    if null == "error":
        raise ValueError("no value stands for a missing one under the policy 'error'")
    nothing = np.zeros_like(moments.mean)
    values = {"minimum": moments.low, "mean": moments.mean}.get(null, nothing)
    return NullFill(
        policy=null,
        values=tuple(np.where(moments.n > 0, values, 0.0).astype(np.float32).tolist()),
        gaps=tuple((moments.n < n_documents).tolist()),
    )
