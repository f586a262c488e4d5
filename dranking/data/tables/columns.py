"""Roles of the columns of a flat table of ranking data, one row per document.

A flat table has columns for query id, relevance, document id and weight, and either one column of
numbers per feature or one column of fixed-size lists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.roles import DOC_ID, FEATURES, QID, RELEVANCE, RESERVED, WEIGHT, Columns, Roles
from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.data.tables.ids import is_text
from dranking.data.tables.numeric_values import is_number
from dranking.errors import DataError, UsageError
from dranking.files.json_files import parse_json

TABLE, DASK_FRAME = "the table", "the dask DataFrame"
"""How errors name tables that are no files."""

FIT_NAMES = {QID: "qid", RELEVANCE: "y"}
"""Arguments of the `fit` of estimators that name columns of a table."""


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


def find_layout(schema: pa.Schema, columns: Columns, where: str) -> Layout:
    """Find the role of every column of a flat table.

    Parameters
    ----------
    schema
        Schema of the table.
    columns
        What the caller says about the columns.
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
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise DataError(f"{where}: columns occur more than once: {_listed(repeated)}; rename them.")
    _check_there(schema, columns.exclude, where)
    roles = _find_roles(schema, columns, where)
    _check_role_types(schema, roles, where)
    if columns.features is None:
        chosen = _guess_features(schema, columns, roles, where)
    else:
        chosen = tuple(columns.features)
        _check_named_features(schema, columns, roles, where)
    check_feature_names(chosen)
    width = None
    if len(chosen) == 1 and pa.types.is_fixed_size_list(schema.field(chosen[0]).type):
        width = schema.field(chosen[0]).type.list_size
    docid = roles.docid
    return Layout(
        roles=roles,
        columns=chosen,
        width=width,
        qid_is_text=is_text(value_type(schema, roles.qid)),
        doc_id_is_text=docid is not None and is_text(value_type(schema, docid)),
    )


def value_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Type of a column's values; for a pandas categorical, the type of the categories."""
    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _find_roles(schema: pa.Schema, columns: Columns, where: str) -> Roles:
    """Names of the columns that are not features, without optional columns that are absent."""

    def there(name: str | None, default: str) -> str | None:
        is_absent = name not in schema.names or name in columns.exclude
        return None if name == default and is_absent else name

    roles = Roles(
        qid=columns.qid,
        docid=there(columns.docid, DOC_ID),
        relevance=columns.relevance,
        weight=there(columns.weight, WEIGHT),
    )
    twice = [name for name in roles.names if roles.names.count(name) > 1]
    excluded = [name for name in roles.names if name in columns.exclude]
    if twice or excluded:
        raise UsageError(
            f"{where}: one column cannot have two roles, or have a role and be left out: "
            f"{_listed(sorted({*twice, *excluded}))}."
        )
    _check_there(schema, roles.names, where)
    return roles


def _check_there(schema: pa.Schema, names: Sequence[str], where: str) -> None:
    absent = [name for name in names if name not in schema.names]
    if not absent:
        return
    raise DataError(
        f"{where}: there is no column {_listed(absent)}. The columns are {_listed(schema.names)}."
        + _how_to_name(absent, where)
    )


def _how_to_name(absent: Sequence[str], where: str) -> str:
    """How to say which column holds query ids and which grades, where the default names are absent.

    Options are of the command line, which reads no tables in memory.
    """
    meanings = {QID: "query ids", RELEVANCE: "grades"}
    roles = [role for role in meanings if role in absent]
    if not roles:
        return ""
    if where == TABLE:
        named = ", ".join(f"{role}=..." for role in roles)
        none = " (relevance=None if there are no labels)" if RELEVANCE in roles else ""
        return f" Say which column is what{none}: dr.from_table(table, dr.Columns({named}))."
    if where == DASK_FRAME:
        named = ", ".join(f"{FIT_NAMES[role]}=..." for role in roles)
        return (
            f" Name the columns in fit(frame, {named}); elsewhere give them these names: "
            "frame.rename(columns=...)."
        )
    hints = [
        f" Name the column of {meanings[role]} with --{role}-column (Columns({role}=...))."
        for role in roles
    ]
    if RELEVANCE in roles:
        hints.append(" If there are no labels, say --no-relevance (Columns(relevance=None)).")
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
        if not (is_number(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where}: column {name!r} is {kind}; it must hold numbers.")


def _guess_features(
    schema: pa.Schema, columns: Columns, roles: Roles, where: str
) -> tuple[str, ...]:
    """Every column without another role, or the column of lists ``features``."""
    passed_over = {*roles.names, *_unused_roles(columns), *columns.exclude, *_pandas_index(schema)}
    rest = [field for field in schema if field.name not in passed_over]
    lists = [f for f in rest if f.name == FEATURES and pa.types.is_fixed_size_list(f.type)]
    rest = [field for field in rest if field not in lists]
    if columns.needed is not None:
        rest = [field for field in rest if field.name in columns.needed]
    refused = [f for f in rest if not is_number(f.type) or f.name in RESERVED]
    if refused:
        raise _not_features(refused, where)
    if lists:
        if rest:
            raise DataError(
                f"{where}: has the list column {FEATURES!r} and columns of numbers "
                f"({_listed([f.name for f in rest])}). Name the features with --features "
                "(Columns(features=[...])), or leave columns out with --exclude "
                "(Columns(exclude=[...]))."
            )
        _check_feature_type(schema, FEATURES, where)
        return (FEATURES,)
    if not rest and columns.needed is not None and not columns.needed:
        return ()
    if not rest:
        wanted = "" if columns.needed is None else f" of those needed ({_listed(columns.needed)})"
        raise DataError(
            f"{where}: there is no feature column{wanted}: no column of numbers beside "
            f"{_listed(sorted(passed_over))}, and no fixed-size-list column {FEATURES!r}. The "
            f"columns are {', '.join(f'{f.name} ({f.type})' for f in schema)}."
        )
    return tuple(field.name for field in rest)


def _unused_roles(columns: Columns) -> list[str]:
    """Default names of the roles that the caller declares absent."""
    asked = Roles(columns.qid, columns.docid, columns.relevance, columns.weight)
    return [name for name in RESERVED if getattr(asked, name) is None]


def _not_features(refused: Sequence[pa.Field], where: str) -> DataError:
    """The error for columns of which no features can be made."""
    names = [field.name for field in refused]
    reasons = [
        "the name of ids, grades or weights" if field.name in RESERVED else str(field.type)
        for field in refused
    ]
    listed = ", ".join(f"{n!r} ({r})" for n, r in zip(names[:50], reasons, strict=False))
    more = f", ... ({len(names)} in all)" if len(names) > 50 else ""
    return DataError(
        f"{where}: {len(names)} column(s) cannot be features: {listed}{more}. Features are "
        "integers, floats, decimals or booleans. Leave these columns out with "
        f"--exclude {','.join(names[:50])} (Columns(exclude=[...])), or name the features with "
        "--features (Columns(features=[...]))."
    )


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
            f"another role: {_listed(repeated + taken)}."
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
        raise _not_features(refused, where)


def _element_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_fixed_size_list(kind) else kind


def _check_feature_type(schema: pa.Schema, name: str, where: str) -> None:
    kind = schema.field(name).type
    if not is_number(_element_type(kind)):
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


def _listed(names: Collection[str]) -> str:
    ordered = list(names)
    shown = ", ".join(repr(name) for name in ordered[:20])
    return f"{shown}, ... ({len(ordered)} in all)" if len(ordered) > 20 else shown
