"""Bytes that are not UTF-8, in files that readers of UTF-8 would refuse as a whole."""

from __future__ import annotations

import codecs
import io
from typing import IO, Any, Final

PIECE_BYTES: Final = 1 << 20


def mended(file: IO[bytes]) -> IO[bytes]:
    """The bytes of a file, with a NUL in place of each byte that is not UTF-8.

    No byte moves, so that places of records stay.
    """
    return io.BufferedReader(_Mended(file), PIECE_BYTES)


class _Mended(io.RawIOBase):
    """The file of `mended`, read piece by piece.

    What a piece has of a character that goes on in the next one waits in `_rest`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._ready, self._rest, self._ended = file, b"", b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)
        while not self._ready and not self._ended:
            piece = self._file.read(PIECE_BYTES)
            self._ended = not piece
            content = self._rest + piece
            text, n_read = codecs.utf_8_decode(content, "dranking.nul", self._ended)
            self._ready, self._rest = text.encode(), content[n_read:]
        n_bytes = min(len(room), len(self._ready))
        room[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes


def _with_nul(error: UnicodeError) -> tuple[str, int]:
    """The text that a decoder puts in place of bytes that it cannot decode."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\0" * (error.end - error.start), error.end


codecs.register_error("dranking.nul", _with_nul)
