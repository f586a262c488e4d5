"""Roles of the columns of a flat table of ranking data, one row per document.

A flat table has columns for query id, relevance, document id and weight, and either one column of
numbers per feature or one column of fixed-size lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.roles import DOC_ID, FEATURES, QID, RELEVANCE, RESERVED, WEIGHT, Columns, Roles
from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.data.tables.ids import is_text
from dranking.data.tables.index_columns import (
    index_columns,
    measured_columns,
    pandas_index,
    say_index_columns,
    say_measured_columns,
)
from dranking.data.tables.numeric_values import is_number
from dranking.data.tables.refused_columns import (
    DASK_FRAME,
    TABLE,
    how_to_leave_out,
    not_features,
)
from dranking.data.tables.vectors import vector_names, widths_in
from dranking.errors import DataError, UsageError, listed, quoted

FIT_NAMES = {QID: "qid", RELEVANCE: "y"}
"""Arguments of the `fit` of estimators that name columns of a table."""

MEANINGS = {
    QID: "query ids",
    DOC_ID: "document ids",
    RELEVANCE: "grades",
    WEIGHT: "weights of queries",
}
"""The content of the columns that are not features, by their role."""


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
    origins
        The number to subtract from each of the columns; empty if there is none.
    qid_is_text, doc_id_is_text
        Whether ids are read as strings, because the ids are strings or some integer is beyond
        int64.
    """

    roles: Roles
    columns: tuple[str, ...]
    width: int | None = None
    qid_is_text: bool = False
    doc_id_is_text: bool = False
    origins: tuple[float, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature."""
        return self.columns if self.width is None else default_feature_names(self.width)

    def to_read(self, features: NDArray[np.intp]) -> list[str]:
        """Columns to read for a block with the features at these positions."""
        if self.width is not None:
            return [*self.roles.names, *(self.columns if len(features) else ())]
        return [*self.roles.names, *dict.fromkeys(self.columns[i] for i in features)]


def find_layout(schema: pa.Schema, columns: Columns, where: str) -> Layout:
    """Find the role of every column of a flat table.

    Parameters
    ----------
    schema
        Schema of the table.
    columns
        The roles that the caller gives to columns.
    where
        Name of the table in errors.

    Raises
    ------
    DataError
        If columns are missing, occur twice, or are of a wrong type. All columns that cannot be
        features are listed at once.
    UsageError
        If a column is named for two purposes.
    """
    repeated = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if repeated:
        of = [n for n, w in widths_in(schema).items() if {*repeated} & {*vector_names(n, w)}]
        why = f", also as elements of the lists {quoted(of)}" if of else ""
        raise DataError(
            f"{where}: columns occur more than once: {quoted(repeated)}{why}; rename them."
        )
    _check_there(schema, columns.exclude, where)
    roles = _find_roles(schema, columns, where)
    _check_role_types(schema, roles, where)
    _check_score_column(schema, columns, roles, where)
    if columns.features is None:
        chosen = _guess_features(schema, columns, roles, where)
        if columns.needed is None:
            passed_over = {*roles.names, *columns.exclude, *columns.no_index}
            say_index_columns(schema, passed_over, where)
            if found := measured_columns(schema, {*chosen} - {*columns.no_index}):
                say_measured_columns(found, where, how_to_leave_out(found, where)[0])
    else:
        chosen = tuple(columns.features)
        _check_named_features(schema, columns, roles, where)
    check_feature_names(chosen)
    width = None
    if len(chosen) == 1 and pa.types.is_fixed_size_list(schema.field(chosen[0]).type):
        width = schema.field(chosen[0]).type.list_size
        if not width:
            raise DataError(
                f"{where}: column {chosen[0]!r} holds lists of length 0; there are no features."
            )
    docid = roles.docid
    return Layout(
        roles=roles,
        columns=chosen,
        width=width,
        qid_is_text=is_text(value_type(schema, roles.qid)),
        doc_id_is_text=docid is not None and is_text(value_type(schema, docid)),
    )


def features_beside(schema: pa.Schema, columns: Columns, roles: Roles) -> list[str]:
    """Names of the columns that have no other role and are not left out."""
    return [field.name for field in _possible_features(schema, columns, roles)]


def value_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Type of a column's values; for a pandas categorical, the type of the categories."""
    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _find_roles(schema: pa.Schema, columns: Columns, where: str) -> Roles:
    """Names of the columns that are not features, without optional columns that are absent."""

    def there(name: str | None, may_be_absent: bool) -> str | None:
        is_absent = name not in schema.names or name in columns.exclude
        return None if may_be_absent and is_absent else name

    roles = Roles(
        qid=columns.qid,
        docid=there(columns.docid, columns.docid == DOC_ID),
        relevance=there(columns.relevance, not columns.labelled),
        weight=there(columns.weight, columns.weight == WEIGHT),
    )
    twice = [name for name in roles.names if roles.names.count(name) > 1]
    excluded = [name for name in roles.names if name in columns.exclude]
    if twice or excluded:
        raise UsageError(
            f"{where}: one column cannot have two roles, or have a role and be left out: "
            f"{quoted(sorted({*twice, *excluded}))}."
        )
    named = [role for role in MEANINGS if getattr(roles, role) is not None]
    absent = [role for role in named if getattr(roles, role) not in schema.names]
    names = [getattr(roles, role) for role in absent]
    _check_there(schema, names, where, _how_to_name(absent, where))
    return roles


def _check_there(schema: pa.Schema, names: Sequence[str], where: str, advice: str = "") -> None:
    there = {*schema.names}
    absent = [name for name in names if name not in there]
    if absent:
        raise DataError(
            f"{where}: there is no column {quoted(absent)}. The columns are "
            f"{quoted(schema.names)}.{advice}"
        )


def _how_to_name(roles: Sequence[str], where: str) -> str:
    """Advice on naming the columns of some roles, which are absent under the names that they have.

    Options are of the command line, which reads no tables in memory.
    """
    if not roles:
        return ""
    if where == TABLE:
        named = ", ".join(f"{role}=..." for role in roles)
        none = " (relevance=None if there are no labels)" if RELEVANCE in roles else ""
        return f" Say which column is what{none}, as in dr.from_table(table, dr.Columns({named}))."
    if where == DASK_FRAME:
        named = ", ".join(f"{FIT_NAMES.get(role, role)}=..." for role in roles)
        return (
            f" Name the columns in fit(frame, {named}); elsewhere give them these names: "
            "frame.rename(columns=...)."
        )
    hints = [
        f" Name the column of {MEANINGS[role]} with --{role}-column (Columns({role}=...), "
        f"for retrain data.{role})."
        for role in roles
    ]
    if RELEVANCE in roles:
        hints.append(
            " Grades in a file of their own are joined by dranking ingest --judgements (in Python "
            "RowRules(judgements=...)). Data without labels is stored by dranking ingest "
            "--no-relevance (in Python Columns(relevance=None)), and scored by predict or labelled "
            "by clicks label; nothing else can be done with it."
        )
    return "".join(hints)


def _check_role_types(schema: pa.Schema, roles: Roles, where: str) -> None:
    for name in (roles.qid, roles.docid):
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
        if not is_number(kind):
            raise DataError(f"{where}: column {name!r} is {kind}; it must hold numbers.")


def _check_score_column(schema: pa.Schema, columns: Columns, roles: Roles, where: str) -> None:
    """Raise DataError if the column to rank by is not there, or cannot be ranked by."""
    name = columns.score
    if name is None:
        return
    features = _possible_features(schema, columns, roles)
    numbers = [field.name for field in features if is_number(field.type)]
    has_list = any(pa.types.is_fixed_size_list(field.type) for field in features)
    if name in numbers or (has_list and name not in schema.names):  # lists hold several features
        return
    if name not in schema.names:
        raise no_score_column(name, numbers, where)
    what = "has another role, or is left out"
    if name in (field.name for field in features):
        what = f"is {schema.field(name).type}"
    raise DataError(
        f"{where}: the score column {name!r} {what}; a score column holds numbers. "
        f"{_choices(numbers)}"
    )


def no_score_column(name: str, features: Sequence[str], where: str) -> DataError:
    """The error for data that lacks the column to rank by, and has other features."""
    return DataError(f"{where}: there is no score column {name!r}. {_choices(features)}")


def _choices(features: Sequence[str]) -> str:
    return f"The columns to rank by are {quoted(features) or 'none'}."


def _possible_features(schema: pa.Schema, columns: Columns, roles: Roles) -> list[pa.Field]:
    """The columns that have no other role and are not left out."""
    left_out = {*_unused_roles(columns), *columns.exclude}
    indexes = {*pandas_index(schema), *index_columns(schema)}
    indexes -= {*(columns.needed or ()), *columns.no_index}
    passed_over = {*roles.names, *left_out, *indexes}
    return [field for field in schema if field.name not in passed_over]


def _guess_features(
    schema: pa.Schema, columns: Columns, roles: Roles, where: str
) -> tuple[str, ...]:
    """Every column without another role, or the column of lists ``features``."""
    rest = _possible_features(schema, columns, roles)
    passed_over = {*schema.names} - {field.name for field in rest}
    lists = [f for f in rest if f.name == FEATURES and pa.types.is_fixed_size_list(f.type)]
    rest = [field for field in rest if field not in lists]
    if columns.needed is not None:
        rest = [field for field in rest if field.name in columns.needed]
    refused = [f for f in rest if not is_number(f.type) or f.name in RESERVED]
    if refused:
        raise not_features(refused, where)
    if lists:
        if rest:
            raise DataError(
                f"{where}: has the list column {FEATURES!r} and columns of numbers "
                f"({quoted([f.name for f in rest])}). Name the features with --features "
                "(Columns(features=[...]), for retrain data.features), or leave columns out "
                "with --exclude (Columns(exclude=[...]), for retrain data.exclude)."
            )
        _check_feature_type(schema, FEATURES, where)
        return (FEATURES,)
    if not rest and columns.needed is not None and not columns.needed:
        return ()
    if not rest:
        numbers = f"beside {quoted(sorted(passed_over))}"
        if columns.needed is not None:
            numbers = f"among those needed ({quoted([*columns.needed])})"
        others = {*roles.names, *columns.exclude}
        indexes = [name for name in index_columns(schema) if name not in others]
        advice = (
            f" Tools give the name of {quoted(indexes)} to the index of a frame, so it is left "
            "out: give each such column that is a feature another name."
        )
        raise DataError(
            f"{where}: there is no feature column: no column of numbers {numbers}, and no "
            f"fixed-size-list column {FEATURES!r}. The columns are "
            f"{listed([f'{f.name} ({f.type})' for f in schema])}.{advice if indexes else ''}"
        )
    return tuple(field.name for field in rest)


def _unused_roles(columns: Columns) -> list[str]:
    """Default names of the roles that the caller declares absent."""
    asked = Roles(columns.qid, columns.docid, columns.relevance, columns.weight)
    return [name for name in RESERVED if getattr(asked, name) is None]


def _check_named_features(schema: pa.Schema, columns: Columns, roles: Roles, where: str) -> None:
    chosen = list(columns.features or ())
    if not chosen:
        raise UsageError("no feature column is named; name at least one.")
    if columns.exclude:
        raise UsageError("name the features, or the columns to exclude, but not both.")
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    taken = [name for name in chosen if name in roles.names]
    if repeated or taken:
        raise UsageError(
            "name each feature column once, and no column that has another role; repeated or with "
            f"another role: {quoted(repeated + taken)}."
        )
    _check_there(schema, chosen, where)
    for name in chosen:
        is_list = pa.types.is_fixed_size_list(schema.field(name).type)
        if is_list and len(chosen) > 1:
            raise UsageError(
                f"{where}: column {name!r} holds lists; a list column must be the only one."
            )
    fields = [schema.field(name) for name in chosen]
    refused = [f for f in fields if not is_number(_element_type(f.type))]
    if refused:
        raise not_features(refused, where)


def _element_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_fixed_size_list(kind) else kind


def _check_feature_type(schema: pa.Schema, name: str, where: str) -> None:
    kind = schema.field(name).type
    if not is_number(_element_type(kind)):
        raise DataError(
            f"{where}: column {name!r} is {kind}; features are numbers or fixed-size lists of them."
        )
