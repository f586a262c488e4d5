"""Files of rows: float64 arrays of one shape, compressed one by one, and read one by one.

What does not become much shorter is kept as it is: decoding takes longer than reading it. Behind
the rows stands an index, the bytes and the CRC-32C of each. Whoever keeps the checksum of the index
knows of every row whether it is as it was written, and in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dranking.files.zarr_chunks import CODEC, DamagedFileError, checksum, decode_chunk

Array = NDArray[np.float64]

WORTH_DECODING = 0.8
"""Rows that compress to more than this share are kept as they are: a core decodes 2.5 GB/s, and
copies 14."""

_NUMBER = 8  # bytes
_INDEX_ENTRY = 2 * _NUMBER


class _Index(NamedTuple):
    """(n_rows,) where the content of each row starts and ends, and its CRC-32C."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    checksums: NDArray[np.uint64]


def write_rows(file: Path, rows: Iterable[Array]) -> str:
    """Write rows, one at a time.

    Returns
    -------
    The checksum of the index.
    """
    index = []
    with file.open("wb") as out:
        for row in rows:
            values = np.ascontiguousarray(row)
            content = bytes(CODEC.encode(values))
            if len(content) > WORTH_DECODING * values.nbytes:
                content = values.tobytes()
            out.write(content)
            index.append((len(content), google_crc32c.value(content)))
        entries = np.array(index, "<u8").tobytes()
        out.write(entries)
    return checksum(entries)


class RowFile:
    """Reads rows of a file of `write_rows`.

    Parameters
    ----------
    file
        The file.
    n_rows
        All its rows.
    shape
        Of a row.
    index_checksum
        What `write_rows` returned.
    """

    def __init__(
        self, file: Path, n_rows: int, shape: tuple[int, ...], index_checksum: str
    ) -> None:
        self._file, self._n_rows, self._shape = file, n_rows, shape
        self._index_checksum = index_checksum
        self._index: _Index | None = None

    def read(self, wanted: Iterable[int]) -> Iterator[Array]:
        """Read some rows, from 0, in the order given, and only these.

        Yields
        ------
        (*shape,) float64, maybe read-only.

        Raises
        ------
        DamagedFileError
            If the index or a row is not what was written.
        OSError
            If the file cannot be read.
        """
        with self._file.open("rb") as source:
            index = self._index = self._index or self._read_index(source)
            for row in wanted:
                start, end, row_checksum = (int(values[row]) for values in index)
                source.seek(start)
                content = source.read(end - start)
                if google_crc32c.value(content) != row_checksum:
                    raise DamagedFileError(f"the checksum of row {row} is wrong")
                yield self._decoded(content)

    def _decoded(self, content: bytes) -> Array:
        if len(content) == _NUMBER * prod(self._shape):
            return np.frombuffer(content, "<f8").reshape(self._shape)
        values = np.empty(self._shape)
        decode_chunk(np.frombuffer(content, np.uint8), values, len(values))
        return values

    def _read_index(self, source: BinaryIO) -> _Index:
        start = source.seek(0, os.SEEK_END) - _INDEX_ENTRY * self._n_rows
        source.seek(max(start, 0))
        content = source.read()
        if start < 0 or checksum(content) != self._index_checksum:
            raise DamagedFileError("the checksum of its index is wrong")
        n_bytes, checksums = np.frombuffer(content, "<u8").reshape(self._n_rows, 2).T
        ends = np.cumsum(n_bytes)
        if (n_bytes > start).any() or ends[-1] != start:
            raise DamagedFileError("it has another size than its index says")
        return _Index(ends - n_bytes, ends, checksums)
