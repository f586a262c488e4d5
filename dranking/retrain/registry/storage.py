"""Storage of a registry: small files by relative names, at any place.

A file appears whole or not at all. A folder counts as complete when its manifest is there, which is
written last. The lock is checked right before every write and removal: a holder that could not
renew its lease in time, or finds the lease of another holder, changes nothing any more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from dranking.errors import DataError
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.reading import list_files, read_bytes
from dranking.files.writing import object_store
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.commit import new_directory
from dranking.files.writing.local_output import remove_leftovers
from dranking.files.writing.locks import locked
from dranking.files.writing.names import MANIFEST_NAME


class Storage:
    """A folder at any place.

    Parameters
    ----------
    location
        A local path, or a URL such as ``s3://bucket/registry``.

    Raises
    ------
    UsageError
        If the URL holds a password, its protocol is unknown, or needs a package that is not
        installed.
    """

    def __init__(self, location: AnyPlace) -> None:
        self.root = as_place(location)
        self._checks: dict[str, Callable[[], None]] = {}

    def __str__(self) -> str:
        return str(self.root)

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is no such file."""
        try:
            return read_bytes(self.root / name)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all."""
        self._check_locks()
        atomic_write(self.root / name, content, overwrite=True)

    def add_folder(self, source: Path, files: Collection[str], name: str, manifest: bytes) -> None:
        """Copy files of a local folder, then ``manifest.json``; incomplete folders are ignored."""
        self._check_locks()
        target = self.root / name
        if not is_local(target):
            self.remove_folder(name)  # what a killed copy left
            for file in files:
                object_store.put(target / file, source / file)
            self.write(f"{name}/{MANIFEST_NAME}", manifest)
            return
        remove_leftovers(target.parent.parent)
        remove_leftovers(target.parent)
        with new_directory(target) as temporary:
            for file in files:
                (temporary / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file, temporary / file)
            (temporary / MANIFEST_NAME).write_bytes(manifest)

    def folders(self, name: str) -> list[str]:
        """Names of the complete folders in a folder."""
        beginning = (self.root / name).as_posix() + "/"
        files = [f.as_posix().removeprefix(beginning) for f in list_files(self.root / name)]
        parts = [file.split("/") for file in files]
        found = {part[0] for part in parts if len(part) == 2 and part[1] == MANIFEST_NAME}
        return sorted(name for name in found if not name.startswith("."))  # being written

    def files(self, name: str) -> list[str]:
        """Names of all files in a folder, relative to the folder."""
        folder = self.root / name if name else self.root
        if is_local(folder):
            _check_no_links(folder, self.root)
        beginning = folder.as_posix().rstrip("/") + "/"
        return [file.as_posix().removeprefix(beginning) for file in list_files(folder)]

    def remove_folder(self, name: str) -> None:
        """Delete a folder, its manifest first."""
        self._check_locks()
        folder = self.root / name
        if is_local(folder):
            (folder / MANIFEST_NAME).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            object_store.remove(folder, [MANIFEST_NAME])
            object_store.remove(folder, self.files(name))

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock with this name; raise TryAgainError if another process holds the lock."""
        with locked(self.root / name, f"{self}: another process is changing it") as check:
            self._checks[name] = check
            try:
                yield
            finally:
                del self._checks[name]

    def _check_locks(self) -> None:
        """Raise TryAgainError unless every lock of this object is still held."""
        for check in self._checks.values():
            check()


def _check_no_links(folder: Path, root: Place) -> None:
    """Raise DataError for a symbolic link, which may change what a version is at any time."""
    for path in (folder, *folder.rglob("*")):
        if path != root and path.is_symlink():
            raise DataError(f"{path}: is a link, which may change at any time; copy the file.")
