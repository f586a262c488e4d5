"""Steps recorded in the metadata of flat tables, so that readers know how values were made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from dranking.data.column_constants import ColumnConstants, joined_constants
from dranking.data.column_forms import Scaling, Transform
from dranking.data.steps import Steps, constants_of, restricted_steps, scalings_of
from dranking.errors import DataError

CONSTANTS_KEY = b"dranking.constants"
"""Metadata key of origins, and of the values that were filled in for missing ones, as JSON."""

TRANSFORMS_KEY = b"dranking.transforms"
"""Metadata key of the scalings already applied to the values, as JSON."""

FEATURES_KEY = b"dranking.features"
"""Metadata key of the names of the features that the steps were made for, as JSON."""

Schemas: TypeAlias = Sequence[tuple[str, pa.Schema]]
"""Place (a path) and schema with metadata of every table of a data set."""

Transforms: TypeAlias = tuple[Scaling, ...]

_TRANSFORMS: TypeAdapter[Transforms] = TypeAdapter(tuple[Transform, ...])
_NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])


def recorded_steps(schemas: Schemas, feature_names: Sequence[str]) -> Steps:
    """The steps that the tables' metadata records, restricted to some features.

    Raises
    ------
    DataError
        If the record cannot be read, is one of an earlier version, or lacks a feature, or if the
        values of the files are scaled otherwise, or filled with other values for missing ones.
    """
    first_place, first = schemas[0][0], schemas[0][1].metadata or {}
    records: dict[tuple[bytes | None, bytes | None], str] = {}
    for where, schema in schemas:
        metadata = schema.metadata or {}
        if b"dranking.fill" in metadata:  # the key before `CONSTANTS_KEY`
            raise DataError(
                f"{where}: an earlier version of dranking wrote it; write it again with "
                "dranking.write_parquet from its source."
            )
        if first.get(TRANSFORMS_KEY) != metadata.get(TRANSFORMS_KEY) or (
            TRANSFORMS_KEY in first and first.get(FEATURES_KEY) != metadata.get(FEATURES_KEY)
        ):
            raise DataError(
                f"{where}: its values are scaled otherwise than the values of {first_place}; scale "
                "all files of a data set in the same way."
            )
        records.setdefault((metadata.get(CONSTANTS_KEY), metadata.get(FEATURES_KEY)), where)
    given = [
        constants_of(_steps(where, {CONSTANTS_KEY: constants, FEATURES_KEY: names}, feature_names))
        for (constants, names), where in records.items()
    ]
    scalings = scalings_of(_steps(first_place, {**first, CONSTANTS_KEY: None}, feature_names))
    constants = joined_constants(given, feature_names, " and ".join(list(records.values())[:2]))
    return scalings if constants is None else (constants, *scalings)


def _steps(where: str, metadata: dict[bytes, bytes | None], feature_names: Sequence[str]) -> Steps:
    """The steps in the metadata of one table, restricted to some features."""
    constants, transforms = metadata.get(CONSTANTS_KEY), metadata.get(TRANSFORMS_KEY)
    if constants is None and transforms is None:
        return ()
    try:
        values = () if constants is None else (ColumnConstants.model_validate_json(constants),)
        steps: Steps = (*values, *_TRANSFORMS.validate_json(transforms or b"[]"))
        names = _NAMES.validate_json(metadata.get(FEATURES_KEY) or b"[]")
    except ValidationError as error:
        raise DataError(
            f"{where}: the record of its scalings and of its values for missing ones cannot be "
            f"read; a newer version of dranking may have written it ({error.error_count()} "
            f"problems, first: {error.errors()[0]['msg']})."
        ) from error
    position = {name: i for i, name in enumerate(names)}
    unknown = [name for name in feature_names if name not in position]
    if steps and unknown:
        raise DataError(
            f"{where}: its values are scaled or filled in, but column {unknown[0]!r} was added "
            "afterwards; leave it out with --exclude (Columns(exclude=[...]), for retrain "
            "data.exclude)."
        )
    columns = np.array([position[name] for name in feature_names], dtype=np.intp)
    return restricted_steps(steps, columns)


def steps_metadata(steps: Steps, feature_names: Sequence[str]) -> dict[bytes, bytes]:
    """Metadata entries in the form in which `recorded_steps` reads them."""
    constants, scalings = constants_of(steps), scalings_of(steps)
    entries = {}
    if constants is not None:
        entries[CONSTANTS_KEY] = constants.model_dump_json().encode()
    if scalings:
        entries[TRANSFORMS_KEY] = _TRANSFORMS.dump_json(scalings)
    return {**entries, FEATURES_KEY: json.dumps(list(feature_names)).encode()} if entries else {}
