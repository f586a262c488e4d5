"""Arrays in the Zarr v3 format, one chunk at a time, every chunk verified.

Any Zarr reader opens these arrays. The chunks are coded here because zarr's scheduling costs more
than the decoding: for a block of 8,192 x 136, zarr needs 8 ms to read and 25 ms to write, and this
module needs 3.9 ms and 9 ms (one core). Zarr also reads a missing chunk as fill values, without an
error; here a missing chunk is an error.

An array is chunked along its first axis only. The manifest holds the chunks' checksums too, so
that an undamaged chunk in the wrong place is noticed.
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

from dranking.files.checksums import Bytes, DamagedFileError, checksum

Array: TypeAlias = NDArray[np.float32] | NDArray[np.float64] | NDArray[np.int32] | NDArray[np.int64]

COMPRESSION_LEVEL = 5
CHECKSUM_BYTES = 4
"""Length of the CRC-32C that ends every chunk, little-endian."""

CODEC = Blosc("lz4", COMPRESSION_LEVEL, Blosc.BITSHUFFLE)
_BLOSC_SIZE = slice(4, 8)  # bytes of a Blosc header that hold the uncompressed size


def chunk_name(index: int, n_dimensions: int) -> str:
    """Name of a chunk's file inside its array's folder."""
    return f"c/{index}" + "/0" * (n_dimensions - 1)


def n_chunks(length: int, chunk_length: int) -> int:
    """Number of chunks of an array with `length` entries along its first axis."""
    return -(-length // chunk_length)


def write_array(folder: Path, values: Array, chunk_length: int) -> dict[str, str]:
    """Write an array as Zarr v3 with the codecs blosc (lz4, bitshuffle) and crc32c.

    Parameters
    ----------
    folder
        The array's folder, which this function makes.
    values
        float32, float64, int32 or int64; C-contiguous; one- or two-dimensional.
    chunk_length
        Entries of a chunk along the first axis. A shorter array is a single, smaller chunk;
        otherwise the last chunk is padded.

    Returns
    -------
    CRC-32C of each chunk by the chunk's name inside the folder.
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
    read_chunk: Callable[[str], Bytes],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    chunk_length: int,
) -> Array:
    """Read a whole array.

    Parameters
    ----------
    read_chunk
        Returns the verified content of a chunk, given the chunk's name inside the folder.
    shape, dtype
        Shape and dtype of the stored array.
    chunk_length
        The `chunk_length` that the array was written with.

    Raises
    ------
    DamagedFileError
        If a chunk cannot be decoded, or has another size than `shape` says.
    """
    values = np.empty(shape, dtype)
    length = max(1, min(chunk_length, shape[0]))
    for index in range(n_chunks(shape[0], length)):
        part = values[index * length : (index + 1) * length]
        decode_chunk(read_chunk(chunk_name(index, len(shape))), part, length)
    return values


def read_rows(
    read_chunk: Callable[[str], Bytes],
    rows: NDArray[np.intp],
    shape: tuple[int, int],
    chunk_length: int,
) -> NDArray[np.float32]:
    """Read some rows of a float32 matrix, in the order of `rows`, and only their chunks.

    Rows beyond `shape` are zeros. The other parameters are those of `read_array`.
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
            decode_chunk(content, run, length)  # the chunk in its own order needs no copy
        else:
            chunk = np.empty((length, shape[1]), np.float32)
            decode_chunk(content, chunk, length)
            values[here] = chunk[inside]
    return values


def decode_chunk(content: Bytes, out: Array, chunk_length: int) -> None:
    """Decompress the first entries of a chunk into `out`.

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


def verified_chunk(content: bytes, expected: str) -> Bytes:
    """A chunk's content without its checksum.

    Raises
    ------
    DamagedFileError
        If the checksum that ends the chunk, the checksum `expected` by the manifest, and the
        checksum of the content are not all equal.
    """
    payload = np.frombuffer(content, np.uint8)[:-CHECKSUM_BYTES]
    stored = int.from_bytes(content[-CHECKSUM_BYTES:], "little")
    if not f"{stored:08x}" == expected == checksum(payload):
        raise DamagedFileError("its checksum is wrong")
    return payload


def _fill(values: Array) -> float:
    """Fill value: NaN for floats, which cannot be mistaken for data; 0 for integers."""
    return float("nan") if values.dtype.kind == "f" else 0


def _metadata(values: Array, chunk_length: int) -> str:
    """Content of ``zarr.json`` as the Zarr v3 specification defines it."""
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
