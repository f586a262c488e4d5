"""Scalings recorded in the metadata of flat tables, so that readers do not scale them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from dranking.data.column_forms import Scaling, Transform
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
            "afterwards; leave it out with --exclude (Columns(exclude=[...]), for retrain "
            "data.exclude)."
        )
    if not transforms:
        return ()
    columns = np.array([position[name] for name in feature_names], dtype=np.intp)
    return tuple(transform.restricted(columns) for transform in transforms)


def transforms_metadata(transforms: Transforms, feature_names: Sequence[str]) -> dict[bytes, bytes]:
    """Metadata entries in the form in which `recorded_transforms` reads them."""
    if not transforms:
        return {}
    return {
        TRANSFORMS_KEY: _TRANSFORMS.dump_json(transforms),
        SCALED_KEY: json.dumps(list(feature_names)).encode(),
    }
