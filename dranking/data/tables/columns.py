"""Roles of the columns of a flat table of ranking data, one row per document.

A flat table has columns for query id, relevance, document id and weight, and either one column of
numbers per feature or one column of fixed-size lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.data.tables.ids import is_text
from dranking.data.tables.numeric_values import (
    is_number,
)
from dranking.errors import DataError, UsageError
from dranking.files.json_files import parse_json

QID, DOC_ID, RELEVANCE, WEIGHT, FEATURES = "qid", "docid", "relevance", "weight", "features"
RESERVED = (QID, DOC_ID, RELEVANCE, WEIGHT)
"""Columns that count as features only if the caller names them as features."""


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are not features; None if there is no such column."""

    qid: str = QID
    relevance: str | None = RELEVANCE
    doc_id: str | None = DOC_ID
    weight: str | None = WEIGHT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are there."""
        roles = (self.qid, self.doc_id, self.relevance, self.weight)
        return tuple(name for name in roles if name is not None)


@dataclass(frozen=True)
class Layout:
    """Columns of a flat table by role.

    Attributes
    ----------
    roles
        Columns that are not features.
    columns
        One column per feature if `width` is None; otherwise the single column of lists.
    width
        Length of the lists, or None.
    qid_is_text, doc_id_is_text
        Whether ids are read as strings, because the ids are strings or some integer is beyond
        int64.
    """

    roles: Roles
    columns: tuple[str, ...]
    width: int | None = None
    qid_is_text: bool = False
    doc_id_is_text: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature."""
        return self.columns if self.width is None else default_feature_names(self.width)

    def to_read(self, features: NDArray[np.intp]) -> list[str]:
        """Columns to read for a block with the features at these positions."""
        if self.width is not None:
            return [*self.roles.names, *(self.columns if len(features) else ())]
        return [*self.roles.names, *dict.fromkeys(self.columns[i] for i in features)]


def find_layout(
    schema: pa.Schema, roles: Roles, features: Sequence[str] | None, where: str
) -> Layout:
    """Find the role of every column of a flat table.

    Parameters
    ----------
    schema
        Schema of the table.
    roles
        Names to look for. Document ids and weights may be absent if their names are the defaults.
    features
        Names of the feature columns in order, or the name of the single column of lists. None
        stands for the column of lists named ``features``; without it, for every column of numbers
        that has no other role and is not the index of a pandas frame.
    where
        Name of the table in errors.

    Raises
    ------
    DataError
        If columns are missing, occur twice, or are of a wrong type.
    UsageError
        If `features` names a column twice, or a column that has another role.
    """
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise DataError(f"{where}: columns occur more than once: {_listed(repeated)}; rename them.")
    roles = _present(schema, roles, where)
    _check_role_types(schema, roles, where)
    if features is None:
        chosen = _guess_features(schema, roles, where)
    else:
        chosen = tuple(features)
        _check_named_features(schema, chosen, roles, where)
    check_feature_names(chosen)
    width = None
    if len(chosen) == 1 and pa.types.is_fixed_size_list(schema.field(chosen[0]).type):
        width = schema.field(chosen[0]).type.list_size
    doc_id = roles.doc_id
    return Layout(
        roles=roles,
        columns=chosen,
        width=width,
        qid_is_text=is_text(value_type(schema, roles.qid)),
        doc_id_is_text=doc_id is not None and is_text(value_type(schema, doc_id)),
    )


def value_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Type of a column's values; for a pandas categorical, the type of the categories."""
    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _present(schema: pa.Schema, roles: Roles, where: str) -> Roles:
    """The roles, without optional columns that are absent."""
    doc_id, weight = roles.doc_id, roles.weight
    if doc_id == DOC_ID and DOC_ID not in schema.names:
        doc_id = None
    if weight == WEIGHT and WEIGHT not in schema.names:
        weight = None
    found = Roles(roles.qid, roles.relevance, doc_id, weight)
    _check_there(schema, found.names, where)
    return found


def _check_there(schema: pa.Schema, names: Sequence[str], where: str) -> None:
    absent = [name for name in names if name not in schema.names]
    if absent:
        hint = ""
        if RELEVANCE in absent:
            hint = " For unlabelled data make relevance a column of nulls."
        raise DataError(
            f"{where}: there is no column {_listed(absent)}. "
            f"The columns are {_listed(schema.names)}.{hint}"
        )


def _check_role_types(schema: pa.Schema, roles: Roles, where: str) -> None:
    for name in (roles.qid, roles.doc_id):
        if name is None:
            continue
        kind = value_type(schema, name)
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (numeric or is_text(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where}: column {name!r} is {kind}; ids are integers or strings.")
    for name in (roles.relevance, roles.weight):
        if name is None:
            continue
        kind = schema.field(name).type
        if not (is_number(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where}: column {name!r} is {kind}; it must hold numbers.")


def _guess_features(schema: pa.Schema, roles: Roles, where: str) -> tuple[str, ...]:
    taken = {*RESERVED, *roles.names, *_pandas_index(schema)}
    numbers = tuple(f.name for f in schema if f.name not in taken and is_number(f.type))
    if FEATURES in schema.names and pa.types.is_fixed_size_list(schema.field(FEATURES).type):
        if numbers:
            raise DataError(
                f"{where}: has the list column {FEATURES!r} and columns of numbers "
                f"({_listed(numbers)}); name the features with feature_columns=."
            )
        _check_feature_type(schema, FEATURES, where)
        return (FEATURES,)
    if not numbers:
        raise DataError(
            f"{where}: there is no feature column: no column of numbers beside {_listed(taken)}, "
            f"and no fixed-size-list column {FEATURES!r}. The columns are "
            f"{', '.join(f'{f.name} ({f.type})' for f in schema)}."
        )
    return numbers


def _check_named_features(
    schema: pa.Schema, chosen: tuple[str, ...], roles: Roles, where: str
) -> None:
    if not chosen:
        raise UsageError("no feature column is named; name at least one.")
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    taken = [name for name in chosen if name in roles.names]
    if repeated or taken:
        raise UsageError(
            "name each feature column once, and no column that has another role; repeated or with "
            f"another role: {_listed(repeated + taken)}."
        )
    _check_there(schema, chosen, where)
    for name in chosen:
        is_list = pa.types.is_fixed_size_list(schema.field(name).type)
        if is_list and len(chosen) > 1:
            raise UsageError(
                f"{where}: column {name!r} holds lists; a list column must be the only one."
            )
        _check_feature_type(schema, name, where)


def _check_feature_type(schema: pa.Schema, name: str, where: str) -> None:
    kind = schema.field(name).type
    value = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
    if not is_number(value):
        raise DataError(
            f"{where}: column {name!r} is {kind}; features are numbers or fixed-size lists of them."
        )


def _pandas_index(schema: pa.Schema) -> list[str]:
    """Columns that pandas stored to restore the index of a frame."""
    try:
        index = parse_json((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in index if isinstance(name, str)]
    except (KeyError, ValueError, TypeError):
        return []


def _listed(names: Sequence[str] | set[str]) -> str:
    ordered = sorted(names) if isinstance(names, set) else list(names)
    shown = ", ".join(repr(name) for name in ordered[:20])
    return f"{shown}, ... ({len(ordered)} in all)" if len(ordered) > 20 else shown
