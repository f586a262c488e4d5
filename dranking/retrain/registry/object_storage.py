"""An object store behind fsspec as storage of a registry."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from dranking.errors import DataError, TryAgainError
from dranking.files.commit import MANIFEST_NAME
from dranking.files.json_files import parse_json
from dranking.files.redaction import redacted

LEASE_SECONDS = 300.0
"""Time after which the lock of a process that has died expires."""


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

    def add_folder(self, source: Path, files: Collection[str], name: str, manifest: bytes) -> None:
        """Copy files of a local folder, ``manifest.json`` last, over what a killed copy left."""
        self.remove_folder(name)
        for file in sorted(files):
            self.write(f"{name}/{file}", (source / file).read_bytes())
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
        """Hold the lock with this name; raise TryAgainError if another process holds the lock."""
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
            with suppress(OSError, DataError):  # a lease that is not deleted expires
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
