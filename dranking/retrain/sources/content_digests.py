"""Digests of the content of files, computed anew only for files that may have changed.

Size and modification time do not identify a content: copying and `touch` set both. The change time
of a file and its inode cannot be set, so a digest is taken from the last run only if these are
unchanged, too; an object store gives its own tag of the content.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from dranking.errors import DataError
from dranking.files.places import Place
from dranking.files.reading import check_regular, list_files, open_input, read_bytes
from dranking.files.requests import request
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.names import MANIFEST_NAME

DIGESTS_NAME = "digests.json"
CHUNK_BYTES = 1 << 20
YOUNG_SECONDS = 2.0
"""A file this young may change again within the resolution of its change time."""

Stamp: TypeAlias = list[int | str]
_Known: TypeAlias = dict[str, tuple[Stamp, Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]]]


class ContentDigests:
    """Digests of the content of files and folders.

    Parameters
    ----------
    file
        File with the digests of earlier runs. A file that is missing or damaged costs time only.
    """

    def __init__(self, file: Place) -> None:
        self._file = file
        self._known = _read(file)
        self._used: _Known = {}

    def of(self, place: Place) -> str:
        """32 hex digits, BLAKE2b of a file's content, or of names and contents in a folder.

        In a folder with a manifest, only the manifest is looked at: it has the checksums.

        Raises
        ------
        DataError
            If a file cannot be read, or is no regular file.
        """
        try:
            if not request(place, place.is_dir):
                return self._of_file(place)
            manifest = place / MANIFEST_NAME
            if request(manifest, manifest.is_file):
                return self._of_file(manifest)
            inside = list_files(place)
            start = len(str(place))
            digests = [(str(file)[start:], self._of_file(file)) for file in inside]
        except OSError as error:
            raise DataError(f"{place}: cannot be read ({error.strerror or error}).") from error
        return hashlib.blake2b(repr(digests).encode(), digest_size=16).hexdigest()

    def save(self) -> None:
        """Write the digests that were asked for, except those of young files."""
        now = time.time()
        kept = {
            name: (stamp, digest)
            for name, (stamp, digest) in self._used.items()
            if isinstance(stamp[-1], str) or now - int(stamp[-1]) / 1e9 > YOUNG_SECONDS
        }
        atomic_write(self._file, json.dumps(kept), overwrite=True)

    def _of_file(self, file: Place) -> str:
        stamp = _stamp(file)
        known = self._known.get(str(file))
        if known is None or known[0] != stamp:
            with open_input(file) as content:
                digest = hashlib.blake2b(digest_size=16)
                while chunk := content.read(CHUNK_BYTES):
                    digest.update(chunk)
            known = (stamp, digest.hexdigest())
        self._used[str(file)] = self._known[str(file)] = known
        return known[1]


def _stamp(file: Place) -> Stamp:
    """Size, inode and times of a file, or its tags; they change whenever its content changes."""
    check_regular(file)
    if isinstance(file, Path):
        status = file.stat()
        return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
    facts: dict[str, Any] = request(file, lambda: file.fs.info(file.path))
    tags = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "mtime", "created")
    return [int(facts.get("size") or 0), *(str(facts[tag]) for tag in tags if tag in facts), ""]


def _read(file: Place) -> _Known:
    try:
        return TypeAdapter(_Known).validate_json(read_bytes(file))
    except (OSError, ValidationError):
        return {}
