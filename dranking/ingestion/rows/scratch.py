"""Scratch files, which the tasks of one job leave for its later tasks."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.errors import UsageError
from dranking.files.places import Place, is_local
from dranking.files.reading import at_once, open_input, read_bytes
from dranking.files.sizes import format_bytes
from dranking.files.writing import object_store

_LOG = logging.getLogger(__name__)
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True)
class FileParts:
    """Parts of numbered scratch files, in order; arrays, because a job has millions of parts.

    Attributes
    ----------
    stem
        Beginning of the names of the files.
    numbers
        (n,) int64 numbers of the files.
    borders
        (n, 2) int64 first item of each part, and the item after its last.
    """

    stem: str
    numbers: NDArray[np.int64]
    borders: NDArray[np.int64]


def numbered(stem: str, number: int) -> str:
    """Name of a numbered scratch file."""
    return f"{stem}-{number:08d}"


@dataclass(frozen=True)
class Scratch:
    """A folder that all workers see, for the files of one job.

    A file is there whole or not at all, and is written with the same content if its task is run
    again, so tasks may be run twice or side by side.

    Attributes
    ----------
    folder
        The folder.
    token
        Beginning of the names of the job's files.
    """

    folder: Place
    token: str

    def place(self, name: str) -> Place:
        """The place of a file."""
        return self.folder / f"{self.token}-{name}"

    def part(self, name: str) -> Scratch:
        """A part of this scratch place, whose files have names of their own."""
        return replace(self, token=f"{self.token}-{name}")

    def put(self, name: str, content: Any) -> None:
        """Write a file from bytes or a buffer.

        Raises
        ------
        UsageError
            If the disk is full.
        """
        target = self.place(name)
        if not is_local(target):
            return object_store.put(target, bytes(content))
        with self.writing(name) as path:
            path.write_bytes(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a local file to write, which appears under its name when the block ends.

        Raises
        ------
        UsageError
            If the disk is full, or the folder cannot be made.
        """
        target = self.place(name)
        if not is_local(target):
            with tempfile.TemporaryDirectory() as folder:
                yield Path(folder, "part")
                object_store.put(target, Path(folder, "part"))
            return
        temporary = target.with_name(f"{target.name}.tmp-{secrets.token_hex(4)}")
        try:
            self._make_folder(Path(target.parent))
            yield temporary
            os.replace(temporary, target)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            raise UsageError(
                f"{self.folder}: {os.strerror(error.errno)} while the data is brought together "
                "there for a while. Free some space, or name another place with --scratch."
            ) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise
            raise UsageError(
                f"{folder}: temporary files need this folder, and it cannot be made "
                f"({os.strerror(error.errno or 0)}). Name another place with --scratch."
            ) from error

    def get(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Content of a file, or a part of it."""
        return read_bytes(self.place(name), start, end)

    def get_parts(self, parts: FileParts, item_bytes: int = 1) -> list[bytes]:
        """Contents of parts of files, side by side if the files are behind a URL."""
        wanted = [
            (numbered(parts.stem, number), item_bytes * start, item_bytes * stop)
            for number, (start, stop) in zip(
                parts.numbers.tolist(), parts.borders.tolist(), strict=True
            )
        ]
        if is_local(self.folder):
            return [self.get(*each) if each[1] < each[2] else b"" for each in wanted]
        return at_once(lambda each: self.get(*each), wanted)

    def open_arrow(self, name: str) -> pa.ipc.RecordBatchFileReader:
        """Open an Arrow file; a local file is mapped, not read."""
        place = self.place(name)
        return pa.ipc.open_file(pa.memory_map(str(place)) if is_local(place) else open_input(place))

    def clear(self) -> None:
        """Delete all files of the job, and its folder; what cannot be deleted is left."""
        with suppress(Exception):  # no client of a store may end a job whose data is written
            if not is_local(self.folder):
                names = [found.name for found in object_store.list_objects(self.folder)]
                own = [name for name in names if name.startswith(self.token)]
                return object_store.remove(self.folder, own)
            for path in Path(self.folder).glob(f"{self.token}*"):
                path.unlink(missing_ok=True)
            Path(self.folder).rmdir()

    def check_space(self, n_bytes: int, what: str) -> None:
        """Check that a local disk has room for so many bytes, and log what is needed.

        Parameters
        ----------
        n_bytes
            About the bytes that are needed.
        what
            What needs them, such as "reading the text".

        Raises
        ------
        UsageError
            If the disk has less space; the error says how much is needed and how much is free.
        """
        needed = f"{self.folder}: {what} takes about {format_bytes(n_bytes)} there for a while"
        if not is_local(self.folder):
            _LOG.info("%s", needed)
            return
        folder = Path(self.folder)
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        needed = f"{needed}; {format_bytes(free)} are free"
        _LOG.info("%s", needed)
        if n_bytes > free:
            raise UsageError(f"{needed}. Free some space, or name another place with --scratch.")
