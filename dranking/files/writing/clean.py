"""Removal of what killed writers left in a directory of the project."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from dranking.errors import DataError, UsageError
from dranking.files.json_files import SEAL, read_json, unsealed
from dranking.files.places import AnyPlace, Place
from dranking.files.reading import read_bytes
from dranking.files.writing.debris import GRACE, remove_unnamed
from dranking.files.writing.output_checks import (
    MANIFEST_NAME,
    SUCCESS_NAME,
    is_debris,
    is_ours,
    kind_of,
    output_place,
)


def clean(path: AnyPlace, grace: float = GRACE.total_seconds()) -> int:
    """Delete what killed writers left in a directory, and what replaced directories consisted of.

    Parameters
    ----------
    path
        The directory.
    grace
        Seconds since the last write of the writer in question, so that what a live writer makes,
        or an open reader may still use, stays.

    Returns
    -------
    Number of files that were deleted.

    Raises
    ------
    UsageError
        If the directory is not one of the project.
    DataError, TryAgainError
        If there is nothing at the path, the manifest is damaged, or a store refuses access or is
        out of reach.
    """
    target = output_place(path)
    if kind_of(target) != "directory":
        raise DataError(f"{target}: no directory is there.")
    manifest = b""
    for name in (MANIFEST_NAME, SUCCESS_NAME):
        with suppress(FileNotFoundError):
            manifest += read_bytes(target / name)
            _check_whole(target / name)
    if not is_ours(target) and not is_debris(target):
        raise UsageError(f"{target}: was not written by dranking, so nothing in it is deleted.")
    return remove_unnamed(target, manifest, timedelta(seconds=grace))


def _check_whole(manifest: Place) -> None:
    """Raise DataError if a manifest is damaged: it might not name what it named."""
    try:
        content = read_json(manifest)
        if SEAL in content:
            unsealed(content)
    except ValueError as error:
        raise DataError(f"{manifest}: damaged ({error}), so nothing is deleted.") from error
