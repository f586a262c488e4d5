"""Column layout and recorded scalings in the schemas and metadata of parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from dranking.data.tables.columns import Layout, Roles, find_layout, value_type
from dranking.data.tables.ids import is_text
from dranking.data.transforms import Scaling, Transform
from dranking.errors import DataError

TRANSFORMS_KEY = b"dranking.transforms"
"""Metadata key of the scalings already applied to the values, as JSON."""

SCALED_KEY = b"dranking.scaled-features"
"""Metadata key of the names of the features that the scalings were made for, as JSON."""

Schemas: TypeAlias = Sequence[tuple[str, pa.Schema]]
"""Place (a path) and schema with metadata of every table of a data set."""

Transforms: TypeAlias = tuple[Scaling, ...]

_TRANSFORMS: TypeAdapter[Transforms] = TypeAdapter(tuple[Transform, ...])
_NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])


def common_layout(schemas: Schemas, feature_columns: Sequence[str] | None) -> Layout:
    """Roles of the columns, equal in all files, with the features in the order of the first file.

    Raises
    ------
    DataError
        If columns are missing, of a wrong type, or not the same in all files.
    UsageError
        If `feature_columns` names a column twice, or a column that has another role.
    """
    layouts = [
        (where, find_layout(schema, Roles(), feature_columns, where)) for where, schema in schemas
    ]
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
        doc_id_is_text=first.roles.doc_id is not None and _is_text(schemas, first.roles.doc_id),
    )


def recorded_transforms(schemas: Schemas, feature_names: Sequence[str]) -> Transforms:
    """Scalings that the tables' metadata records, restricted to some features.

    Raises
    ------
    DataError
        If the record cannot be read, is not the same in all files, or lacks a feature.
    """
    first_place, first = schemas[0][0], schemas[0][1].metadata or {}
    for where, schema in schemas[1:]:
        other = schema.metadata or {}
        if any(first.get(key) != other.get(key) for key in (TRANSFORMS_KEY, SCALED_KEY)):
            raise DataError(
                f"{where}: its values are scaled otherwise than the values of {first_place}; scale "
                "all files of a data set in the same way."
            )
    if TRANSFORMS_KEY not in first:
        return ()
    try:
        transforms = _TRANSFORMS.validate_json(first[TRANSFORMS_KEY])
        names = _NAMES.validate_json(first.get(SCALED_KEY, b"[]"))
    except ValidationError as error:
        raise DataError(
            f"{first_place}: the record of its scalings cannot be read; a newer version of "
            f"dranking may have written it ({error.error_count()} problems, first: "
            f"{error.errors()[0]['msg']})."
        ) from error
    position = {name: i for i, name in enumerate(names)}
    unknown = [name for name in feature_names if name not in position]
    if transforms and unknown:
        raise DataError(
            f"{first_place}: its values are scaled, but column {unknown[0]!r} was added "
            "afterwards; name the features with feature_columns=, without it."
        )
    if not transforms:
        return ()
    columns = np.array([position[name] for name in feature_names], dtype=np.intp)
    return tuple(transform.restricted(columns) for transform in transforms)


def transforms_metadata(transforms: Transforms, feature_names: Sequence[str]) -> dict[bytes, bytes]:
    """Metadata that `recorded_transforms` reads."""
    if not transforms:
        return {}
    return {
        TRANSFORMS_KEY: _TRANSFORMS.dump_json(transforms),
        SCALED_KEY: json.dumps(list(feature_names)).encode(),
    }


def _difference(first: Layout, other: Layout) -> str:
    """How the columns of a file differ from the first file's columns; empty if they do not."""
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
    """Whether a column of ids holds strings, which must be so in all files or in none."""
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
