"""Column layout that all parquet files of a data set share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from dranking.data.roles import Columns
from dranking.data.tables.columns import Layout, find_layout, value_type
from dranking.data.tables.ids import is_text
from dranking.data.tables.numeric_values import is_number
from dranking.data.tables.recorded_steps import Schemas
from dranking.errors import DataError


def common_layout(schemas: Schemas, columns: Columns) -> Layout:
    """Roles of the columns, equal in all files, with the features in the order of the first file.

    A column of nulls without a type, as writers make it of values that are all missing, has the
    type that it has in the first file that knows one.

    Raises
    ------
    DataError
        If columns are missing, of a wrong type, or not the same in all files.
    UsageError
        If a column is named for two purposes.
    """
    schemas = with_types(schemas)
    layouts = [(where, find_layout(schema, columns, where)) for where, schema in schemas]
    first_place, first = layouts[0]
    for where, other in layouts[1:]:
        difference = _difference(first, other)
        if difference:
            raise DataError(
                f"{where}: {difference}, unlike {first_place}; the files of a data set must have "
                "the same columns."
            )
    return replace(
        first,
        qid_is_text=_is_text(schemas, first.roles.qid),
        doc_id_is_text=first.roles.docid is not None and _is_text(schemas, first.roles.docid),
    )


def with_types(schemas: Schemas) -> Schemas:
    """The schemas with the type of numbers, known from other files, of columns of nulls alone."""
    known: dict[str, pa.Field] = {}
    for field in (field for _, schema in schemas for field in schema):
        if is_number(field.type) and not pa.types.is_null(field.type):
            known.setdefault(field.name, field)
    return [(where, _with_types(schema, known)) for where, schema in schemas]


def _with_types(schema: pa.Schema, known: Mapping[str, pa.Field]) -> pa.Schema:
    for position, field in enumerate(schema):
        if pa.types.is_null(field.type) and field.name in known:
            schema = schema.set(position, known[field.name])
    return schema


def _difference(first: Layout, other: Layout) -> str:
    """In words, the difference of a file's columns from those of the first file; empty if equal."""
    if first.width != other.width:
        return f"its features are {_form(other)}, not {_form(first)}"
    ours = {*first.roles.names, *first.columns}
    theirs = {*other.roles.names, *other.columns}
    parts = []
    if ours - theirs:
        parts.append(f"it lacks {', '.join(map(repr, sorted(ours - theirs)[:10]))}")
    if theirs - ours:
        parts.append(f"it adds {', '.join(map(repr, sorted(theirs - ours)[:10]))}")
    return " and ".join(parts)


def _form(layout: Layout) -> str:
    return "columns of numbers" if layout.width is None else f"lists of length {layout.width}"


def _is_text(schemas: Schemas, name: str) -> bool:
    """Whether a column of ids holds strings; the answer must be the same for all files."""
    found: dict[bool, str] = {}
    for where, schema in schemas:
        kind = value_type(schema, name)
        if not pa.types.is_null(kind):
            found.setdefault(is_text(kind), where)
    if len(found) > 1:
        raise DataError(
            f"column {name!r} holds strings in {found[True]} but integers in {found[False]}; "
            "store the column with one type in all files."
        )
    return True in found
