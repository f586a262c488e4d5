"""The values that stand for missing ones, fitted to a data set in one pass over its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_constants import (
    ColumnConstants,
    NullPolicy,
    ValueRule,
    check_origins,
    check_permitted,
    indicator_name,
)
from dranking.data.column_forms import Scaling, missing_transforms, source_names
from dranking.data.dataset import Dataset
from dranking.data.gap_groups import GapGroups, gap_groups, merged_gaps
from dranking.data.scaling import (
    FeatureMoments,
    MapBlocks,
    blocks_here,
    feature_moments,
    merged_moments,
)
from dranking.data.steps import (
    Steps,
    check_filled_alike,
    constants_of,
    every_gap,
    filling,
    scalings_of,
)
from dranking.errors import DataError, quoted

AnyDataset = TypeVar("AnyDataset", bound=Dataset)


def filled(
    dataset: AnyDataset,
    null: ValueRule,
    map_blocks: MapBlocks = blocks_here,
    kept: Mapping[str, float] = MappingProxyType({}),
) -> AnyDataset:
    """A data set with its missing values filled as a rule says, fitted to this data set.

    Parameters
    ----------
    dataset
        Raw data, in which values may be missing unless the policy is "error"; or data whose values
        for missing ones are known, which it keeps.
    null
        The rule; where values are errors, the data set stays as it is.
    map_blocks
        Reads the blocks for the fit.
    kept
        Values of some features, by name, that are known already, and kept.

    Raises
    ------
    DataError
        If the data is scaled already, or has a column with the name of an indicator.
    UsageError
        If the known values were found by another rule.
    """
    if not null.permits:
        return dataset
    origins = dataset.constants
    if dataset.constants is not None and dataset.constants.fills:
        check_permitted(null, dataset.constants, "the data")
        how = filling(dataset.feature_names, dataset.constants.permitting(), (), dataset.transforms)
        return dataset.filled(dataset.constants, how)  # type: ignore[return-value]
    if dataset.transforms:
        raise scaled_already(dataset.transforms)
    summary = partial(column_summary, grouped=null.indicator)
    found = reduce(ColumnSummary.merged, map_blocks(summary, dataset))
    constants = constants_from(found.moments, null.policy, dataset.n_documents)
    constants = constants.keeping(dataset.feature_names, kept)
    constants = constants if origins is None else constants.with_origins(origins.origin_of_each)
    if found.groups is None:
        return dataset.filled(constants)  # type: ignore[return-value]
    made = with_indicators(dataset.feature_names, constants, found.groups.firsts)
    how = every_gap(made.names, made.constants, made.sources)
    return dataset.filled(made.constants, how)  # type: ignore[return-value]


class ColumnSummary(NamedTuple):
    """Moments of the values of each column that are there, and the columns by their gaps."""

    moments: FeatureMoments
    groups: GapGroups | None

    def merged(self, other: ColumnSummary) -> ColumnSummary:
        """The summary of the documents of both."""
        groups = self.groups
        if groups is not None and other.groups is not None:
            groups = merged_gaps(groups, other.groups)
        return ColumnSummary(merged_moments(self.moments, other.moments), groups)


def column_summary(block: QueryBlock, grouped: bool) -> ColumnSummary:
    """The summary of the columns of a block; `grouped` says whether gaps are compared."""
    return ColumnSummary(feature_moments(block), gap_groups(block) if grouped else None)


class FilledColumns(NamedTuple):
    """Features of columns: their names, values for missing ones, and the column of each feature.

    `sources` is None if the features are the columns.
    """

    names: tuple[str, ...]
    constants: ColumnConstants | None
    sources: NDArray[np.intp] | None = None


def with_indicators(
    names: Sequence[str], constants: ColumnConstants, columns: Sequence[int]
) -> FilledColumns:
    """The columns as features, and an indicator of the gaps of each of some `columns`.

    Raises
    ------
    DataError
        If a column has the name of an indicator.
    """
    added = tuple(indicator_name(names[i]) for i in columns)
    if taken := sorted({*added} & {*names}):
        raise DataError(
            f"the data has columns with the names of indicators of missing values: "
            f"{quoted(taken)}; give these columns other names, or leave --null-indicator "
            "(null_indicator, for retrain data.null_indicator) out."
        )
    sources = np.array([*range(len(names)), *columns], dtype=np.intp)
    return FilledColumns((*names, *added), constants.with_indicators(names, columns), sources)


def with_steps_of(
    dataset: Dataset, names: Sequence[str], needed: Steps, *, permits: bool = False
) -> Dataset:
    """Later data with the values for missing ones, and the scalings, of earlier data.

    Parameters
    ----------
    dataset
        The later data, with the columns of the earlier data, or with its features.
    names
        Names of the features of the earlier data.
    needed
        The steps of the earlier data.
    permits
        Whether a value may be missing also where the earlier data lacks none.

    Raises
    ------
    DataError
        If the data was scaled otherwise, or its missing values were filled with other values.
    """
    scalings, constants = scalings_of(needed), constants_of(needed)
    added = missing_transforms(scalings, dataset.transforms)
    if dataset.constants is not None and dataset.constants.fills:
        check_filled_alike(dataset.feature_names, constants, dataset.constants)
    if dataset.has_nulls or constants is not None:
        dataset = filled_as(dataset, names, constants, scalings, permits=permits)
    return dataset.transformed(added)


def filled_as(
    dataset: Dataset,
    names: Sequence[str],
    constants: ColumnConstants | None,
    scalings: Sequence[Scaling],
    *,
    permits: bool = False,
) -> Dataset:
    """The features `names` of a data set with their columns, by known values for missing ones.

    Parameters
    ----------
    dataset
        Raw data with the columns, or data with the features.
    names, constants, scalings
        Names of the features, their values for missing ones, and the scalings that follow.
    permits
        Whether a value may be missing also where `constants` says that none was.
    """
    sources, how = None, constants
    is_filled = dataset.constants is not None and dataset.constants.fills
    columns = source_names(names, () if constants is None or is_filled else (constants,))
    at = dataset.columns_of(columns)
    present = None if dataset.constants is None else dataset.constants.restricted(at)
    check_origins(columns, constants, present, "the data")
    if how is not None and permits:
        how = how.permitting()
    if how is not None and is_filled:
        how = how.without_indicators()  # the data holds them
    elif how is not None and how.has_indicators:
        sources = at
    return dataset.filled(constants, filling(names, how, scalings, dataset.transforms, sources))


def scaled_already(transforms: Sequence[Scaling]) -> DataError:
    """The error for scaled data whose missing values would be filled."""
    kinds = " then ".join(transform.kind for transform in transforms)
    return DataError(
        f"the data was scaled by {kinds}, and missing values are filled before any scaling; give "
        "raw data."
    )


def constants_from(
    moments: FeatureMoments, null: NullPolicy, n_documents: int = 0
) -> ColumnConstants:
    """The values for missing ones from the moments of the values that are there.

    Features of which fewer than `n_documents` values are there have gaps.
    """
    if null == "error":
        raise ValueError("no value stands for a missing one under the policy 'error'")
    nothing = np.zeros_like(moments.mean)
    values = {"minimum": moments.low, "mean": moments.mean}.get(null, nothing)
    return ColumnConstants(
        policy=null,
        values=tuple(np.where(moments.n > 0, values, 0.0).astype(np.float32).tolist()),
        gaps=tuple((moments.n < n_documents).tolist()),
    )
