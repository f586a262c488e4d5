"""Columns that seem to be the index of a frame, which is no feature."""

from __future__ import annotations

import re
from collections.abc import Collection

import pyarrow as pa

from dranking.data.tables.numeric_values import is_number
from dranking.errors import DataWarning, quoted, warn_user
from dranking.files.json_files import parse_json

_ALWAYS = re.compile(r"__index_level_\d+__|__null_dask_index__|Unnamed: \d+(\.\d+)*")
"""Names that pandas and Dask alone give to a column, that of an index which has no name."""

_OFTEN = re.compile(r"level_\d+|index")
"""Names that pandas gives to such a column, and which a feature may have as well."""


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns that are an index by their names alone, or by name and whole numbers."""
    return [
        field.name
        for field in schema
        if _ALWAYS.fullmatch(field.name)
        or (_OFTEN.fullmatch(field.name) and pa.types.is_integer(field.type))
    ]


def measured_columns(schema: pa.Schema, names: Collection[str]) -> list[str]:
    """Those of the names which pandas may give to an index, of columns of other than integers."""
    return [
        field.name
        for field in schema
        if field.name in names
        and _OFTEN.fullmatch(field.name)
        and is_number(field.type)
        and not pa.types.is_integer(field.type)
    ]


def pandas_index(schema: pa.Schema) -> list[str]:
    """Columns that pandas stored to restore the index of a frame."""
    try:
        index = parse_json((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in index if isinstance(name, str)]
    except (KeyError, ValueError, TypeError):
        return []


def say_index_columns(schema: pa.Schema, known: Collection[str], where: str) -> None:
    """Warn of columns that are left out as an index, beside the `known` ones of another role."""
    passed_over = {*known, *pandas_index(schema)}
    found = [name for name in index_columns(schema) if name not in passed_over]
    if found:
        warn_user(
            f"{where}: left out {quoted(found)}: tools give such a name to the index of a frame. "
            "Give each of these columns that is a feature another name.",
            DataWarning,
        )


def say_measured_columns(found: Collection[str], where: str, leave_out: str) -> None:
    """Warn of features that may be the index of a frame, which a merge turned into floats."""
    warn_user(
        f"{where}: {quoted([*found])} is a feature here: pandas gives such a name to the index of "
        f"a frame, too. Leave an index out with {leave_out}, and give a feature another name.",
        DataWarning,
    )


def say_index_features(schema: pa.Schema) -> None:
    """Warn of columns of X, the features beside labels and ids, that seem to be an index."""
    if found := [*index_columns(schema), *measured_columns(schema, schema.names)]:
        warn_user(
            f"X has {quoted(found)} among its features: tools give such a name to the index "
            "of a frame. Drop an index from X, and give a feature another name.",
            DataWarning,
        )
