"""Writers that are killed at any request to a store, or at any change of a file on a local disk.

The kill is an exception that no code of the project catches. From then on the store, or the disk,
refuses all that the dying writer still tries, so that its cleaning up changes nothing, as after a
real kill.
"""

import math
import os
import secrets
import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from filelock import FileLock
from fsspec.implementations.memory import MemoryFileSystem

from dranking.files import reading
from dranking.files.places import as_place, is_local
from dranking.files.reading import list_files, read_bytes
from dranking.files.writing import local_output, names, object_store


class Killed(BaseException):
    """The end of a process."""


class Mortal:
    """Counts changes, and from the `last` on allows none; None for no limit."""

    def __init__(self):
        self.n_changes, self.last = 0, None
        self.opened = None  # the file that was opened last, and the bytes of it that stay
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

    def changes_of(self, job):
        """Run a job; the number of its changes."""
        assert not self.killed_after(math.inf, job)
        return self.n_changes

    def killed_after(self, last, job):
        """Run a job that dies when it has made so many changes; whether it died."""
        self.n_changes, self.last, self.opened = 0, last, None
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
    if _watched.folder is None or not isinstance(event, str):
        return
    path = arguments[0] if arguments else None
    if event == "open":
        flags = arguments[2]
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event not in CHANGES:
        return
    inside = not isinstance(path, int) and os.fspath(path).startswith(_watched.folder)
    if not inside and (event == "open" or arguments[-1] in (None, -1)):  # in no open folder
        return
    _write_half()
    _watched.mortal.change()
    if event == "open":
        kept = 0 if flags & os.O_TRUNC or not os.path.isfile(path) else os.path.getsize(path)
        _watched.mortal.opened = path, kept


def _write_half():
    """Count the write of the file that was opened last, or die when half of it is written."""
    opened, _watched.mortal.opened = _watched.mortal.opened, None
    if opened is None:
        return
    path, kept = opened
    if _watched.mortal.n_changes == _watched.mortal.last and os.path.isfile(path):
        folder, _watched.folder = _watched.folder, None
        os.truncate(path, (kept + os.path.getsize(path)) // 2)
        _watched.folder = folder
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


@contextmanager
def mortal_place(kind, tmp_path, monkeypatch):
    """What counts changes of a store or of a disk and kills, and a function of new outputs."""
    if kind == "store":
        yield mortal_store(monkeypatch), lambda: as_place(f"memory://{secrets.token_hex(4)}/d")
        return
    with mortal_disk(tmp_path / "work", monkeypatch) as mortal:
        yield mortal, lambda: tmp_path / "work" / secrets.token_hex(4) / "d"


def contents(folder):
    """Bytes of all files in a folder by their names, and None for empty folders."""
    if is_local(folder):
        found = {}
        for where, folders, files in os.walk(folder):
            found |= {Path(where, file): Path(where, file).read_bytes() for file in files}
            found |= {} if folders or files else {where: None}
    else:
        found = {file: read_bytes(file) for file in list_files(folder)}
    return {str(name).removeprefix(str(folder)): content for name, content in found.items()}


def put_back(folder, kept):
    """Give a folder the contents that it had, and no others."""
    if not is_local(folder):
        object_store.remove(folder, [name[1:] for name in contents(folder)])
        for name, content in kept.items():
            (folder / name[1:]).write_bytes(content)
        return
    shutil.rmtree(folder)
    for name, content in kept.items():
        path = folder / name[1:]
        (path if content is None else path.parent).mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
