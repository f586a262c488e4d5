"""Column layout that all parquet files of a data set share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from dranking.data.roles import RESERVED, Columns, KnownFeatures
from dranking.data.tables.columns import Layout, features_beside, find_layout, value_type
from dranking.data.tables.ids import is_text
from dranking.data.tables.later_features import compare_features, say_left_out
from dranking.data.tables.numeric_values import is_number
from dranking.data.tables.recorded_steps import Schemas
from dranking.data.tables.vectors import vectors_in, widths_in, with_elements, with_vectors
from dranking.errors import DataError, quoted


def common_layout(schemas: Schemas, columns: Columns, *, may_lack: bool = False) -> Layout:
    """Roles of the columns of all files, with the features in the order of the first file.

    The features are those of earlier data (`Columns.known`), or those of the first file, which
    other files have in any order (`dranking.data.tables.later_features`). A column of nulls without
    a type, as writers make it of values that are all missing, has the type that it has in the first
    file that knows one.

    Parameters
    ----------
    schemas
        File and schema, in order.
    columns
        The roles that the caller gives to columns.
    may_lack
        Whether a file may lack features of other files, which are missing values then; the features
        of all files count.

    Raises
    ------
    DataError
        If columns are missing, of a wrong type, or have other roles than in the first file.
    UsageError
        If a column is named for two purposes.
    """
    schemas = _with_lists(with_types(schemas))
    _check_widths(schemas)
    if may_lack:
        schemas = _with_lacking(schemas, columns)
    known, layouts = columns.known, []
    left_out: dict[str, str] = {}
    for where, schema in schemas:
        asked = with_vectors(columns, schema)
        layout = _layout(schema, asked, known, where)
        if known is not None and layout.width is None:
            found = _features_of(schema, asked, known, layout)
            for name in compare_features(found, known, where, asked.features).new:
                left_out.setdefault(name, where)
        elif layout.width is None:
            known = KnownFeatures(layout.columns, where)
        layouts.append(layout)
    (first_place, _), first = schemas[0], layouts[0]
    for (where, _), other in zip(schemas[1:], layouts[1:], strict=True):
        difference = _difference(first, other)
        if difference:
            raise DataError(
                f"{where}: {difference}, unlike {first_place}; the files of a data set must have "
                "the same columns."
            )
    if known is not None:
        say_left_out(left_out, known)
        if first.width is None:
            first = replace(first, columns=known.names)
    return replace(
        first,
        qid_is_text=_is_text(schemas, first.roles.qid),
        doc_id_is_text=first.roles.docid is not None and _is_text(schemas, first.roles.docid),
    )


def _with_lists(schemas: Schemas) -> Schemas:
    """The schemas with the elements, known from other files, of lists that are all missing."""
    widths = {name: width for _, schema in schemas for name, width in widths_in(schema).items()}
    return [
        (where, with_elements(schema, {n: widths[n] for n in vectors_in(schema) if n in widths}))
        for where, schema in schemas
    ]


def _check_widths(schemas: Schemas) -> None:
    """Raise DataError if lists of a column have one length in a file and another in others."""
    first: dict[str, tuple[int, str]] = {}
    for where, schema in schemas:
        for name, width in widths_in(schema).items():
            known, there = first.setdefault(name, (width, where))
            if known != width:
                raise DataError(
                    f"{where}: row 0: column {name!r} has a list of length {width}, and {known} in "
                    f"{there}; a feature vector has one length. Fill the lists up, or leave them "
                    f"out with --exclude {name} (Columns(exclude=[...]), for retrain data.exclude)."
                )


def _layout(schema: pa.Schema, columns: Columns, known: KnownFeatures | None, where: str) -> Layout:
    """The columns of a file by role, without features that are not known."""
    if known is None or columns.features is not None or columns.needed is not None:
        return find_layout(schema, columns, where)
    there = {*schema.names}
    needed = [name for name in known.names if name in there]
    return find_layout(schema, replace(columns, needed=needed), where)


def _features_of(
    schema: pa.Schema, columns: Columns, known: KnownFeatures, layout: Layout
) -> Sequence[str]:
    """The features that the caller asks for, or all that a file has."""
    if columns.features is not None or columns.needed is not None:
        return layout.columns
    return features_beside(schema, replace(columns, no_index=known.names), layout.roles)


def _with_lacking(schemas: Schemas, columns: Columns) -> Schemas:
    """The schemas with the features of all files, or of earlier data."""
    roles = {*RESERVED, columns.qid, columns.relevance, columns.docid, columns.weight}
    fields = {field.name: field for _, schema in schemas for field in reversed(schema)}
    names = [name for name in fields if name not in roles and not is_text(fields[name].type)]
    if columns.known is not None:
        names = [*columns.known.names]
    wanted = [fields.get(name, pa.field(name, pa.float32())) for name in names]
    return [(where, _with_fields(schema, wanted)) for where, schema in schemas]


def _with_fields(schema: pa.Schema, wanted: Sequence[pa.Field]) -> pa.Schema:
    there = {*schema.names}
    added = [field for field in wanted if field.name not in there]
    return pa.schema([*schema, *added], schema.metadata)


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
    """In words, the difference of a file's roles from those of the first file; empty if equal."""
    if first.width != other.width:
        return f"its features are {_form(other)}, not {_form(first)}"
    ours, theirs = {*first.roles.names}, {*other.roles.names}
    parts = []
    if ours - theirs:
        parts.append(f"it lacks {quoted(sorted(ours - theirs))}")
    if theirs - ours:
        parts.append(f"it adds {quoted(sorted(theirs - ours))}")
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
