"""Files of rows: float64 arrays of one shape, each compressed and read on its own.

A row that compression hardly shortens is stored as it is, because decoding takes longer than
reading. The rows are followed by an index: size and CRC-32C of every row, (n_rows, 2) little-endian
uint64. The checksum of the index is kept outside the file, and therefore verifies every row and its
place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import prod
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dranking.data.store.zarr_arrays import CODEC, decode_chunk
from dranking.files.checksums import DamagedFileError, checksum
from dranking.files.places import Place
from dranking.files.reading import file_size, read_bytes, read_ranges

Array = NDArray[np.float64]

WORTH_DECODING = 0.8
"""Rows that compress to more than this share of their size are stored uncompressed: a core decodes
2.5 GB/s but copies 14 GB/s."""

WORTH_ENCODING = 4_096
"""Rows of at least so many bytes are compressed; a disk takes this space for less anyway."""

ROWS_AT_ONCE = 8
"""Number of rows that are read from a store at the same time."""

_NUMBER = 8  # bytes
_INDEX_ENTRY = 2 * _NUMBER


class _Index(NamedTuple):
    """(n_rows,) first byte, end and CRC-32C of each row's content."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    checksums: NDArray[np.uint64]


def write_rows(file: Path, rows: Iterable[Array]) -> str:
    """Write rows, one at a time.

    Parameters
    ----------
    file
        File to write.
    rows
        float64 arrays of one shape; at least one.

    Returns
    -------
    The checksum of the index.
    """
    index = []
    with file.open("wb") as out:
        for row in rows:
            values = np.ascontiguousarray(row)
            content = values.tobytes()
            if len(content) >= WORTH_ENCODING:
                encoded = bytes(CODEC.encode(values))
                content = encoded if len(encoded) <= WORTH_DECODING * len(content) else content
            out.write(content)
            index.append((len(content), google_crc32c.value(content)))
        entries = np.array(index, "<u8").tobytes()
        out.write(entries)
    return checksum(entries)


class RowFile:
    """Reads single rows of a file that `write_rows` wrote.

    Parameters
    ----------
    file
        The file.
    n_rows
        Number of rows in the file.
    shape
        Shape of a row.
    index_checksum
        The checksum that `write_rows` returned.
    """

    def __init__(
        self, file: Place, n_rows: int, shape: tuple[int, ...], index_checksum: str
    ) -> None:
        self._file, self._n_rows, self._shape = file, n_rows, shape
        self._index_checksum = index_checksum
        self._index: _Index | None = None

    def read(self, wanted: Iterable[int]) -> Iterator[Array]:
        """Read some rows, counted from 0, in the order of `wanted`, and no others.

        Yields
        ------
        (*shape,) float64, possibly read-only.

        Raises
        ------
        DamagedFileError
            If the index or a row differs from what was written.
        FileNotFoundError, DataError, TryAgainError
            If the file cannot be read.
        """
        index = self._index = self._index or self._read_index()
        rows = iter(wanted)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            ranges = [(int(index.starts[row]), int(index.ends[row])) for row in some]
            for row, content in zip(some, read_ranges(self._file, ranges), strict=True):
                if google_crc32c.value(content) != int(index.checksums[row]):
                    raise DamagedFileError(f"the checksum of row {row} is wrong")
                yield self._decoded(content)

    def _decoded(self, content: bytes) -> Array:
        if len(content) == _NUMBER * prod(self._shape):
            return np.frombuffer(content, "<f8").reshape(self._shape)
        values = np.empty(self._shape)
        decode_chunk(np.frombuffer(content, np.uint8), values)
        return values

    def _read_index(self) -> _Index:
        size = file_size(self._file)
        start = size - _INDEX_ENTRY * self._n_rows
        content = read_bytes(self._file, max(start, 0), size)
        if start < 0 or checksum(content) != self._index_checksum:
            raise DamagedFileError("the checksum of its index is wrong")
        n_bytes, checksums = np.frombuffer(content, "<u8").reshape(self._n_rows, 2).T
        ends = np.cumsum(n_bytes)
        if (n_bytes > start).any() or ends[-1] != start:
            raise DamagedFileError("it has another size than its index says")
        return _Index(ends - n_bytes, ends, checksums)
