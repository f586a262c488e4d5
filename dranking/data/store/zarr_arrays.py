"""Arrays in the Zarr v3 format: one object each, of chunks that are read one by one.

An array is one shard of Zarr's sharding codec: compressed chunks (blosc lz4 with bitshuffle, then
crc32c), column after column of the grid of chunks, and the shard's index. Any Zarr reader opens it;
zarr makes the metadata. The chunks are coded here, because zarr's pipeline takes 2.0 times the
processor time for all blocks of a segment of 65,280 x 136, and 1.8 times for a single block. With
plain chunks of 32 features x all documents in place of shards, zarr is as fast as this module for
all blocks (1.1), but takes 4.0 times as long for a single block, as training by random blocks reads
it, and holds a whole segment in memory instead of a block and a half
(`pipelines.benchmarks.lake`, "decoder"). Zarr also reads a missing chunk as fill values, without an
error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import google_crc32c
import numpy as np
from numcodecs import Blosc  # type: ignore[import-untyped]
from numcodecs.blosc import MAX_OVERHEAD  # type: ignore[import-untyped]
from numpy.typing import DTypeLike, NDArray

from dranking.files.checksums import Bytes, DamagedFileError

Array: TypeAlias = NDArray[np.float32] | NDArray[np.float64] | NDArray[np.int32] | NDArray[np.int64]

COMPRESSION_LEVEL = 5
CHECKSUM_BYTES = 4
"""Length of the CRC-32C that ends every chunk, little-endian."""

CODEC = Blosc("lz4", COMPRESSION_LEVEL, Blosc.BITSHUFFLE)
_METADATA = "zarr.json"
_BLOSC_SIZE = slice(4, 8)  # bytes of a Blosc header that hold the uncompressed size


class Grid(NamedTuple):
    """An array of (n_rows, n_columns) values, cut into chunks of one shape.

    Chunks that reach beyond the array are padded. A one-dimensional array counts as one row.
    """

    n_rows: int
    n_columns: int
    rows_per_chunk: int
    columns_per_chunk: int

    @property
    def n_row_groups(self) -> int:
        """Number of rows of chunks."""
        return -(-self.n_rows // self.rows_per_chunk)

    @property
    def n_column_groups(self) -> int:
        """Number of columns of chunks."""
        return -(-self.n_columns // self.columns_per_chunk)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.n_row_groups * self.n_column_groups

    @property
    def chunk_shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns of a chunk, padding included."""
        return self.rows_per_chunk, self.columns_per_chunk

    def column_groups(self, start: int, end: int) -> range:
        """Numbers of the columns of chunks that hold the columns `start` to `end` (exclusive)."""
        if start == end:
            return range(0)
        return range(start // self.columns_per_chunk, -(-end // self.columns_per_chunk))


def grid_of(n_rows: int, n_columns: int, rows_per_chunk: int, columns_per_chunk: int) -> Grid:
    """A grid whose chunks are no larger than the array."""
    rows = max(1, min(rows_per_chunk, n_rows))
    return Grid(n_rows, n_columns, rows, max(1, min(columns_per_chunk, n_columns)))


class StoredChunk(NamedTuple):
    """Offset and length in bytes of a chunk in its object, and a CRC-32C of its content.

    The CRC-32C is that of the content without the checksum at its end: the CRC-32C of bytes that
    end in their own CRC-32C is the same number for all bytes, and would not tell chunks apart.
    """

    offset: int
    length: int
    checksum: int


def write_shard(
    file: Path, grid: Grid, dtype: DTypeLike, columns: Callable[[int, int], Array]
) -> list[StoredChunk]:
    """Write an array as one object: its chunks, and the index of the shard.

    Parameters
    ----------
    file
        File to write; no file is written for an empty array.
    grid
        Shape and chunks of the array.
    dtype
        float32, float64, int32 or int64.
    columns
        `columns(start, end)` returns the columns `start` to `end` (exclusive) as an array
        (n_rows, end - start).

    Returns
    -------
    The chunks in the order in which they are written: one column of chunks after the other.
    """
    chunks: list[StoredChunk] = []
    if not grid.n_chunks:
        return chunks
    file.parent.mkdir(parents=True, exist_ok=True)
    offset = 0
    with file.open("wb") as out:
        for group in range(grid.n_column_groups):
            start = group * grid.columns_per_chunk
            part = columns(start, min(start + grid.columns_per_chunk, grid.n_columns))
            for row in range(0, grid.n_rows, grid.rows_per_chunk):
                content, checksum = _encoded(part[row : row + grid.rows_per_chunk], grid, dtype)
                out.write(content)
                chunks.append(StoredChunk(offset, len(content), checksum))
                offset += len(content)
        out.write(_shard_index(grid, chunks))
    return chunks


def _encoded(values: Array, grid: Grid, dtype: DTypeLike) -> tuple[bytes, int]:
    """Bytes of a chunk, padded and compressed, with the checksum at their end; and the checksum."""
    chunk = np.ascontiguousarray(values, dtype)
    if chunk.shape != grid.chunk_shape:
        chunk = np.full(grid.chunk_shape, fill_value(dtype), dtype)
        chunk[: values.shape[0], : values.shape[1]] = values
    content = bytes(CODEC.encode(chunk))
    checksum = google_crc32c.value(content)
    return content + checksum.to_bytes(CHECKSUM_BYTES, "little"), checksum


def _shard_index(grid: Grid, chunks: Sequence[StoredChunk]) -> bytes:
    """The index that Zarr's sharding codec reads: offset and length of each chunk, by rows."""
    places = np.array([chunk[:2] for chunk in chunks], "<u8")
    rows_first = places.reshape(grid.n_column_groups, grid.n_row_groups, 2).transpose(1, 0, 2)
    index: bytes = rows_first.tobytes()
    index += google_crc32c.value(index).to_bytes(CHECKSUM_BYTES, "little")
    return index


class ArraySpec(NamedTuple):
    """Facts of an array that its metadata states; `dimensions` names its one or two axes."""

    grid: Grid
    dtype: DTypeLike
    dimensions: tuple[str, ...]

    @property
    def max_chunk_bytes(self) -> int:
        """Bytes of a chunk that cannot be compressed, with its header and checksum."""
        rows, columns = self.grid.chunk_shape
        value_bytes = np.dtype(self.dtype).itemsize
        return rows * columns * value_bytes + int(MAX_OVERHEAD) + CHECKSUM_BYTES


def zarr_metadata(arrays: Mapping[str, ArraySpec]) -> dict[str, bytes]:
    """Content of each ``zarr.json`` of a group of arrays by its path in the group, made by zarr.

    That of the group repeats those of the arrays, as zarr's `consolidate_metadata` would: xarray
    warns where they are not there.
    """
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec
    from zarr.storage import MemoryStore

    content: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(content))
    for name, (grid, dtype, dimensions) in arrays.items():
        kind = np.dtype(dtype)
        rows, columns = grid.chunk_shape
        shard = (max(1, grid.n_row_groups) * rows, max(1, grid.n_column_groups) * columns)
        shapes = ((grid.n_rows, grid.n_columns), grid.chunk_shape, shard)
        shape, chunk, whole = (tuple(each[-len(dimensions) :]) for each in shapes)
        blosc = BloscCodec(
            typesize=kind.itemsize, cname="lz4", clevel=COMPRESSION_LEVEL, shuffle="bitshuffle"
        )
        group.create_array(
            name,
            shape=shape,
            dtype=kind,
            chunks=chunk,
            shards=whole,
            compressors=[blosc, Crc32cCodec()],
            fill_value=fill_value(kind),
            dimension_names=dimensions,
        )
    made = {name: value.to_bytes() for name, value in content.items()}
    of_arrays = {name: json.loads(made[f"{name}/{_METADATA}"]) for name in arrays}
    inside = {"kind": "inline", "must_understand": False, "metadata": of_arrays}
    of_group = {**json.loads(made[_METADATA]), "consolidated_metadata": inside}
    return {**made, _METADATA: json.dumps(of_group, indent=2).encode()}


def fill_value(dtype: DTypeLike) -> float:
    """Fill value: NaN for floats, which cannot be mistaken for data; 0 for integers."""
    return float("nan") if np.dtype(dtype).kind == "f" else 0


class ColumnReader:
    """Reads ranges of columns of an array, the ranges in ascending order; decodes each chunk once.

    Parameters
    ----------
    grid
        Shape and chunks of the array.
    dtype
        The dtype of the array.
    rows
        Rows to read, in this order; None for all. Rows beyond the end of the array are zeros.
    end
        Column at which the last range that will be read ends.
    contents
        The contents of chunks, without their checksums: for each column of chunks, from the first
        to the last that is needed, one content for each of `row_groups(grid, rows)`.

    Raises
    ------
    DamagedFileError
        By `read`, if a chunk cannot be decoded, or is of another size than the grid says.
    """

    def __init__(
        self,
        grid: Grid,
        dtype: DTypeLike,
        rows: NDArray[np.intp] | None,
        end: int,
        contents: Iterator[Sequence[Bytes]],
    ) -> None:
        self._grid, self._dtype, self._end = grid, np.dtype(dtype), end
        self._contents = contents
        self._n_rows = grid.n_rows if rows is None else len(rows)
        self._beyond = None if rows is None else np.flatnonzero(rows >= grid.n_rows)
        self._parts = _row_parts(grid, rows)
        self._scratch = np.empty(grid.chunk_shape, dtype)
        # The column of chunks that two ranges share. Its memory is used again for the next one:
        # fresh memory costs page faults, which a streamed selection feels.
        self._kept_group, self._kept = -1, self._scratch[:0]

    def read(self, start: int, end: int) -> Array:
        """(n_rows, end - start) values of the columns `start` to `end` (exclusive), C-ordered."""
        values = np.empty((self._n_rows, end - start), self._dtype)
        if self._beyond is not None and len(self._beyond):
            values[self._beyond] = 0
        width = self._grid.columns_per_chunk
        for group in self._grid.column_groups(start, end):
            left = group * width
            into = slice(max(left - start, 0), min(left + width, end) - start)
            source = slice(max(start - left, 0), min(end - left, width))
            if self._kept_group != group and left + width > end and end < self._end:
                self._keep(group)  # the next range begins in this group
            if self._kept_group == group:
                values[:, into] = self._kept[: self._n_rows, source]
            else:
                self._decode(values, into, source)
        return values

    def _keep(self, group: int) -> None:
        """Decode the next column of chunks, and keep it; without a copy where rows are in order."""
        n_rows, width = self._grid.chunk_shape
        if not len(self._kept):  # with room for the rows that pad the last chunk
            self._kept = np.zeros((self._n_rows + n_rows, width), self._dtype)
        for (inside, places), content in zip(self._parts, next(self._contents), strict=True):
            if _is_run(inside, places, n_rows, self._n_rows):
                decode_chunk(content, self._kept[places.start : places.start + n_rows])
            else:
                decode_chunk(content, self._scratch)
                self._kept[places] = self._scratch[inside]
        self._kept_group = group

    def _decode(self, values: Array, into: slice, source: slice) -> None:
        """Decode the next column of chunks into columns of `values`."""
        for (inside, places), content in zip(self._parts, next(self._contents), strict=True):
            decode_chunk(content, self._scratch)
            values[places, into] = self._scratch[inside, source]


def row_groups(grid: Grid, rows: NDArray[np.intp] | None) -> list[int]:
    """Numbers of the rows of chunks that hold rows of an array; None stands for all rows."""
    if rows is None:
        return list(range(grid.n_row_groups))
    found: list[int] = np.unique(rows[rows < grid.n_rows] // grid.rows_per_chunk).tolist()
    return found


def _row_parts(grid: Grid, rows: NDArray[np.intp] | None) -> list[tuple[Any, Any]]:
    """For each row of chunks: which rows of the chunks to read, and where these rows belong."""
    if rows is None:
        rows = np.arange(grid.n_rows)
    parts: list[tuple[Any, Any]] = []
    for group in row_groups(grid, rows):
        first = group * grid.rows_per_chunk
        here = (rows >= first) & (rows < min(first + grid.rows_per_chunk, grid.n_rows))
        parts.append((_as_slice(rows[here] - first), _as_slice(np.flatnonzero(here))))
    return parts


def _as_slice(positions: NDArray[np.intp]) -> Any:
    """Positions as a slice if they follow each other, since copies of slices are faster."""
    if (np.diff(positions) == 1).all():
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def _is_run(inside: Any, places: Any, n_chunk: int, n_rows: int) -> bool:
    """Whether the first rows of a chunk belong one after the other, and no row behind them is lost.

    Parameters
    ----------
    inside, places
        A part of `_row_parts`.
    n_chunk, n_rows
        Rows of a chunk, and rows to read.
    """
    if not (isinstance(inside, slice) and isinstance(places, slice) and inside.start == 0):
        return False
    return bool(inside.stop == n_chunk or places.stop == n_rows)


def decode_chunk(content: Bytes, out: Array) -> None:
    """Decompress a chunk into `out`.

    Raises
    ------
    DamagedFileError
        If the chunk cannot be decompressed, or has another size than `out`.
    """
    if int.from_bytes(content[_BLOSC_SIZE].tobytes(), "little") != out.nbytes:
        raise DamagedFileError("it has another size than it should have")
    try:
        CODEC.decode(content, out)
    except (RuntimeError, ValueError) as error:
        raise DamagedFileError(f"cannot be decompressed: {error}") from error


def verified_chunk(content: Bytes, chunk: StoredChunk) -> Bytes:
    """A chunk's content without its checksum.

    Raises
    ------
    DamagedFileError
        If the length is not what was written, or if the checksum that ends the content, the
        checksum that was noted, and the checksum of the content are not all equal.
    """
    if len(content) != chunk.length or chunk.length < CHECKSUM_BYTES:
        raise DamagedFileError("its length is wrong")
    payload = content[:-CHECKSUM_BYTES]
    stored = int.from_bytes(content[-CHECKSUM_BYTES:].tobytes(), "little")
    if not stored == chunk.checksum == google_crc32c.value(payload):
        raise DamagedFileError("its checksum is wrong")
    return payload
