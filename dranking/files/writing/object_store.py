"""Writing objects behind URLs: one request each, on a condition where one is asked for.

| store | only if absent | only if unchanged |
| --- | --- | --- |
| S3 (s3fs from 2025.9) | ``If-None-Match: *`` | ``If-Match`` on the ETag |
| Azure (adlfs) | ``overwrite=False`` | ``If-Match`` on the ETag |
| Google (gcsfs) | ``ifGenerationMatch=0`` | compared right before the write |
| others | the client's exclusive mode, or compared right before | compared right before the write |

A comparison right before the write excludes other threads of the process; of two processes that
write within the same milliseconds the later one wins, without an error. s3fs before July 2025
ignored the condition of small objects. An S3 server that does not know a condition either refuses
the request, which is an error here, or ignores the condition, as the last column says.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from upath import UPath

from dranking.files.reading import at_once, read_bytes
from dranking.files.requests import ChangedError, request

_alone = threading.Lock()


class StoredObject(NamedTuple):
    """An object in a listing.

    Attributes
    ----------
    name
        Path relative to the folder that was listed.
    modified
        Time of the last write; None if the store does not tell.
    """

    name: str
    modified: datetime | None


def version(place: UPath) -> str | None:
    """The ETag of an object, or a digest: it differs for any other content; None without an object.

    Raises
    ------
    DataError, TryAgainError
        If the store refuses, or is out of reach.
    """
    try:
        found = request(place, lambda: place.fs.info(place.path))
        if found["type"] != "file":
            return None
        for name in ("ETag", "etag", "generation"):
            if found.get(name):
                return str(found[name])
        return hashlib.blake2b(read_bytes(place)).hexdigest()
    except FileNotFoundError:
        return None


def put(place: UPath, content: bytes | Path) -> None:
    """Write or replace an object; a path stands for the content of a local file."""
    request(place, lambda: _send(place, content))


def put_if_absent(place: UPath, content: bytes | Path) -> None:
    """Write an object, in one request that fails if there is one.

    Raises
    ------
    ChangedError
        If there is an object of other content.
    """
    try:
        with _alone:
            return request(place, lambda: _send(place, content, mode="create"))
    except ChangedError as error:
        changed = error
    # The answer to a first attempt may have been lost after the store obeyed. Outside the `except`
    # block: errors of reading must not have the refusal as their context.
    if not _is_there(place, content):
        raise changed


def put_if_unchanged(place: UPath, content: bytes, expected: str | None) -> None:
    """Replace an object, in one request that fails if its `version` is not the expected one.

    Raises
    ------
    ChangedError
        If the object has another version, or is gone.
    """
    if expected is None:
        return put_if_absent(place, content)
    try:
        with _alone:
            return request(place, lambda: _replace(place, content, expected))
    except (ChangedError, FileNotFoundError) as error:
        changed = error
    if _is_there(place, content):
        return None
    bare = expected.strip('"')
    # A server that compares ETags without their quotes (radosgw) refuses the right one in quotes.
    if bare != expected and version(place) == expected:
        return put_if_unchanged(place, content, bare)
    raise ChangedError(str(place)) from changed


def put_files(folder: Path, place: UPath) -> None:
    """Write all files of a local folder as objects of the same relative names."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    at_once(lambda file: put(place / file.relative_to(folder).as_posix(), file), files)


def list_objects(place: UPath) -> list[StoredObject]:
    """All objects whose names begin with a folder's, sorted by name."""
    found = request(place, lambda: place.fs.find(place.path, detail=True))
    root = place.path.rstrip("/") + "/"
    return [
        StoredObject(name.removeprefix(root), _time_of(found[name]))
        for name in sorted(found)
        if name.startswith(root)
    ]


def remove(place: UPath, names: Iterable[str]) -> None:
    """Delete objects in a folder by their relative names; absent objects are passed over."""
    at_once(lambda name: _remove_one(place / name), list(names))


def _remove_one(place: UPath) -> None:
    try:
        request(place, lambda: place.fs.rm_file(place.path))
    except FileNotFoundError:
        pass


def _send(place: UPath, content: bytes | Path, **condition: Any) -> None:
    if isinstance(content, Path):
        place.fs.put_file(str(content), place.path, **condition)
    else:
        place.fs.pipe_file(place.path, content, **condition)


def _replace(place: UPath, content: bytes, expected: str) -> None:
    if place.protocol in ("s3", "s3a"):
        return _send(place, content, IfMatch=expected)
    if place.protocol in ("abfs", "abfss", "az"):
        from azure.core import MatchConditions

        condition = {"etag": expected, "match_condition": MatchConditions.IfNotModified}
        return _send(place, content, overwrite=True, **condition)
    if version(place) != expected:
        raise ChangedError(str(place))
    return _send(place, content)


def _is_there(place: UPath, content: bytes | Path) -> bool:
    wanted = content.read_bytes() if isinstance(content, Path) else content
    try:
        return read_bytes(place) == wanted
    except FileNotFoundError:
        return False


def _time_of(info: dict[str, Any]) -> datetime | None:
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        time = info.get(name)
        if isinstance(time, (int, float)):
            return datetime.fromtimestamp(time, UTC)
        if isinstance(time, datetime):
            return time if time.tzinfo else time.replace(tzinfo=UTC)
    return None
