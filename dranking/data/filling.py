"""The values that stand for missing ones, fitted to a data set in one pass over its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

import numpy as np

from dranking.data.column_forms import Scaling
from dranking.data.dataset import Dataset
from dranking.data.null_fill import NullFill, NullPolicy
from dranking.data.scaling import (
    FeatureMoments,
    MapBlocks,
    blocks_here,
    feature_moments,
    merged_moments,
)
from dranking.errors import DataError

AnyDataset = TypeVar("AnyDataset", bound=Dataset)


def filled(
    dataset: AnyDataset, null: NullPolicy, map_blocks: MapBlocks = blocks_here
) -> AnyDataset:
    """A data set with its missing values filled as a policy says, fitted to this data set.

    Parameters
    ----------
    dataset
        Raw data, in which values may be missing unless the policy is "error".
    null
        "error", which leaves the data set as it is; "zero", "minimum" or "mean".
    map_blocks
        Reads the blocks for the fit.

    Raises
    ------
    DataError
        If the data is scaled already.
    """
    if null == "error":
        return dataset
    if dataset.transforms:
        raise scaled_already(dataset.transforms)
    moments = reduce(merged_moments, map_blocks(feature_moments, dataset))
    return dataset.filled(fill_from(moments, null, dataset.n_documents))  # type: ignore[return-value]


def scaled_already(transforms: Sequence[Scaling]) -> DataError:
    """The error for scaled data whose missing values would be filled."""
    kinds = " then ".join(transform.kind for transform in transforms)
    return DataError(
        f"the data was scaled by {kinds}, and missing values are filled before any scaling; give "
        "raw data."
    )


def fill_from(moments: FeatureMoments, null: NullPolicy, n_documents: int) -> NullFill:
    """The values for missing ones from the moments of the values that are there."""
    if null == "error":
        raise ValueError("no value stands for a missing one under the policy 'error'")
    nothing = np.zeros_like(moments.mean)
    values = {"minimum": moments.low, "mean": moments.mean}.get(null, nothing)
    return NullFill(
        policy=null,
        values=tuple(np.where(moments.n > 0, values, 0.0).astype(np.float32).tolist()),
        gaps=tuple((moments.n < n_documents).tolist()),
    )
