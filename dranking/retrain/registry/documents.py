"""JSON files of a registry: each has a digest of its own content, and is checked when read."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dranking.errors import DataError, problems_in
from dranking.files.json_files import parse_json, sealed_json, unsealed
from dranking.retrain.registry.storage import Storage

M = TypeVar("M", bound=BaseModel)


def sealed(content: BaseModel) -> bytes:
    """Content of a JSON file, with its digest."""
    return sealed_json(content.model_dump(mode="json"), indent=1)


class Documents:
    """The JSON files in the storage of a registry."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def write(self, name: str, content: BaseModel) -> None:
        """Write or replace a file, whole or not at all."""
        self._storage.write(name, sealed(content))

    def read(self, kind: type[M], name: str) -> M | None:
        """Content of a file; None if there is no such file.

        Raises
        ------
        DataError
            If the file is damaged, or of a schema that an older dranking wrote.
        """
        content = self._storage.read(name)
        if content is None:
            return None
        try:
            entries = unsealed(parse_json(content))
        except ValueError as error:
            raise DataError(
                f"{self._storage}: {name}: damaged, {error}. Restore the file from a copy."
            ) from error
        schema, written = kind.model_fields.get("schema_version"), entries.get("schema_version")
        if schema is not None and isinstance(written, int) and written < schema.default:
            raise DataError(
                f"{self._storage}: {name}: schema {written} is older than what this dranking reads "
                f"({schema.default}); begin a new registry, or go on with the dranking that wrote "
                "this one."
            )
        try:
            # The text is validated, as JSON has no times and no tuples.
            return kind.model_validate_json(json.dumps(entries))
        except ValidationError as error:
            raise DataError(f"{self._storage}: {name}: {problems_in(error, 'file')}.") from error
