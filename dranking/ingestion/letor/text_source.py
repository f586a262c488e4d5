"""Text files, plain or compressed, as chunks of whole lines."""

from __future__ import annotations

import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DataError
from dranking.files.places import AnyPlace, as_place, is_local
from dranking.files.reading import check_regular, open_input

CHUNK_BYTES = 1 << 20
"""Bytes read at a time: a chunk and its tokens stay in the processor's cache."""

MAX_LINE_BYTES = 1 << 26
"""Longest line: a document of a few million features; small compressed files may expand to more."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def line_chunks(
    path: AnyPlace, chunk_bytes: int = CHUNK_BYTES, start: int = 0, stop: int | None = None
) -> Iterator[NDArray[np.uint8]]:
    """Read a text file, or a part of it, in chunks of whole lines.

    Parameters
    ----------
    path
        File to read; decompressed if its name ends in ``.gz``, ``.xz`` or ``.zst``.
    chunk_bytes
        Bytes read at a time; a longer line makes its chunk longer.
    start, stop
        Read the lines of a file that is not compressed from byte `start` to before byte `stop`;
        both are beginnings of lines (`line_start`), or the end of the file.

    Yields
    ------
    (n_bytes,) uint8 that ends in a newline, even if the file's last line does not; without a byte
    order mark. The chunk is a view of a buffer and becomes invalid with the next chunk.

    Raises
    ------
    DataError
        If the file does not exist or cannot be read, or if its compressed data is damaged.
    """
    damage = _damage(str(path))
    # One byte more, for the newline that the last line may lack.
    buffer = bytearray(chunk_bytes + 1)
    filled, at_start, position = 0, start == 0, start
    with _open(path) as file:
        if start:
            file.seek(start)
        while True:
            if filled == len(buffer) - 1:
                if filled > MAX_LINE_BYTES:
                    raise DataError(
                        f"{path}: a line has {filled:,} bytes without its end, more than the "
                        f"{MAX_LINE_BYTES:,} that a line may have; this is no ranking data."
                    )
                buffer = buffer + bytearray(len(buffer))
            room = memoryview(buffer)[filled:-1]
            try:
                n_read = file.readinto(room if stop is None else room[: stop - position])
            except damage as error:
                raise _damaged(path, error) from error
            end = filled + n_read
            position += n_read
            if n_read == 0 and filled:
                buffer[end : end + 1] = b"\n"
                end += 1
            cut = buffer.rfind(b"\n", filled, end) + 1
            if cut:
                skipped = 3 if at_start and buffer.startswith(_BYTE_ORDER_MARK) else 0
                at_start = False
                yield np.frombuffer(buffer, dtype=np.uint8)[skipped:cut]
                buffer[: end - cut] = buffer[cut:end]
                end -= cut
            if n_read == 0:
                return
            filled = end


def text_pieces(path: AnyPlace, piece_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Read a text file, decompressed, in pieces of some bytes, whatever its lines.

    Raises
    ------
    DataError
        As `line_chunks`.
    """
    damage = _damage(str(path))
    with _open(path) as file:
        while True:
            try:
                piece = file.read(piece_bytes)
            except damage as error:
                raise _damaged(path, error) from error
            if not piece:
                return
            yield piece


def _damaged(path: AnyPlace, error: BaseException) -> DataError:
    return DataError(
        f"{path}: the compressed data is damaged or ends early ({error}); "
        "copy or download the file again."
    )


def is_compressed(path: AnyPlace) -> bool:
    """Whether a file is decompressed when it is read, as its name says."""
    return str(path).lower().endswith((".gz", ".xz", ".zst"))


def line_start(path: AnyPlace, position: int, step: int = 1 << 16) -> int:
    """The first beginning of a line at or behind a byte of a plain file, or the file's end."""
    if position == 0:
        return 0
    with _open(path) as file:
        at = file.seek(position - 1)
        while part := file.read(step):
            found = part.find(b"\n")
            if found >= 0:
                return int(at + found + 1)
            at += len(part)
    return int(at)


def check_readable(path: AnyPlace) -> None:
    """Open and close a file.

    Raises
    ------
    DataError
        If the file does not exist, is a folder, or cannot be read.
    """
    _open(path).close()


def _open(path: AnyPlace) -> Any:
    """Open a file for `readinto`; the end of its name chooses the decompression."""
    place, name = as_place(path), str(path)
    if is_local(place) and os.path.isdir(name):
        raise DataError(f"{name}: is a folder; name the files in it.")
    check_regular(place)
    try:
        source: Any = name if is_local(place) else open_input(place)
        ending = name.lower()
        if ending.endswith(".gz"):
            return gzip.open(source, "rb")
        if ending.endswith(".xz"):
            return lzma.open(source, "rb")
        if ending.endswith(".zst"):
            return _zstd().open(source, "rb")
        return open(source, "rb", buffering=0) if is_local(place) else source
    except FileNotFoundError as error:
        raise DataError(f"{name}: there is no such file.") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}).") from error


def _damage(path: str) -> tuple[type[Exception], ...]:
    """Exceptions that reading raises if the compressed data of a file is damaged."""
    path = path.lower()
    if path.endswith(".gz"):
        return (EOFError, gzip.BadGzipFile, zlib.error)
    if path.endswith(".xz"):
        return (EOFError, lzma.LZMAError)
    if path.endswith(".zst"):
        return (EOFError, _zstd().ZstdError)
    return ()


def _zstd() -> Any:
    """The module `compression.zstd` of Python 3.14, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
