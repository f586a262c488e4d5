"""Reading places: ranged, concurrent, tried again while a store is busy, of checked length.

All bytes that the project reads from a store come through `read_bytes`, `read_ranges` or
`open_input`. A range has the length that was asked for, or is read once more, or is an error.
Checksums are compared by the readers of each format.
"""

from __future__ import annotations

import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from upath import UPath

from dranking.errors import DataError
from dranking.files.places import MAX_REQUESTS, Place, is_local
from dranking.files.requests import ShortReadError, request

Item = TypeVar("Item")
Value = TypeVar("Value")

Range = tuple[int, int]
"""First byte, and the byte after the last, of a part of a file."""

PIECE_BYTES = 8 * 2**20
"""Longer reads are several requests side by side."""

_POOL = "dranking-store"


def read_bytes(place: Place, start: int = 0, end: int | None = None) -> bytes:
    """Content of a file, or the part from byte `start` to before byte `end`.

    Parameters
    ----------
    place
        The file.
    start, end
        0 <= start <= end; None for the end of the file.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    DataError
        If the file cannot be read, or is shorter than `end`.
    TryAgainError
        If the store is out of reach.
    """
    if is_local(place):
        return request(place, partial(_read_local, place, start, end))
    end = file_size(place) if end is None else end
    if end - start <= PIECE_BYTES:
        return _read_piece(place, (start, end))
    cuts = [*range(start, end, PIECE_BYTES), end]
    return b"".join(read_ranges(place, list(pairwise(cuts))))


def read_ranges(place: Place, ranges: Sequence[Range]) -> list[bytes]:
    """Parts of a file, read side by side if the file is behind a URL.

    Parameters
    ----------
    place
        The file.
    ranges
        First byte and end of each part.

    Raises
    ------
    FileNotFoundError, DataError, TryAgainError
        As `read_bytes` raises them.
    """
    if is_local(place):
        return request(place, partial(_read_local_ranges, place, ranges))
    return at_once(partial(_read_piece, place), ranges)


def read_files(places: Iterable[Place]) -> list[bytes]:
    """Contents of whole files, read side by side; raises as `read_bytes` does."""
    return at_once(read_bytes, list(places))


def file_size(place: Place) -> int:
    """Size of a file in bytes; raises as `read_bytes` does."""
    if is_local(place):
        return request(place, lambda: place.stat().st_size)
    found = request(place, lambda: place.fs.info(place.path))
    if found["type"] != "file":
        raise FileNotFoundError(2, "No such file", str(place))
    return int(found["size"])


def check_regular(place: Place) -> None:
    """Raise DataError for a pipe or a device, whose reader may wait forever."""
    if is_local(place) and exists(place) and not (place.is_file() or place.is_dir()):
        raise DataError(
            f"{place}: is no regular file but a pipe or a device; write the data to a file first."
        )


def exists(place: Place) -> bool:
    """Whether a file or a folder with files is at a place; raises as `read_bytes` does."""
    if is_local(place):
        return request(place, place.exists)
    return request(place, lambda: bool(place.fs.exists(place.path)))


def list_files(place: Place) -> list[Place]:
    """All files in a folder and in the folders below, sorted by name; empty if there is none.

    Links to folders are followed, but not back to a folder that holds the link.

    Raises
    ------
    DataError, TryAgainError
        As `read_bytes` raises them.
    """
    if is_local(place):
        return sorted(request(place, lambda: _files_below(place)))
    found = request(place, lambda: place.fs.find(place.path))
    root = place.path.rstrip("/") + "/"
    return [place / name.removeprefix(root) for name in sorted(found) if name.startswith(root)]


def _files_below(place: Path) -> list[Path]:
    """All files, and links to nothing, whose reader is told so."""
    found: list[Path] = []
    above: dict[str, frozenset[tuple[int, int]]] = {}
    for folder, folders, files in os.walk(place, onerror=_raise, followlinks=True):
        outer = above.pop(folder, frozenset())
        try:
            status = os.stat(folder)
        except FileNotFoundError:  # another process removed it
            continue
        here = (status.st_dev, status.st_ino)
        if here in outer:
            folders.clear()
            continue
        above |= {os.path.join(folder, name): outer | {here} for name in folders}
        paths = [Path(folder, name) for name in files]
        found += [path for path in paths if path.is_file() or not path.exists()]
    return found


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def open_input(place: Place, size: int | None = None) -> Any:
    """Open a file to read and seek in: an `io.BufferedIOBase`, as pyarrow and pandas take it.

    Parameters
    ----------
    place
        The file.
    size
        Its size in bytes, if it is known: a store is then not asked for it.

    Raises
    ------
    FileNotFoundError, DataError, TryAgainError
        As `read_bytes` raises them; later reads raise them too.
    """
    if is_local(place):
        return request(place, lambda: place.open("rb"))
    return io.BufferedReader(_RangedFile(place, size), buffer_size=PIECE_BYTES // 8)


def arrow_input(place: Place) -> Any:
    """Open a file for pyarrow, which reads local files without Python; raises as `open_input`."""
    import pyarrow as pa

    if is_local(place):
        return request(place, lambda: pa.OSFile(str(place), "rb"))
    return pa.PythonFile(open_input(place), mode="r")


def at_once(function: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
    """Values of a function that waits for a store, for all items side by side, in their order."""
    if _in_pool() or len(items) < 2:
        return [function(item) for item in items]
    return list(_pool().map(function, items))


def ahead(
    function: Callable[[Item], Value], items: Sequence[Item], sizes: Sequence[int], limit: int
) -> Iterator[Value]:
    """Values of a function that waits for a store, in the order of the items, begun ahead of use.

    Parameters
    ----------
    function
        What to call, in other threads.
    items
        What to call it with.
    sizes
        How much memory the value of each item takes, in any unit.
    limit
        How much the values may take that are under way or wait for their use. One item at a time
        is begun however large it is.
    """
    if _in_pool() or len(items) < 2:
        yield from map(function, items)
        return
    begun: deque[tuple[Future[Value], int]] = deque()
    taken, following = 0, 0
    try:
        while begun or following < len(items):
            while following < len(items) and (
                not begun or (taken + sizes[following] <= limit and len(begun) < MAX_REQUESTS)
            ):
                begun.append((_pool().submit(function, items[following]), sizes[following]))
                taken, following = taken + sizes[following], following + 1
            future, size = begun.popleft()
            yield future.result()
            taken -= size
    finally:
        for future, _ in begun:
            future.cancel()


def _in_pool() -> bool:
    """Whether a thread is of the pool; such threads do not wait for others: all of them might."""
    return threading.current_thread().name.startswith(_POOL)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix=_POOL)


def _read_local(place: Place, start: int, end: int | None) -> bytes:
    with place.open("rb") as file:
        file.seek(start)
        content = bytes(file.read(-1 if end is None else end - start))
    return content if end is None else _checked(content, (start, end))


def _read_local_ranges(place: Path, ranges: Sequence[Range]) -> list[bytes]:
    with place.open("rb") as file:
        parts = []
        for start, end in ranges:
            file.seek(start)
            parts.append(_checked(file.read(end - start), (start, end)))
        return parts


def _read_piece(place: UPath, part: Range) -> bytes:
    start, end = part
    if start == end:
        return b""
    return request(
        place, lambda: _checked(place.fs.cat_file(place.path, start=start, end=end), part)
    )


def _checked(content: bytes, part: Range) -> bytes:
    start, end = part
    if len(content) != end - start:
        raise ShortReadError(
            f"bytes {start} to {end} were asked for, and {len(content)} bytes came"
        )
    return content


class _RangedFile(io.RawIOBase):
    """A file behind a URL, of which `io.BufferedReader` reads large parts."""

    def __init__(self, place: Place, size: int | None = None) -> None:
        self._place = place
        self._size = file_size(place) if size is None else size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        end = min(self._position + len(buffer), self._size)
        content = read_bytes(self._place, self._position, max(end, self._position))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
