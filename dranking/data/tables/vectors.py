"""Columns of lists of equal length, whose elements are features.

The elements of a column ``embedding`` are the features ``embedding_0``, ``embedding_1`` and so on;
those of a column ``features`` are f1, f2 and so on, as in text. Tables in memory get a column for
each element; parquet files hold the lists, and readers take elements out of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.roles import DEFAULT_COLUMNS, FEATURES, Columns
from dranking.data.tables.feature_names import default_feature_names, index_of
from dranking.data.tables.ids import Place, row_place
from dranking.data.tables.numeric_values import arrow_numbers, is_number
from dranking.errors import DataError

__all__: list[str] = []

_VECTOR = b"dranking.vector"
"""Key of the metadata of an element's field: the name of the column of lists."""


def vector_names(name: str, width: int) -> tuple[str, ...]:
    """Names of the elements of a column of lists."""
    if name == FEATURES:
        return default_feature_names(width)
    return tuple(f"{name}_{i}" for i in range(width))


def vector_of(name: str) -> str:
    """Name of the column of lists that a feature of some name may be an element of."""
    if index_of(name):
        return FEATURES
    found = re.fullmatch(r"(.+)_(?:0|[1-9][0-9]*)", name, re.DOTALL)
    return found[1] if found else name


def vectors_in(schema: pa.Schema) -> list[str]:
    """Names of the columns of lists of numbers, but ``features`` of lists of fixed size.

    `Layout` keeps those as they are.
    """
    return [
        field.name
        for field in schema
        if _is_list(field.type)
        and is_number(field.type.value_type)
        and not (field.name == FEATURES and pa.types.is_fixed_size_list(field.type))
    ]


def vectors_to_read(schema: pa.Schema, columns: Columns) -> list[str]:
    """Names of the columns of `vectors_in` whose elements the caller reads."""
    chosen = columns.features if columns.needed is None else columns.needed
    wanted = None if chosen is None else {*chosen, *map(vector_of, chosen)}
    there = (name for name in vectors_in(schema) if name not in columns.exclude)
    return [name for name in there if wanted is None or name in wanted]


def read_widths(widths: Mapping[str, int], columns: Columns) -> dict[str, int]:
    """The lengths of those columns of lists of which the caller reads an element."""
    chosen = columns.features if columns.needed is None else columns.needed
    if chosen is None:
        return dict(widths)
    wanted = {*chosen}
    return {n: w for n, w in widths.items() if wanted & {n, *vector_names(n, w)}}


def stored_names(names: Sequence[str], widths: Mapping[str, int]) -> list[str]:
    """The columns to read for some columns: a column of lists for its elements."""
    of = {each: name for name, width in widths.items() for each in vector_names(name, width)}
    return list(dict.fromkeys(of.get(name, name) for name in names))


def _is_list(kind: pa.DataType) -> bool:
    is_view = hasattr(pa.types, "is_list_view") and (
        pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    )
    is_plain = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_view or is_plain or pa.types.is_fixed_size_list(kind))


def width_of(lists: Iterable[pa.Array]) -> int:
    """Length of the first list that is neither null nor empty; 0 if there is none."""
    for chunk in lists:
        lengths = pc.list_value_length(chunk).drop_null()
        filled = lengths.filter(pc.greater(lengths, 0))
        if len(filled):
            return int(filled[0].as_py())
    return 0


def with_elements(schema: pa.Schema, widths: Mapping[str, int]) -> pa.Schema:
    """The schema with a field for each element in place of columns of lists of some length."""
    fields: list[pa.Field] = []
    for field in schema:
        if field.name not in widths:
            fields.append(field)
            continue
        kind, metadata = field.type.value_type, {_VECTOR: field.name.encode()}
        names = vector_names(field.name, widths[field.name])
        fields += [pa.field(name, kind, metadata=metadata) for name in names]
    return pa.schema(fields, schema.metadata)


def widths_in(schema: pa.Schema) -> dict[str, int]:
    """Length of each column of lists whose elements are fields of the schema."""
    found: dict[str, int] = {}
    for field in schema:
        name = (field.metadata or {}).get(_VECTOR, b"").decode()
        if name:
            found[name] = found.get(name, 0) + 1
    return found


def with_vectors(columns: Columns, schema: pa.Schema) -> Columns:
    """The roles of columns in which the elements stand for the columns of lists they come from."""
    widths = widths_in(schema)

    def spread(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            element
            for name in names
            for element in (vector_names(name, widths[name]) if name in widths else (name,))
        )

    features = None if columns.features is None else spread(columns.features)
    return replace(columns, features=features, exclude=spread(columns.exclude))


def elements_of(
    column: pa.ChunkedArray, name: str, width: int, positions: Sequence[int], place: Place
) -> Iterator[pa.Array]:
    """Some elements of the lists of a column; those of a null list are missing.

    Raises
    ------
    DataError
        If a list has another length; the message names the row.
    """
    parts: list[NDArray[Any]] = []
    start = 0
    for chunk in column.chunks:
        lengths = pc.list_value_length(chunk).fill_null(width).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != width)
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{place(start + row)}: column {name!r} has a list of length {lengths[row]}, and "
                f"{width} in the first row; a feature vector has one length. Fill the lists up, or "
                f"leave them out with --exclude {name} (Columns(exclude=[...]), for retrain "
                "data.exclude)."
            )
        numbers = arrow_numbers(chunk.drop_null().flatten()).reshape(-1, width)
        if chunk.null_count:
            there = chunk.is_valid().to_numpy(zero_copy_only=False)
            filled = np.full((len(chunk), width), np.nan)
            filled[there] = numbers
            numbers = filled
        parts.append(numbers[:, positions])
        start += len(chunk)
    matrix = np.concatenate(parts) if parts else np.empty((0, len(positions)))
    return (pa.array(np.ascontiguousarray(values)) for values in matrix.T)


def spread_table(
    table: pa.Table, columns: Columns = DEFAULT_COLUMNS, place: Place = row_place
) -> pa.Table:
    """A table in memory with a column for each element of the lists that the caller reads."""
    names = vectors_to_read(table.schema, columns)
    found = {name: width_of(table[name].chunks) for name in names}
    widths = read_widths({name: width for name, width in found.items() if width}, columns)
    if not widths:
        return table
    spread: list[Any] = []
    for name in table.column_names:
        width = widths.get(name)
        if width is None:
            spread.append(table[name])
        else:
            spread += elements_of(table[name], name, width, range(width), place)
    fields = with_elements(table.schema, widths)
    typed = [field.with_type(values.type) for field, values in zip(fields, spread, strict=True)]
    return pa.table(spread, pa.schema(typed, table.schema.metadata))
