"""Storage of a registry: a directory of this machine, or an object store behind fsspec.

Both store small files by relative names. A file appears whole or not at all. A folder counts as
complete when its manifest is there, which is written last.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.commit import MANIFEST_NAME, atomic_write, new_directory
from dranking.files.local_output import remove_leftovers
from dranking.files.redaction import redacted
from dranking.retrain.registry.object_storage import ObjectStorage


class Storage(Protocol):
    """Operations that a registry needs. Names are relative, separated by ``/``."""

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is no such file."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all."""
        ...

    def add_folder(self, source: Path, files: Collection[str], name: str, manifest: bytes) -> None:
        """Copy files of a local folder, then ``manifest.json``; incomplete folders are ignored."""
        ...

    def folders(self, name: str) -> list[str]:
        """Names of the complete folders in a folder."""
        ...

    def files(self, name: str) -> list[str]:
        """Names of all files in a folder, relative to the folder."""
        ...

    def remove_folder(self, name: str) -> None:
        """Delete a folder, its manifest first."""
        ...

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock with this name; raise TryAgainError if another process holds the lock."""
        yield


def open_storage(location: str | Path) -> Storage:
    """Open the storage at a path of this machine, or at a URL such as ``s3://bucket/registry``.

    Raises
    ------
    UsageError
        If the URL's protocol is unknown, or needs a package that is not installed.
    """
    if "://" not in str(location):
        return LocalStorage(Path(location))
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(str(location))
    except (ValueError, ImportError) as error:
        raise UsageError(redacted(f"{location}: cannot be opened ({error}).")) from error
    if isinstance(system, fsspec.implementations.local.LocalFileSystem):
        return LocalStorage(Path(root))
    return ObjectStorage(system, root)


class LocalStorage:
    """A directory of this machine. Its locks are file locks, which end with their process."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def __str__(self) -> str:
        return str(self.root)

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is no such file."""
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DataError(f"{self.root / name}: cannot be read ({error.strerror}).") from error

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all."""
        atomic_write(self.root / name, content, overwrite=True)

    def add_folder(self, source: Path, files: Collection[str], name: str, manifest: bytes) -> None:
        """Copy files of a local folder to a folder that gets its name when they are complete."""
        remove_leftovers(self.root)
        remove_leftovers((self.root / name).parent)
        with new_directory(self.root / name) as temporary:
            for file in files:
                (temporary / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file, temporary / file)
            (temporary / MANIFEST_NAME).write_bytes(manifest)

    def folders(self, name: str) -> list[str]:
        """Names of the complete folders in a folder."""
        folder = self.root / name
        if not folder.is_dir():
            return []
        found = (f.name for f in folder.iterdir() if (f / MANIFEST_NAME).is_file())
        return sorted(
            name for name in found if not name.startswith(".")
        )  # hidden folders are being written

    def files(self, name: str) -> list[str]:
        """Names of all files in a folder, relative to the folder."""
        folder = self.root / name
        inside = list(folder.rglob("*"))
        for path in (folder, *inside):
            if path != self.root and path.is_symlink():
                raise DataError(f"{path}: is a link, which may change at any time; copy the file.")
        return sorted(f.relative_to(folder).as_posix() for f in inside if not f.is_dir())

    def remove_folder(self, name: str) -> None:
        """Delete a folder, its manifest first."""
        (self.root / name / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(self.root / name, ignore_errors=True)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock with this name; raise TryAgainError if another process holds the lock."""
        with locked_file(self.root / name, f"{self.root}: another process is changing it"):
            yield


@contextmanager
def locked_file(file: Path, busy: str) -> Iterator[None]:
    """Hold a file lock, which ends with its process.

    Parameters
    ----------
    file
        The lock file; missing parent directories are made.
    busy
        Begin of the error message if another process holds the lock, without punctuation at its
        end.

    Raises
    ------
    TryAgainError
        If another process holds the lock.
    UsageError
        If the file cannot be made.
    """
    from filelock import FileLock, Timeout

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TryAgainError(f"{busy}; run again when that process is done.") from error
    except OSError as error:
        raise UsageError(f"{file.parent}: cannot be locked ({error.strerror}).") from error
    try:
        yield
    finally:
        lock.release()
