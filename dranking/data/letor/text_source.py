"""Text files, plain or compressed, as chunks of whole lines."""

from __future__ import annotations

import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DataError

NullPolicy: TypeAlias = Literal["error", "zero", "minimum"]
"""Meaning of the value NULL: an error, zero, or the minimum of the feature."""

CHUNK_BYTES = 1 << 20
"""Bytes read at a time: a chunk and its tokens stay in the processor's cache."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def line_chunks(path: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[NDArray[np.uint8]]:
    """Read a text file in chunks of whole lines.

    Parameters
    ----------
    path
        File to read; decompressed if its name ends in ``.gz``, ``.xz`` or ``.zst``.
    chunk_bytes
        Bytes read at a time; a longer line makes its chunk longer.

    Yields
    ------
    (n_bytes,) uint8 that ends in a newline, even if the file's last line does not; without a byte
    order mark. The chunk is a view of a buffer and becomes invalid with the next chunk.

    Raises
    ------
    DataError
        If the file does not exist or cannot be read, or if its compressed data is damaged.
    """
    damage = _damage(path)
    # One byte more, for the newline that the last line may lack.
    buffer = bytearray(chunk_bytes + 1)
    filled, at_start = 0, True
    with _open(path) as file:
        while True:
            if filled == len(buffer) - 1:
                buffer = buffer + bytearray(len(buffer))
            try:
                n_read = file.readinto(memoryview(buffer)[filled:-1])
            except damage as error:
                raise DataError(
                    f"{path}: the compressed data is damaged or ends early ({error}); "
                    "copy or download the file again."
                ) from error
            end = filled + n_read
            if n_read == 0 and filled:
                buffer[end : end + 1] = b"\n"
                end += 1
            stop = buffer.rfind(b"\n", filled, end) + 1
            if stop:
                skipped = 3 if at_start and buffer.startswith(_BYTE_ORDER_MARK) else 0
                at_start = False
                yield np.frombuffer(buffer, dtype=np.uint8)[skipped:stop]
                buffer[: end - stop] = buffer[stop:end]
                end -= stop
            if n_read == 0:
                return
            filled = end


def check_readable(path: str) -> None:
    """Open and close a file.

    Raises
    ------
    DataError
        If the file does not exist, is a folder, or cannot be read.
    """
    _open(path).close()


def _open(path: str) -> Any:
    """Open a file for `readinto`; the end of its name chooses the decompression."""
    if os.path.isdir(path):
        raise DataError(f"{path}: is a folder; name the files in it.")
    try:
        if path.endswith(".gz"):
            return gzip.open(path, "rb")
        if path.endswith(".xz"):
            return lzma.open(path, "rb")
        if path.endswith(".zst"):
            return _zstd().open(path, "rb")
        return open(path, "rb", buffering=0)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _damage(path: str) -> tuple[type[Exception], ...]:
    """Exceptions that reading raises if the compressed data of a file is damaged."""
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
