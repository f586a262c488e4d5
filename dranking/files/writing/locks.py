"""Locks of places, which one process at a time holds: a file lock, or a lease in a store.

A file lock ends with its process. A lease is an object that its holder renews. Another process may
take over a lease that was not renewed in time, or whose holder has ended on the same machine, by a
write on the condition that the object is unchanged: of two such processes, one gets the lease.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from upath import UPath

from dranking.errors import DataError, DrankingError, TryAgainError, UsageError
from dranking.files.json_files import parse_json
from dranking.files.places import Place, is_local
from dranking.files.reading import read_bytes
from dranking.files.requests import ChangedError
from dranking.files.writing.object_store import put_if_unchanged, remove, version
from dranking.files.writing.processes import Process, has_ended, this_process

LEASE_SECONDS = 300.0
"""Time after which the lease of a process that has died may be taken over on any host."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait for the lock of a local folder, and hold it while a name in the folder is replaced.

    The lock leaves no file behind, and is for the moment between a comparison and a rename.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked(place: Place, busy: str) -> Iterator[Callable[[], None]]:
    """Hold a lock, and yield a function that raises TryAgainError if the lock was lost.

    Parameters
    ----------
    place
        The lock's file or object; missing parent directories are made.
    busy
        Beginning of the error message if another process holds the lock, without punctuation at
        the end.

    Raises
    ------
    TryAgainError
        If another process holds the lock.
    UsageError
        If the file cannot be made.
    """
    if is_local(place):
        with locked_file(place, busy):
            yield lambda: None
        return
    lease = Lease(place, busy)
    lease.take()
    try:
        yield lease.check
    finally:
        lease.release()


@contextmanager
def locked_file(file: Path, busy: str) -> Iterator[None]:
    """Hold a file lock, which ends with its process; `locked` has the parameters and errors."""
    from filelock import FileLock, Timeout

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file, mode=0o666)  # for all who may write there
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TryAgainError(f"{busy}; run again when that process is done.") from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be locked ({error.strerror}).") from error
    try:
        yield
    finally:
        lock.release()


class _Content(NamedTuple):
    """Content of a lease: its holder, when it expires (seconds since 1970), and the process."""

    holder: str
    expires: float
    process: Process | None


class Lease:
    """An object in a store that says who may write, and until when.

    Parameters
    ----------
    place
        The object.
    busy
        As for `locked`.
    """

    def __init__(self, place: UPath, busy: str) -> None:
        self._place, self._busy = place, busy
        self._holder = secrets.token_hex(8)
        self._released = threading.Event()
        self._renewal = threading.Thread(target=self._renew, daemon=True)

    def take(self) -> None:
        """Make the object, or take it over if it has expired; then renew it until the release."""
        seen = version(self._place)
        if seen is not None:
            self._check_free()
        try:
            put_if_unchanged(self._place, self._content(), seen)
        except ChangedError as error:
            raise TryAgainError(f"{self._busy}, since a moment ago; run again later.") from error
        self._renewal.start()

    def _check_free(self) -> None:
        """Raise an error unless the lease that is there has expired, or its holder has ended."""
        lease = self._read()
        left = lease.expires - time.time()
        if left > 2 * LEASE_SECONDS:
            raise DataError(
                f"{self._place}: the lock is damaged, or a clock is wrong: it says that it "
                f"expires in {left:.0f} s, while no lock is taken for more than "
                f"{LEASE_SECONDS:g} s. Delete it if no process is writing."
            )
        if left <= 0 or (lease.process is not None and has_ended(lease.process)):
            return
        who = "that process"
        if lease.process is not None:
            who = f"that process ({lease.process.pid} on host {lease.process.host})"
        end = datetime.fromtimestamp(lease.expires, UTC)
        raise TryAgainError(
            f"{self._busy}; run again later. If {who} has died, its lock ends at {end:%H:%M:%S} "
            f"UTC, in {left:.0f} s; on its machine, outside of other containers, a run takes the "
            "lock over at once."
        )

    def check(self) -> None:
        """Raise TryAgainError unless the lease is still this holder's and has not expired."""
        if not self._is_held():
            raise TryAgainError(
                f"{self._place}: the lock was lost, as it could not be renewed for "
                f"{LEASE_SECONDS:g} s; another process may be writing. Nothing more was written; "
                "run again."
            )

    def release(self) -> None:
        """Delete the object; one that cannot be deleted expires."""
        self._released.set()
        self._renewal.join()
        with suppress(DrankingError, OSError):
            if self._is_held():
                remove(self._place.parent, [self._place.name])

    def _renew(self) -> None:
        """Renew the lease again and again until it is released; never renew a lost lease."""
        while not self._released.wait(LEASE_SECONDS / 3):
            with suppress(Exception):  # the next renewal may succeed
                seen = version(self._place)
                if seen is None or not self._is_held():
                    return
                put_if_unchanged(self._place, self._content(), seen)

    def _is_held(self) -> bool:
        lease = self._read()
        return lease.holder == self._holder and lease.expires > time.time()

    def _read(self) -> _Content:
        """Content of the object; an unreadable lease has expired."""
        try:
            content = parse_json(read_bytes(self._place))
            expires = float(content["expires"])
            holder = str(content["holder"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return _Content("", 0.0, None)
        return _Content(holder, expires if expires == expires else 0.0, _process_in(content))

    def _content(self) -> bytes:
        lease = {"holder": self._holder, "expires": time.time() + LEASE_SECONDS}
        return json.dumps({**lease, "process": this_process()._asdict()}).encode()


def _process_in(content: dict[str, Any]) -> Process | None:
    """The process of the holder; None if the lease does not name one."""
    try:
        found = content["process"]
        host, machine, started = (str(found[name]) for name in ("host", "machine", "started"))
        return Process(host, machine, int(found["pid"]), started)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
