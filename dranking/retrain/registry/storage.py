"""Storage of a registry: a directory of this machine, or an object store behind fsspec.

Both store small files by relative names. A file appears whole or not at all. A folder counts as
complete when its manifest is there, which is written last.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.commit import MANIFEST_NAME, atomic_write, new_directory
from dranking.files.json_files import parse_json
from dranking.files.redaction import redacted

LEASE_SECONDS = 300.0


class Storage(Protocol):
    """Operations that a registry needs. Names are relative, separated by ``/``."""

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is no such file."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all."""
        ...

    def add_folder(self, source: Path, name: str, manifest: bytes) -> None:
        """Copy a local folder, then write its ``manifest.json``; incomplete folders are ignored."""
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
        """Hold the lock with this name; raise TryAgainError if somebody else holds it."""
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

    def add_folder(self, source: Path, name: str, manifest: bytes) -> None:
        """Copy a local folder, which gets its name when the copy is complete."""
        with new_directory(self.root / name) as temporary:
            shutil.copytree(source, temporary, dirs_exist_ok=True)
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
        return sorted(f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file())

    def remove_folder(self, name: str) -> None:
        """Delete a folder, its manifest first."""
        (self.root / name / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(self.root / name, ignore_errors=True)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep other processes from holding the lock; raise TryAgainError if one holds it."""
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
        What is wrong if another process holds the lock, without the final stop.

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


class ObjectStorage:
    """An object store behind fsspec. Its locks are leases, which expire when the holder dies.

    Writing a single object is atomic. A lease is made by a write that fails if the object exists,
    in stores that support this (S3, Google, Azure do). The lease is checked right before every
    write and removal: a holder that could not renew its lease in time, or finds the lease of
    another holder, changes nothing any more.
    """

    def __init__(self, system: Any, root: str, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._system = system
        self._root = PurePosixPath(root)
        self._lease_seconds = lease_seconds
        self._held: dict[str, str] = {}

    def __str__(self) -> str:
        return redacted(str(self._system.unstrip_protocol(str(self._root))))

    def _path(self, name: str) -> str:
        return str(self._root / name)

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is no such file."""
        try:
            return bytes(self._system.cat_file(self._path(name)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(redacted(f"{self}/{name}: cannot be read ({error}).")) from error

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all."""
        self._check_leases()
        self._system.makedirs(str(PurePosixPath(self._path(name)).parent), exist_ok=True)
        self._system.pipe_file(self._path(name), content)

    def add_folder(self, source: Path, name: str, manifest: bytes) -> None:
        """Copy a local folder, its ``manifest.json`` last."""
        for file in sorted(f for f in source.rglob("*") if f.is_file()):
            self.write(f"{name}/{file.relative_to(source).as_posix()}", file.read_bytes())
        self.write(f"{name}/{MANIFEST_NAME}", manifest)

    def folders(self, name: str) -> list[str]:
        """Names of the complete folders in a folder."""
        self._system.invalidate_cache()  # other processes may have written
        manifests = self._system.glob(self._path(f"{name}/*/{MANIFEST_NAME}"))
        return sorted(PurePosixPath(manifest).parent.name for manifest in manifests)

    def files(self, name: str) -> list[str]:
        """Names of all files in a folder, relative to the folder."""
        self._system.invalidate_cache()
        root = PurePosixPath(self._path(name))
        return sorted(
            PurePosixPath(f"/{found.lstrip('/')}")
            .relative_to(f"/{str(root).lstrip('/')}")
            .as_posix()
            for found in self._system.find(str(root))
        )

    def remove_folder(self, name: str) -> None:
        """Delete a folder, its manifest first."""
        self._check_leases()
        manifest = self._path(f"{name}/{MANIFEST_NAME}")
        if self._system.exists(manifest):
            self._system.rm_file(manifest)
        if self._system.exists(self._path(name)):
            self._system.rm(self._path(name), recursive=True)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock with this name; raise TryAgainError if somebody else holds it."""
        holder = secrets.token_hex(8)
        self._take_lease(name, holder)
        self._held[name] = holder
        released = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(name, holder, released), daemon=True)
        renewal.start()
        try:
            yield
        finally:
            released.set()
            renewal.join()
            del self._held[name]
            with suppress(OSError, DataError):  # a lease that stays expires
                if self._is_held(name, holder):
                    self._system.rm_file(self._path(name))

    def _take_lease(self, name: str, holder: str) -> None:
        found = self.read(name)
        if found is not None:
            _, expires = _parse_lease(found)
            if expires > time.time():
                raise TryAgainError(
                    f"{self}: another process is changing it; run again later. If that process has "
                    f"died, its lock expires in {expires - time.time():.0f} s."
                )
            with suppress(FileNotFoundError):
                self._system.rm_file(self._path(name))
        self._system.makedirs(str(self._root), exist_ok=True)
        try:
            self._system.pipe_file(self._path(name), self._lease(holder), mode="create")
        except FileExistsError as error:
            raise TryAgainError(
                f"{self}: another process has begun to change it; run again later."
            ) from error

    def _renew(self, name: str, holder: str, released: threading.Event) -> None:
        """Renew a lease again and again until it is released; never renew a lost lease."""
        while not released.wait(self._lease_seconds / 3):
            with suppress(
                Exception
            ):  # whatever the store's client raises, the next renewal may succeed
                if not self._is_held(name, holder):
                    return
                self._system.pipe_file(self._path(name), self._lease(holder))

    def _is_held(self, name: str, holder: str) -> bool:
        """Whether the lease belongs to the holder and has not expired."""
        found = self.read(name)
        if found is None:
            return False
        by, expires = _parse_lease(found)
        return by == holder and expires > time.time()

    def _check_leases(self) -> None:
        """Raise TryAgainError unless every lease of this object is still held."""
        for name, holder in self._held.items():
            if not self._is_held(name, holder):
                raise TryAgainError(
                    f"{self}: the lock was lost, as it could not be renewed for "
                    f"{self._lease_seconds:g} s; another process may be changing the registry. "
                    "Nothing more was written; run again."
                )

    def _lease(self, holder: str) -> bytes:
        expires = time.time() + self._lease_seconds
        return json.dumps({"holder": holder, "expires": expires}).encode()


def _parse_lease(lease: bytes) -> tuple[str, float]:
    """Holder and expiry (seconds since 1970) of a lease; an unreadable lease has expired."""
    try:
        content = parse_json(lease)
        return str(content["holder"]), float(content["expires"])
    except (ValueError, KeyError, TypeError):
        return "", 0.0
