"""Checks of a place of output: what is there, and whether it may be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.json_files import read_json
from dranking.files.places import NAME_BYTES, AnyPlace, Place, as_place, is_local
from dranking.files.reading import exists
from dranking.files.requests import ChangedError, request
from dranking.files.writing.debris import is_debris
from dranking.files.writing.local_output import explained, restore
from dranking.files.writing.names import MANIFEST_NAME, SUCCESS_NAME

FORMAT_PREFIX = "dranking-"
"""Beginning of the "format" entry in the manifest of every directory of the project."""

TEMPORARY_BYTES = 48
"""Bytes that a temporary name, or that of a lock, has beyond the name of the output."""


def check_output_file(path: AnyPlace, overwrite: bool) -> None:
    """Check, before any work, that a file may be written at a path.

    Raises
    ------
    UsageError
        If the path is a directory, or exists and `overwrite` is false.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = output_place(path)
    _check_name(target)
    kind = kind_of(target)
    if kind == "directory":
        raise UsageError(f"{target}: is a directory; give the path of a file.")
    if kind is not None and not overwrite:
        raise already_exists(target)


def check_output_directory(path: AnyPlace, overwrite: bool) -> None:
    """Check, before any work, that a directory may be written at a path.

    Raises
    ------
    UsageError
        If the path is a file, exists and `overwrite` is false, or is a directory that is neither
        empty nor the project's.
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = output_place(path)
    _check_name(target)
    restore_interrupted(target)
    kind = kind_of(target)
    if kind is None:
        return
    if kind == "file":
        raise UsageError(f"{target}: is a file; give the path of a directory.")
    ours = is_ours(target)
    if not ours and is_debris(target):
        return
    if not overwrite:
        raise already_exists(target)
    if not ours and not _is_empty(target):
        raise UsageError(
            f"{target}: was not written by dranking (no {MANIFEST_NAME} of its own), so it "
            "is not overwritten. Give another path, or delete it yourself."
        )


def is_written(path: AnyPlace) -> bool:
    """Whether a directory is at a place; in an object store, one with a manifest.

    Raises
    ------
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    target = output_place(path)
    restore_interrupted(target)
    return target.exists() if is_local(target) else exists(target / MANIFEST_NAME)


def restore_interrupted(path: AnyPlace) -> None:
    """Restore a local directory whose replacement was killed between its two renames.

    Does nothing if the path exists, or if the process that replaces the directory may be alive.
    """
    target = output_place(path)
    if is_local(target):
        restore(target)


def manifest_format(directory: Place) -> str | None:
    """Entry "format" of a directory's manifest; None if there is no readable manifest.

    Raises
    ------
    DataError, TryAgainError
        If a store refuses access, or is out of reach.
    """
    for name in (MANIFEST_NAME, SUCCESS_NAME):
        try:
            content = read_json(directory / name)
        except DataError:
            if not is_local(directory):
                raise
        except (OSError, ValueError):
            pass
        else:
            return str(content.get("format")) if isinstance(content, dict) else None
    return None


def is_ours(directory: Place) -> bool:
    """Whether a directory has a manifest of the project, of any version."""
    return (manifest_format(directory) or "").startswith(FORMAT_PREFIX)


def output_place(path: AnyPlace) -> Place:
    """The place without links: output replaces the target of a link, not the link."""
    place = as_place(path)
    return place.resolve() if isinstance(place, Path) else place


def kind_of(target: Place) -> str | None:
    """Whether a "file" or a "directory" is at a place; None if nothing is."""
    if is_local(target):
        with explained(target):
            return "directory" if target.is_dir() else "file" if target.exists() else None
    try:
        return str(request(target, lambda: target.fs.info(target.path))["type"])
    except FileNotFoundError:
        return None


def _is_empty(target: Place) -> bool:
    return is_local(target) and not any(target.iterdir())


def _check_name(target: Place) -> None:
    """Raise UsageError if the name leaves no room for the temporary names that are made of it."""
    longest = NAME_BYTES - TEMPORARY_BYTES
    n_bytes = len(target.name.encode())
    if is_local(target) and n_bytes > longest:
        raise UsageError(
            f"{target}: the name has {n_bytes} bytes. Output is written under a longer name first, "
            f"so give a name of at most {longest}."
        )


@contextmanager
def changed_meanwhile(target: Place, may_exist: bool) -> Iterator[None]:
    """Explain that another process wrote to the place since the work on it began."""
    try:
        yield
    except ChangedError as error:
        if may_exist:
            raise was_changed(target) from error
        raise already_exists(target) from error


def already_exists(target: Place) -> UsageError:
    """The error for a place where something is already."""
    return UsageError(
        f"{target}: exists already. Pass --overwrite (in Python overwrite=True) to replace it."
    )


def was_changed(target: Place) -> TryAgainError:
    """The error for a place that another process changed meanwhile."""
    return TryAgainError(
        f"{target}: another process wrote it meanwhile. Nothing was changed; run again."
    )
