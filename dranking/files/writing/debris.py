"""Parts of directories: their names, and the removal of those that no manifest names.

A part of a directory that many tasks write is a file or folder with its writer's token in its name.
The part counts if its name, or the token alone, stands in the manifest. Other parts belong to
a writer that is still at work, to one that was killed, or to a directory that was replaced and that
an open reader may still use; they are removed when none of their token was written for a week.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dranking.files.places import Place, is_local
from dranking.files.writing.object_store import StoredObject, list_objects, remove

GRACE = timedelta(days=7)
"""How long parts that no manifest names are left alone."""

_WORD = re.compile(r"[\w.-]{16,}")
_TOKEN = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{16}(?![0-9a-zA-Z])")

# Where parts lie: what `DirectoryCommit.name` names, files of scores, and the folder of a directory
# that was filled locally; the leading period is that of unfinished files.
_PART = re.compile(
    r"(?:(?:segments|blocks|parts)/)?"
    r"(?P<name>\.?(?P<prefix>part-\d+-)?(?P<token>[0-9a-f]{16})"
    r"(?(prefix)(?:\.[\w.-]*)?|(?:-[\w.-]*|(?=/))))(?:/.*)?",
    re.DOTALL,
)
_MANIFESTS = {"manifest.json", "_SUCCESS"}


def new_token() -> str:
    """A name that nobody has: 16 hex digits."""
    return secrets.token_hex(8)


def token_of(name: str) -> str | None:
    """The token in the path of a part's file; None for a file of another kind."""
    found = _PART.fullmatch(name)
    return found["token"] if found else None


def remove_token(place: Place, token: str) -> None:
    """Delete the parts of one writer."""
    _remove(place, [found.name for found in _parts(place) if token_of(found.name) == token])


def remove_unnamed(place: Place, manifest: bytes, grace: timedelta = GRACE) -> int:
    """Delete the parts of a directory that its manifest does not name and that are old enough.

    Parameters
    ----------
    place
        The directory.
    manifest
        Content of its manifest; empty if there is none.
    grace
        How long ago the last part of a writer must have been written.

    Returns
    -------
    Number of files that were deleted.
    """
    named = names_in(manifest)
    found = _parts(place)
    others = {folder for part in found if (folder := _folder_of_manifest(part.name))}
    unnamed: dict[str, list[StoredObject]] = {}
    for part in found:
        match = _PART.fullmatch(part.name)
        if match is None or any(part.name.startswith(folder) for folder in others):
            continue
        if ".tmp-" in part.name or not {match["name"], match["token"]} & named:
            unnamed.setdefault(match["token"], []).append(part)
    names = [part.name for parts in unnamed.values() if _is_old(parts, grace) for part in parts]
    _remove(place, names)
    return len(names)


def names_in(manifest: bytes) -> set[str]:
    """Names of parts, and tokens by themselves, in the text of a manifest."""
    # One expression for both would try every beginning of every word.
    words = _WORD.findall(manifest.decode(errors="replace"))
    return {word for word in words if _TOKEN.search(word)}


def token_in(name: str) -> str:
    """The token in a name of `names_in`."""
    return str(_TOKEN.findall(name)[0])


def _folder_of_manifest(name: str) -> str | None:
    """The folder of a manifest that lies below a directory and belongs to another directory."""
    folder, slash, last = name.rpartition("/")
    return folder + slash if slash and last in _MANIFESTS else None


def _is_old(parts: Iterable[StoredObject], grace: timedelta) -> bool:
    times = [part.modified for part in parts]
    limit = datetime.now(UTC) - grace
    return all(time is not None and time <= limit for time in times)


def _parts(place: Place) -> list[StoredObject]:
    if not is_local(place):
        return list_objects(place)
    found = []
    for folder, folders, files in os.walk(place):  # passes over folders that vanish meanwhile
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for file in (Path(folder, name) for name in (*files, *links)):
            with suppress(FileNotFoundError):  # another writer may remove the same debris
                time = datetime.fromtimestamp(file.lstat().st_mtime, UTC)
                found.append(StoredObject(file.relative_to(place).as_posix(), time))
    return found


def _remove(place: Place, names: list[str]) -> None:
    if not is_local(place):
        return remove(place, names)
    for name in names:
        with suppress(OSError):
            (place / name).unlink()
    for folder in sorted({Path(name).parent for name in names}, reverse=True):
        while folder != Path("."):
            with suppress(OSError):  # folders that are not empty stay
                (place / folder).rmdir()
            folder = folder.parent
