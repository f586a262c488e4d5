"""Writers that are killed at any request to a store, or at any change of a file on a local disk.

The kill is an exception that no code of the project catches. From then on the store, or the disk,
refuses all that the dying writer still tries, so that its cleaning up changes nothing, as after a
real kill.
"""

import os
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

from filelock import FileLock
from fsspec.implementations.memory import MemoryFileSystem

from dranking.files import reading
from dranking.files.writing import local_output, names


class Killed(BaseException):
    """The end of a process."""


class Mortal:
    """Counts changes, and from the `last` on allows none; None for no limit."""

    def __init__(self):
        self.n_changes, self.last = 0, None
        self._dead = []  # generators of a dead process must not end, and clean up, as garbage
        self.locks = []
        self._lock = threading.Lock()

    def change(self):
        """Count a change, or die instead."""
        with self._lock:
            self.look()
            if self.n_changes == self.last:
                self.n_changes += 1
                raise Killed
            self.n_changes += 1

    def look(self):
        if self.last is not None and self.n_changes > self.last:
            raise Killed

    def killed_after(self, last, job):
        """Run a job that dies when it has made so many changes; whether it died."""
        self.n_changes, self.last = 0, last
        try:
            job()
        except Killed as end:
            self._dead.append(end)
            return True
        finally:
            died = self.n_changes > last
            self.last = None
            for lock in self.locks:
                lock.release(force=True)
            local_output._live.clear()
        return died


WRITES = ("pipe_file", "put_file", "_rm")
READS = ("info", "find", "exists", "ls", "cat_file", "_open")


def mortal_store(monkeypatch):
    """The store ``memory://`` with requests one by one, and no folders, as in stores of objects."""
    mortal = Mortal()

    def guarded(name, gate):
        method = getattr(MemoryFileSystem, name)

        def guard(self, *arguments, **options):
            gate()
            return method(self, *arguments, **options)

        monkeypatch.setattr(MemoryFileSystem, name, guard)

    for name in WRITES:
        guarded(name, mortal.change)
    for name in READS:
        guarded(name, mortal.look)
    for name in ("mkdir", "makedirs"):
        monkeypatch.setattr(MemoryFileSystem, name, lambda *_, **__: None)
    monkeypatch.setattr(reading, "_in_pool", lambda: True)
    return mortal


CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_watched = SimpleNamespace(folder=None, mortal=None)


def _watch(event, arguments):
    if _watched.folder is None:
        return
    if event == "open":
        path, _, flags = arguments
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event not in CHANGES:
        return
    path = arguments[0]
    inside = not isinstance(path, int) and os.fspath(path).startswith(_watched.folder)
    if inside or (event in CHANGES and arguments[-1] not in (None, -1)):  # inside an open folder
        _watched.mortal.change()


sys.addaudithook(_watch)


@contextmanager
def mortal_disk(folder, monkeypatch):
    """Changes of files and folders in a folder, which is made; locks end with the dying process."""
    folder.mkdir()
    mortal, acquire = Mortal(), FileLock.acquire

    def noted(lock, **options):
        mortal.locks.append(lock)
        return acquire(lock, **options)

    monkeypatch.setattr(FileLock, "acquire", noted)
    _watched.folder, _watched.mortal = str(folder), mortal
    try:
        yield mortal
    finally:
        _watched.folder = None


def numbered_tokens(monkeypatch):
    """A function that sets the number of the next token of a writer."""
    state = {"next": 0}

    def token_hex(n_bytes):
        state["next"] += 1
        return f"{state['next']:0{2 * n_bytes}x}"

    monkeypatch.setattr(names, "secrets", SimpleNamespace(token_hex=token_hex))
    return lambda number: state.update(next=number)
