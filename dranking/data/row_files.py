"""Files of rows: float64 arrays of one shape, compressed one by one, and read one by one.

Behind the rows stands an index, the bytes and the CRC-32C of each. Whoever keeps the checksum of
the index knows of every row whether it is as it was written, and in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import google_crc32c
import numpy as np
from numcodecs import Blosc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from dranking.data.chunks import CODEC, DamagedFileError, checksum, decode_chunk

Array = NDArray[np.float64]

WORTH_DECODING = 0.8
"""Rows that compress to more than this share are kept as they are: decoding them takes six times as
long as copying them (2.5 against 14 GB/s on a core)."""

_PLAIN = Blosc("lz4", 0)
_INDEX_ENTRY = 16  # two integers of 8 bytes


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
                content = bytes(_PLAIN.encode(values))
            out.write(content)
            index.append((len(content), google_crc32c.value(content)))
        entries = np.array(index, "<u8").tobytes()
        out.write(entries)
    return checksum(entries)


def read_rows(
    file: Path, wanted: Sequence[int], n_rows: int, shape: tuple[int, ...], index_checksum: str
) -> Array:
    """Read some rows, in the order given, and only these.

    Parameters
    ----------
    file
        As of `write_rows`.
    wanted
        Rows, from 0.
    n_rows
        All rows of the file.
    shape
        Of a row.
    index_checksum
        What `write_rows` returned.

    Returns
    -------
    (len(wanted), *shape) float64.

    Raises
    ------
    DamagedFileError
        If the index or a row is not what was written.
    OSError
        If the file cannot be read.
    """
    values = np.empty((len(wanted), *shape))
    with file.open("rb") as source:
        start = source.seek(0, os.SEEK_END) - _INDEX_ENTRY * n_rows
        source.seek(max(start, 0))
        entries = source.read()
        if checksum(entries) != index_checksum:
            raise DamagedFileError("the checksum of its index is wrong")
        index = np.frombuffer(entries, "<u8").reshape(n_rows, 2).tolist()
        starts = np.cumsum([0, *(n_bytes for n_bytes, _ in index)]).tolist()
        if starts[-1] != start:
            raise DamagedFileError("it has another size than its index says")
        for row, out in zip(wanted, values, strict=True):
            source.seek(starts[row])
            content = np.frombuffer(source.read(index[row][0]), np.uint8)
            if google_crc32c.value(content) != index[row][1]:
                raise DamagedFileError(f"the checksum of row {row} is wrong")
            decode_chunk(content, out, len(out))
    return values
