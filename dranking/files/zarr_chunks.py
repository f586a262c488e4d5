"""Zarr v3 arrays in a folder: written and read a chunk at a time, every chunk verified.

The format is Zarr's and any Zarr reader opens it; the chunks are coded here because zarr's own
scheduling costs more than decoding them: 8 milliseconds for a block of 8,192 x 136 against 3.9
(and 25 against 9 for writing), on one core. A chunk Zarr finds missing reads as fill values
without any error; here it is an error.

An array is chunked along its first axis only. The chunks' checksums are also kept in the manifest,
so that a chunk that is whole but belongs elsewhere is found too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import google_crc32c
import numpy as np
from numcodecs import Blosc  # type: ignore[import-untyped]
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[np.float32] | NDArray[np.float64] | NDArray[np.int32] | NDArray[np.int64]
Buffer: TypeAlias = NDArray[np.uint8]  # a slice of it is no copy, other than of bytes

COMPRESSION_LEVEL = 5
CHECKSUM_BYTES = 4

CODEC = Blosc("lz4", COMPRESSION_LEVEL, Blosc.BITSHUFFLE)
_BLOSC_SIZE = slice(4, 8)  # where blosc's header says how many bytes are compressed in it


class DamagedFileError(Exception):
    """A file is not what was written; the message says how, without naming it."""


def checksum(content: bytes | Buffer) -> str:
    """CRC-32C as 8 hex digits."""
    return f"{google_crc32c.value(content):08x}"


def chunk_name(index: int, n_dimensions: int) -> str:
    """File of a chunk inside its array's folder."""
    return f"c/{index}" + "/0" * (n_dimensions - 1)


def n_chunks(length: int, chunk_length: int) -> int:
    """How many chunks hold `length` entries of the first axis."""
    return -(-length // chunk_length)


def write_array(folder: Path, values: Array, chunk_length: int) -> dict[str, str]:
    """Write an array as Zarr v3: blosc (lz4, bitshuffle), then crc32c.

    Parameters
    ----------
    folder
        The array's folder; made here.
    values
        float32, float64, int32 or int64, C-contiguous, one- or two-dimensional.
    chunk_length
        Entries of the first axis in a chunk. An array that is shorter has one smaller chunk;
        else the last one is filled up.

    Returns
    -------
    Checksum of each chunk by its name inside the folder.
    """
    length = max(1, min(chunk_length, len(values)))
    folder.mkdir()
    (folder / "zarr.json").write_text(_metadata(values, length))
    checksums = {}
    for index in range(n_chunks(len(values), length)):
        chunk = values[index * length : (index + 1) * length]
        if len(chunk) < length:
            rest = np.full((length - len(chunk), *values.shape[1:]), _fill(values), values.dtype)
            chunk = np.concatenate([chunk, rest])
        content = bytes(CODEC.encode(chunk))
        crc = google_crc32c.value(content)
        name = chunk_name(index, values.ndim)
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content + crc.to_bytes(CHECKSUM_BYTES, "little"))
        checksums[name] = f"{crc:08x}"
    return checksums


def read_array(
    read_chunk: Callable[[str], Buffer],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    chunk_length: int,
) -> Array:
    """Read a whole array.

    Parameters
    ----------
    read_chunk
        From the name of a chunk inside the array's folder to its verified content.
    shape
        Of the result.
    dtype
        As stored.
    chunk_length
        As given when it was written.
    """
    values = np.empty(shape, dtype)
    length = max(1, min(chunk_length, shape[0]))
    for index in range(n_chunks(shape[0], length)):
        part = values[index * length : (index + 1) * length]
        decode_chunk(read_chunk(chunk_name(index, len(shape))), part, length)
    return values


def read_rows(
    read_chunk: Callable[[str], Buffer],
    rows: NDArray[np.intp],
    shape: tuple[int, int],
    chunk_length: int,
) -> NDArray[np.float32]:
    """Read some rows of a float32 matrix, in the order given, and only the chunks they are in.

    Rows beyond `shape` are zeros. See `read_array` for the other parameters.
    """
    values = np.empty((len(rows), shape[1]), np.float32)
    values[rows >= shape[0]] = 0.0
    length = max(1, min(chunk_length, shape[0]))
    home = np.where(rows < shape[0], rows // length, -1)
    for index in np.unique(home[home >= 0]).tolist():
        content = read_chunk(chunk_name(index, 2))
        here = np.flatnonzero(home == index)
        inside = rows[here] - index * length
        run = values[here[0] : here[0] + len(here)]
        if np.array_equal(inside, np.arange(len(here))) and here[-1] - here[0] < len(here):
            decode_chunk(content, run, length)  # no copy where the chunk is wanted as it is
        else:
            chunk = np.empty((length, shape[1]), np.float32)
            decode_chunk(content, chunk, length)
            values[here] = chunk[inside]
    return values


def decode_chunk(content: Buffer, out: Array, chunk_length: int) -> None:
    """Decompress a chunk into `out`, which holds its first entries.

    Raises
    ------
    DamagedFileError
        If the chunk has another size than the manifest says.
    """
    whole = len(out) == chunk_length
    target = out if whole else np.empty((chunk_length, *out.shape[1:]), out.dtype)
    try:
        if int.from_bytes(content[_BLOSC_SIZE].tobytes(), "little") != target.nbytes:
            raise DamagedFileError("it has another size than the manifest says")
        CODEC.decode(content, target)
    except (RuntimeError, ValueError) as error:
        raise DamagedFileError(f"cannot be decompressed: {error}") from error
    if not whole:
        out[:] = target[: len(out)]


def verified_chunk(content: bytes, expected: str) -> Buffer:
    """The chunk without its checksum.

    Raises
    ------
    DamagedFileError
        If the content does not have the checksum that is stored behind it and in the manifest.
    """
    payload = np.frombuffer(content, np.uint8)[:-CHECKSUM_BYTES]
    stored = int.from_bytes(content[-CHECKSUM_BYTES:], "little")
    if not f"{stored:08x}" == expected == checksum(payload):
        raise DamagedFileError("its checksum is wrong")
    return payload


def _fill(values: Array) -> float:
    """What absent entries are: NaN, so that they never pass for data; integers have only 0."""
    return float("nan") if values.dtype.kind == "f" else 0


def _metadata(values: Array, chunk_length: int) -> str:
    """Content of zarr.json, by the Zarr v3 specification."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": values.shape,
        "data_type": values.dtype.name,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [chunk_length, *values.shape[1:]]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if values.dtype.kind == "f" else 0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {
                "name": "blosc",
                "configuration": {
                    "cname": "lz4",
                    "clevel": COMPRESSION_LEVEL,
                    "shuffle": "bitshuffle",
                    "typesize": values.dtype.itemsize,
                    "blocksize": 0,
                },
            },
            {"name": "crc32c"},
        ],
        "attributes": {},
    }
    return json.dumps(document, indent=1)
