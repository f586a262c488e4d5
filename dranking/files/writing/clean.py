"""Removal of what killed writers left in a directory of the project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from dranking.errors import DataError, UsageError
from dranking.files.json_files import SEAL, read_json, unsealed
from dranking.files.places import AnyPlace, Place, is_local
from dranking.files.reading import read_bytes
from dranking.files.writing.debris import (
    GRACE,
    is_debris,
    job_folders,
    marked_listing,
    remove_scratch,
    remove_unnamed,
)
from dranking.files.writing.local_output import (
    GRACE_SECONDS,
    clear_beside,
    leftovers_of_any,
    remove_leftovers,
)
from dranking.files.writing.locks import locked_file
from dranking.files.writing.names import MANIFEST_NAME, PART_FOLDERS, SUCCESS_NAME, lock_of
from dranking.files.writing.output_checks import is_ours, kind_of, output_place


def clean(path: AnyPlace, grace: float = GRACE.total_seconds()) -> int:
    """Delete what killed writers left of an output, and what replaced directories consisted of.

    Parts of a killed append or overwrite lie among those of the directory, which stays as it was.
    Of a directory that is not one of the project, only scratch files of the project are deleted.
    On a local disk, unfinished output of processes that have ended is deleted at any age, beside
    the output and in it; a directory whose replacement was killed amid its renames is restored.

    Parameters
    ----------
    path
        The output, also one that was never finished, or a place of scratch files that jobs were
        given.
    grace
        Seconds since the last write of the writer in question, so that what a live writer makes,
        or an open reader may still use, stays.

    Returns
    -------
    Number of files that were deleted.

    Raises
    ------
    UsageError
        If the directory is not one of the project, and has no scratch files of the project.
    DataError, TryAgainError
        If there is nothing at the path, the manifest is damaged, another process appends to a local
        directory, or a store refuses access or is out of reach.
    """
    target = output_place(path)
    n_beside = clear_beside(target, grace) if is_local(target) else 0
    if kind_of(target) != "directory":
        if n_beside:
            return n_beside
        raise DataError(f"{target}: no directory is there.{_begun(target)}")
    return n_beside + _clean_directory(target, timedelta(seconds=grace))


def _clean_directory(target: Place, grace: timedelta) -> int:
    """Delete what killed writers left in a directory; return the number of files."""
    _whole_manifest(target)
    if not is_ours(target) and not is_debris(target):
        if job_folders(target):
            with _explained(target):
                return remove_scratch(target, grace)
        raise UsageError(
            f"{target}: was not written by dranking and holds no scratch files of dranking, so "
            "nothing in it is deleted."
        )
    with _alone(target), _explained(target):
        n_unfinished = remove_leftovers(target) if is_local(target) else 0
        listing = marked_listing(target)
        # A writer that has finished meanwhile is in the manifest, so this is read last.
        n_removed = remove_unnamed(target, listing, _whole_manifest(target), grace)
        if is_local(target):
            _remove_empty_folders(target)
        return n_unfinished + n_removed


def _begun(target: Place) -> str:
    """A sentence on output that was begun beside a local target and may be of a live process."""
    begun = leftovers_of_any(target) if is_local(target) else []
    if not begun:
        return ""
    hours = GRACE_SECONDS["tmp"] / 3600
    return (
        f" The writer of {begun[0].name} may be alive; that is deleted when the process has ended, "
        f"or {hours:g} hours after its last change."
    )


def _remove_empty_folders(target: Path) -> None:
    """Remove the folders that an append made and has put nothing into."""
    for name in PART_FOLDERS:
        with suppress(OSError):  # of the data set, and not empty
            (target / name).rmdir()


@contextmanager
def _alone(target: Place) -> Iterator[None]:
    """Hold the lock of a local directory, which a writer that stands still holds too."""
    if not is_local(target):
        yield
        return
    with locked_file(
        lock_of(target), f"{target}: another process is changing it, so nothing is deleted"
    ):
        yield


@contextmanager
def _explained(target: Place) -> Iterator[None]:
    """Turn errors of the operating system into a `UsageError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{target}: cannot be cleaned ({error.strerror}). Files there must be yours to delete."
        ) from error


def _whole_manifest(target: Place) -> bytes:
    """The content of the manifests of a directory; empty without any.

    Raises
    ------
    DataError
        If a manifest is damaged.
    """
    content = b""
    for name in (MANIFEST_NAME, SUCCESS_NAME):
        with suppress(FileNotFoundError):
            content += read_bytes(target / name)
            _check_whole(target / name)
    return content


def _check_whole(manifest: Place) -> None:
    """Raise DataError if a manifest is damaged: it might not name what it named."""
    try:
        content = read_json(manifest)
        if SEAL in content:
            unsealed(content)
    except ValueError as error:
        raise DataError(f"{manifest}: damaged ({error}), so nothing is deleted.") from error
