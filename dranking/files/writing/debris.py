"""Parts of directories: their names, and the removal of those that no manifest names.

A part of a directory that many tasks write is a file or folder with its writer's token in its name.
The scratch files of a job are parts too, with a token of their own that no manifest ever names; in
a place that the caller names for them, they lie in a folder with this token.
The part counts if the manifest names it (`names.is_named`). Other parts belong to
a writer that is still at work, to one that was killed, or to a directory that was replaced and that
an open reader may still use; they are removed when none of their token was written for a week. The
clock is that of the place, which dates the parts, because that of this machine may be wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from dranking.files.places import Place, is_local
from dranking.files.requests import request
from dranking.files.writing.names import (
    MANIFEST_NAME,
    MANIFESTS,
    UNFINISHED,
    is_job_folder,
    is_left,
    is_named,
    names_in,
    new_token,
    part_of,
    token_of,
)
from dranking.files.writing.object_store import StoredObject, list_objects, put, remove

GRACE = timedelta(days=7)
"""Time for which parts that no manifest names are left alone."""


def job_folders(place: Place) -> list[Place]:
    """The folders of `job_folder` that are in a place.

    Raises
    ------
    DataError, TryAgainError
        If a store refuses access or is out of reach.
    """
    children: list[Place] = request(place, lambda: list(place.iterdir()))
    found = [child for child in children if is_job_folder(child.name)]
    return [each for each in found if not is_local(each) or _is_real_folder(each)]


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


class Listing(NamedTuple):
    """The files of a directory, and the time at which they were listed, by the place's clock."""

    files: list[StoredObject]
    now: datetime


def listing_of(place: Place) -> Listing:
    """The files of a directory to which something has just been written.

    The newest file shows the time there; if the clock of this machine is behind, its time counts,
    by which fewer parts are old.
    """
    files, now = _files(place), datetime.now(UTC)
    newest = max((file.modified for file in files if file.modified is not None), default=now)
    return Listing(files, min(now, newest))


def marked_listing(place: Place) -> Listing:
    """The files of a directory, at a time that a file shows which is written there meanwhile."""
    name = f".{new_token()}-now"
    _touch(place / name)
    try:
        found = listing_of(place)
    finally:
        _remove(place, [name])
    return found._replace(files=[file for file in found.files if file.name != name])


def missing_parts(place: Place, token: str, manifest: bytes, given: Iterable[str]) -> list[str]:
    """Names of the parts of a writer, given or named by a manifest, that are not there.

    A manifest may name the token in place of all parts that have it; such parts are given. A file
    of the writer is written first, so that none of its parts is old for those who list the
    directory afterwards.
    """
    mark_alive(place, token)
    parts = [part for file in _files(place) if (part := part_of(file.name))]
    there = {name for name, its_token in parts if its_token == token}
    if there > {_alive(token)}:
        there.add(token)
    named = names_in(manifest) | {part.rpartition("/")[2] for part in given}
    return sorted(name for name in named if token in name and name not in there)


def mark_alive(place: Place, token: str) -> None:
    """Write a file of a writer, which shows that the writer may write and is at work."""
    _touch(place / _alive(token))


def forget_alive(place: Place, token: str) -> None:
    """Delete the file of `mark_alive`."""
    _remove(place, [_alive(token)])


def _alive(token: str) -> str:
    return f".{token}-alive"


def _touch(place: Place) -> None:
    """Write an empty file."""
    if is_local(place):
        place.touch()
    else:
        put(place, b"")


def remove_unnamed(
    place: Place, listing: Listing, manifest: bytes, grace: timedelta = GRACE
) -> int:
    """Delete the parts of a directory that its manifest does not name and that are old enough.

    Parameters
    ----------
    place, listing
        The directory, and the files that were there before the manifest was read.
    manifest
        Content of its manifest; empty if there is none.
    grace
        Least time since the last part of a writer was written.

    Returns
    -------
    Number of files that were deleted.
    """
    return _remove_old(place, listing, names_in(manifest), grace)


def remove_scratch(place: Place, grace: timedelta = GRACE) -> int:
    """Delete the scratch files in the folders of `job_folders` that are old enough.

    Returns
    -------
    Number of files that were deleted.

    Raises
    ------
    DataError, TryAgainError
        If a store refuses access or is out of reach.
    """
    n_removed = 0
    for folder in job_folders(place):
        with suppress(FileNotFoundError):  # its job has just ended
            files, now = marked_listing(folder)
            parts = [StoredObject(f"{folder.name}/{part.name}", part.modified) for part in files]
            n_removed += _remove_old(place, Listing(parts, now), set(), grace)
    return n_removed


def remove_token(place: Place, token: str) -> None:
    """Delete the parts of one writer."""
    _remove(place, [file.name for file in _files(place) if token_of(file.name) == token])


def is_debris(place: Place) -> bool:
    """Whether a folder of an object store holds what killed writers left, and nothing else."""
    if is_local(place):
        return False
    return all(is_left(file.name) for file in list_objects(place))


def is_of_parts(directory: Path) -> bool:
    """Whether a local directory holds a manifest and parts."""
    names = {file.name for file in _files(directory)}
    return MANIFEST_NAME in names and any(map(part_of, names))


def _remove_old(place: Place, listing: Listing, named: Set[str], grace: timedelta) -> int:
    """Delete the parts that are not named and that are old enough; return their number."""
    others = {folder for file in listing.files if (folder := _folder_of_manifest(file.name))}
    unnamed: dict[str, list[StoredObject]] = {}
    for file in listing.files:
        part = part_of(file.name)
        if part is None or any(file.name.startswith(folder) for folder in others):
            continue
        is_hidden = UNFINISHED in file.name or part[0].startswith(".")  # unfinished, or a marker
        if is_hidden or not is_named(part, named):
            unnamed.setdefault(part[1], []).append(file)
    limit = listing.now - grace
    old = [
        file.name
        for files in unnamed.values()
        if not grace or _is_old(files, limit)  # without grace, clocks do not matter
        for file in files
    ]
    _remove(place, old)
    return len(old)


def _folder_of_manifest(name: str) -> str | None:
    """The folder of a manifest that lies below a directory and belongs to another directory."""
    folder, slash, last = name.rpartition("/")
    return folder + slash if slash and last in MANIFESTS else None


def _is_old(parts: Iterable[StoredObject], limit: datetime) -> bool:
    times = [part.modified for part in parts]
    return all(time is not None and time <= limit for time in times)


def _files(place: Place) -> list[StoredObject]:
    """Files of a directory, and local folders without content."""
    if not is_local(place):
        return list_objects(place)
    found = []
    for folder, folders, files in os.walk(place):  # passes over folders that vanish meanwhile
        links = [name for name in folders if Path(folder, name).is_symlink()]
        paths = [Path(folder, name) for name in (*files, *links)]
        if not files and not folders:
            paths.append(Path(folder))
        for path in paths:
            with suppress(FileNotFoundError):  # another writer may remove the same debris
                time = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
                found.append(StoredObject(path.relative_to(place).as_posix(), time))
    return found


def _remove(place: Place, names: list[str]) -> None:
    if not is_local(place):
        return remove(place, names)
    for name in names:
        with suppress(OSError):
            (place / name).unlink()
    for folder in sorted({f for name in names for f in (Path(name), Path(name).parent)})[::-1]:
        while folder != Path("."):
            with suppress(OSError):  # folders that are not empty stay
                (place / folder).rmdir()
            folder = folder.parent
