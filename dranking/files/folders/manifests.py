"""Reading the manifest of a directory, and the errors of a manifest that cannot be used."""

from __future__ import annotations

import json
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from dranking.errors import DataError, problems_in
from dranking.files.json_files import MAX_JSON_BYTES, parse_json, unsealed
from dranking.files.places import Place, is_local
from dranking.files.reading import exists, file_size, read_bytes
from dranking.files.requests import request
from dranking.files.writing.names import (
    MANIFEST_NAME,
    is_named,
    manifest_digest,
    names_in,
    part_of,
)

Manifest = TypeVar("Manifest", bound=BaseModel)


class OlderSchemaError(DataError):
    """A directory was written in an older schema, which this version no longer reads."""


class DirectoryKind(NamedTuple):
    """A kind of directory, such as a data set or a statistics store.

    Attributes
    ----------
    name
        Name of such a directory in errors.
    format, schema_version
        Entries that the manifest must have; any other format or version is refused.
    remedy
        A clause on how to make such a directory again; follows "Restore it from a copy, or" in
        errors.
    sealed
        Whether the manifest has a seal, which is compared (`dranking.files.json_files`).
    """

    name: str
    format: str
    schema_version: int
    remedy: str
    sealed: bool = False


def read_manifest(
    directory: Place, model: type[Manifest], kind: DirectoryKind, name: str = MANIFEST_NAME
) -> tuple[Manifest, str]:
    """Read and validate the manifest of a directory.

    Parameters
    ----------
    directory
        The directory.
    model
        Pydantic model of the manifest.
    kind
        The kind that the directory must have.
    name
        Name of the manifest's file.

    Returns
    -------
    manifest
        The validated manifest.
    digest
        `manifest_digest` of the manifest's text.

    Raises
    ------
    OlderSchemaError
        If the manifest has an older schema version than `kind`.
    DataError
        If there is no manifest, or if it is damaged, of another kind, or of a newer schema. The
        message names the entries that are wrong.
    """
    file = directory / name
    text = _read_text(directory, file, kind)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise DataError(
            f"{file}: damaged, {error}. Restore it from a copy, or {kind.remedy}."
        ) from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != kind.format:
        raise DataError(
            f"{file}: not the manifest of a {kind.name} (its 'format' is not '{kind.format}')."
        )
    version = content.get("schema_version")
    if isinstance(version, int) and version > kind.schema_version:
        raise DataError(
            f"{file}: {kind.name} schema {version} is newer than this dranking reads "
            f"({kind.schema_version}); upgrade dranking."
        )
    if isinstance(version, int) and 0 < version < kind.schema_version:
        raise OlderSchemaError(
            f"{file}: {kind.name} schema {version} is older than what this dranking reads "
            f"({kind.schema_version}); {kind.remedy}."
        )
    try:
        entries = json.dumps(unsealed(content)) if kind.sealed else text
        manifest = model.model_validate_json(entries)
    except ValidationError as error:
        raise DataError(f"{file}: {problems_in(error, 'manifest')}.") from error
    except ValueError as error:
        raise DataError(
            f"{file}: damaged, {error}. Restore it from a copy, or {kind.remedy}."
        ) from error
    return manifest, manifest_digest(text)


def changed_since_opened(directory: Place) -> DataError:
    """The error for a directory whose files are gone since it was overwritten, or cleaned."""
    return DataError(f"{directory}: was changed since it was opened. Start the computation again.")


def is_replaced(directory: Place, part: str) -> bool:
    """Whether the manifest of a directory does not name a part that an open reader needs."""
    try:
        named = names_in(read_bytes(directory / MANIFEST_NAME))
    except (OSError, DataError):
        return False
    its_names = part_of(f"{part}/")
    return its_names is not None and not is_named(its_names, named)


def _read_text(directory: Place, file: Place, kind: DirectoryKind) -> bytes:
    if is_local(directory) and request(directory, directory.is_file):
        raise DataError(f"{directory}: not a directory, so not a {kind.name} directory.")
    try:
        size = file_size(file)
        if size > MAX_JSON_BYTES:
            raise DataError(
                f"{file}: larger than {MAX_JSON_BYTES:,} bytes, so not a manifest of dranking."
            )
        return read_bytes(file, 0, size)
    except FileNotFoundError as error:
        if not exists(directory):
            raise DataError(f"{directory}: does not exist.") from error
        remedy = kind.remedy[0].upper() + kind.remedy[1:]
        raise DataError(
            f"{directory}: no {MANIFEST_NAME}: not a {kind.name}, or an interrupted write. "
            f"{remedy}."
        ) from error
