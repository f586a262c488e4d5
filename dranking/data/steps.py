"""The steps from raw values to those that a model takes: gaps are filled, then features scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.column_constants import ColumnConstants, check_origins
from dranking.data.column_forms import (
    ColumnForms,
    Scaling,
    forms_of,
    missing_transforms,
    source_names,
)
from dranking.errors import DataError, listed

Steps: TypeAlias = tuple[ColumnConstants | Scaling, ...]
"""The values for missing ones, if any are known, and the scalings in order; of the same columns."""

NO_VALUE = (
    "the model knows no value for it, since its training data has none for missing values. Train "
    "with --null mean (null='mean', for retrain data.null; or minimum, or zero)"
)
NO_GAP = (
    "its training data lacks no value of this feature. Say with --null (in Python "
    "model.permitting_nulls, for retrain data.null) that the value of the training "
    "data stands for missing values"
)
WITHIN_QUERY = (
    "the feature is scaled by the other values of its query, which a filled value would move. "
    "Leave the feature out, or take the scaling log, standard or quantile"
)
SCALED = "values of scaled data cannot be filled. Give raw data"


@dataclass(frozen=True)
class Filling:
    """Replaces missing values (NaN) of a block, or refuses them.

    Attributes
    ----------
    names
        Names of the features, in the order of the columns.
    values
        (n_features,) float32 values for missing ones.
    refusals
        For each feature, the reason for which a missing value is an error; "" where there is none.
    indicators
        (n_features,) whether the feature is 1 where its column lacks a value, and 0 elsewhere.
    sources
        (n_features,) position of the column of each feature; None if features are columns.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    refusals: tuple[str, ...]
    indicators: NDArray[np.bool_]
    sources: NDArray[np.intp] | None = None
    kind = "fill"
    of_query = False

    def of_columns(self, block: QueryBlock) -> QueryBlock:
        """The block without missing values, made from a block of all columns."""
        if self.sources is not None:
            block = block.with_features(block.features[:, self.sources])
        return self.apply(block)

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The block without missing values; it holds the column of each of the features `columns`.

        Raises
        ------
        DataError
            If a value is missing that has a refusal; the message names query, document and column.
        """
        features = block.features
        stored = features.data if block.is_sparse else features
        missing = np.isnan(stored)
        take = np.arange(len(self.names)) if columns is None else columns
        tells = self.indicators[take]
        if not missing.any() and not tells.any():
            return block
        rows, places = np.nonzero(missing) if not block.is_sparse else _entries(features, missing)
        refused = np.array([bool(self.refusals[i]) for i in take])[places]
        if refused.any():
            first = int(np.argmax(refused))
            raise self._error(block, int(rows[first]), int(take[places[first]]))
        values = np.where(tells, np.float32(1), self.values[take])
        if not block.is_sparse:
            return block.with_features(np.where(missing, values, np.where(tells, 0, features)))
        filled = features.copy()
        filled.data[tells[filled.indices]] = 0
        filled.data[missing] = values[places]
        filled.eliminate_zeros()
        return block.with_features(filled)

    def _error(self, block: QueryBlock, row: int, feature: int) -> DataError:
        query = int(np.searchsorted(block.query_ptr, row, side="right")) - 1
        document = f"document {row - int(block.query_ptr[query]) + 1}"
        if block.doc_ids is not None:
            document = f"document {block.doc_ids[row]}"
        return DataError(
            f"query {block.query_ids[query]}, {document}, column {self.names[feature]!r}: the "
            f"value is missing (NaN or null), and {self.refusals[feature]}."
        )


def every_gap(
    names: Sequence[str], constants: ColumnConstants | None, sources: NDArray[np.intp] | None = None
) -> Filling:
    """The filling of training data, in which every value may be missing."""
    return filling(
        names, None if constants is None else constants.permitting(), (), sources=sources
    )


def filling(
    names: Sequence[str],
    constants: ColumnConstants | None,
    scalings: Sequence[Scaling],
    present: Sequence[Scaling] = (),
    sources: NDArray[np.intp] | None = None,
) -> Filling:
    """How missing values of data become values, or errors.

    Parameters
    ----------
    names
        Names of the features, in the order of the columns.
    constants
        The values for these features, or None if none are known. Where `constants.gaps` is false, a
        missing value is an error.
    scalings, present
        The scalings that follow, and those that the data has already.
    sources
        Position of the column of each feature; None if features are columns.
    """
    within = within_query(scalings, names)
    indicators = np.zeros(len(names), dtype=np.bool_) if constants is None else constants.indicators
    if present or constants is None or not constants.fills:
        refusals = [SCALED if present else NO_VALUE] * len(names)
    else:
        of_gap = ["" if has_gaps else NO_GAP for has_gaps in constants.gaps]
        refusals = [
            "" if tells else WITHIN_QUERY if is_within else reason
            for tells, is_within, reason in zip(indicators, within, of_gap, strict=True)
        ]
    values = np.zeros(len(names)) if constants is None else np.array(constants.values)
    return Filling(tuple(names), values.astype(np.float32), tuple(refusals), indicators, sources)


def within_query(scalings: Sequence[Scaling], names: Sequence[str]) -> list[bool]:
    """Whether each feature is scaled by the other values of its query, in one form at least."""
    found: set[str] = set()
    for scaling in scalings:
        if not isinstance(scaling, ColumnForms):
            found |= {*names} if scaling.of_query else set()
            continue
        pairs = zip(scaling.sources, scaling.forms, strict=True)
        found |= {source for source, form in pairs if form is not None and form.of_query}
    return [name in found for name in names]


def constants_of(steps: Steps) -> ColumnConstants | None:
    """The values for missing ones among the steps."""
    return next((step for step in steps if isinstance(step, ColumnConstants)), None)


def filled_of(steps: Steps) -> ColumnConstants | None:
    """The record of values that were filled in for missing ones; None if none were."""
    constants = constants_of(steps)
    return constants if constants is not None and constants.fills else None


def origins_by_column(names: Sequence[str], steps: Steps) -> dict[str, float]:
    """The number to subtract from each raw column of features `names`, where it is not 0."""
    constants = constants_of(steps)
    if constants is None:
        return {}
    pairs = zip(source_names(names, steps), constants.origin_of_each, strict=True)
    return {name: origin for name, origin in pairs if origin}


def scalings_of(steps: Steps) -> tuple[Scaling, ...]:
    """The scalings among the steps."""
    return tuple(step for step in steps if not isinstance(step, ColumnConstants))


def restricted_steps(steps: Steps, columns: NDArray[np.intp]) -> Steps:
    """The steps of the features at `columns`, in that order; of products, those of the factors."""
    forms = forms_of(steps)
    at = columns if forms is None else forms.forms_at(columns)
    return tuple(
        step.restricted(at if isinstance(step, ColumnConstants) else columns) for step in steps
    )


def missing_steps(
    names: Sequence[str], needed: Steps, present: Steps, has_nulls: bool
) -> tuple[Filling | Scaling, ...]:
    """The steps of a model that were not yet applied to the data.

    Parameters
    ----------
    names
        Names of the features, in the order of the columns.
    needed
        The steps of the data that the model was trained on.
    present
        The steps that were already applied to the data.
    has_nulls
        Whether values of the data may be missing.

    Raises
    ------
    DataError
        If the data was scaled otherwise, or its missing values were filled with other values.
    """
    ours = scalings_of(present)
    scalings = missing_transforms(scalings_of(needed), ours)
    constants, theirs = constants_of(needed), filled_of(present)
    check_origins(names, constants, constants_of(present), "the data")
    if theirs is not None:
        check_filled_alike(names, constants, theirs)
        check_none_filled_within(names, theirs, scalings)
        constants = (
            None if constants is None else constants.without_indicators()
        )  # the data holds them
    if not has_nulls and (constants is None or not constants.has_indicators):
        return scalings
    return (filling(names, constants, scalings, ours), *scalings)


def check_none_filled_within(
    names: Sequence[str], constants: ColumnConstants, scalings: Sequence[Scaling]
) -> None:
    """Raise DataError if features are scaled by the values of a query, of which some were filled.

    A value filled in from outside the query would move the values of its other documents.
    """
    gaps = (
        np.asarray(constants.gaps, dtype=np.bool_) & ~constants.indicators
    )  # which are never scaled
    pairs = zip(names, gaps, within_query(scalings, names), strict=True)
    both = [name for name, gap, is_within in pairs if gap and is_within]
    if both:
        raise DataError(
            f"missing values of {len(both)} feature(s) were filled, and features are scaled by the "
            f"other values of their query, which a filled value would move: {listed(both)}. "
            "Leave these features out, or take the scaling log, standard, minmax or quantile."
        )


def check_filled_alike(
    names: Sequence[str], constants: ColumnConstants | None, data: ColumnConstants
) -> None:
    """Raise DataError if gaps of data were filled with other values than those of the training.

    Zero is the same value in all data; a model that knows no values takes it.
    """
    if constants is not None and not constants.fills:
        constants = None
    if constants is None and data.policy == "zero":
        return
    other = [
        i
        for i, gap in enumerate(data.gaps)
        if gap and (constants is None or constants.values[i] != data.values[i])
    ]
    if other:
        first = other[0]
        ours = "where the training knows no value"
        if constants is not None:
            known, policy = constants.values[first], constants.policy
            ours = f"instead of {known:.6g}, the {policy} of the training data"
        raise DataError(
            f"missing values of {len(other)} feature(s) were filled with other values than those "
            f"of the training: those of {names[first]!r} with {data.values[first]:.6g}, the "
            f"{data.policy} of the data itself, {ours}. Give the table itself, or ingest it with "
            "dranking ingest --null-from and the model or its training data."
        )


def _entries(
    features: FeatureMatrix, missing: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of the missing entries of a CSR array."""
    entries = np.flatnonzero(missing)
    rows = np.searchsorted(features.indptr, entries, side="right") - 1
    return rows, features.indices[entries]
