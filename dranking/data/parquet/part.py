"""One parquet file: its footer, and opening it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dranking.data.roles import Columns
from dranking.data.tables.vectors import read_widths, stored_names, vectors_to_read, width_of
from dranking.errors import DataError
from dranking.files.places import Place, is_local
from dranking.files.reading import open_input, read_bytes
from dranking.files.requests import request

FOOTER_BYTES = 65_536
"""Bytes read at the end of a file to find the footer; a longer footer is read once more."""

BUFFER_BYTES = 65_536
"""Bytes read ahead per column; without this limit, a row group's columns are read whole."""

FIRST_LISTS = 64
"""Rows that are read at a time to find the length of the lists of a column."""

MAX_PAGE_BYTES = 6 * 10**6
"""Most memory that the pages of a column take at a time, if they have the usual megabyte."""


NUMBERS = ("INT32", "INT64", "DOUBLE", "FIXED_LEN_BYTE_ARRAY")
"""Physical types of numbers that float32 may merge; decimals are among them."""


@dataclass(frozen=True)
class ParquetPart:
    """One parquet file.

    Attributes
    ----------
    place
        The file.
    digest
        Digest of the file's footer and size, to notice that the file was replaced.
    group_ptr
        (n_row_groups + 1,) first row of each row group, then the number of rows.
    constants
        Columns that the file does not hold, with the value that they have in all rows.
    vectors
        Columns of lists and their length, whose elements are columns.
    title
        Name in errors of what the file is a piece of; empty for the path.
    first_row
        Number of the first row in what the title names.
    """

    place: Place
    digest: str
    group_ptr: tuple[int, ...]
    constants: tuple[tuple[str, float], ...] = ()
    vectors: tuple[tuple[str, int], ...] = ()
    title: str = ""
    first_row: int = 0

    @property
    def name(self) -> str:
        """Name in errors about the rows."""
        return self.title or self.path

    def stored(self, columns: Sequence[str]) -> list[str]:
        """The columns to read from the file: a column of lists for its elements."""
        return stored_names(columns, dict(self.vectors))

    @property
    def path(self) -> str:
        """Path or URL of the file."""
        return str(self.place)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.group_ptr[-1]


def read_part(place: Place) -> tuple[ParquetPart, pa.Schema]:
    """Read the footer of a file: its row groups, and its Arrow schema with its metadata.

    Raises
    ------
    DataError
        If the file does not exist or is not parquet.
    """
    found = read_footer(place)
    return found.part, found.schema


class Footer(NamedTuple):
    """A file with its row groups, its Arrow schema with its metadata, and its other metadata."""

    part: ParquetPart
    schema: pa.Schema
    metadata: pq.FileMetaData


def read_footer(place: Place) -> Footer:
    """Read the footer of a file; `read_part` says what is raised."""
    with explained(str(place)):
        metadata, digest, _ = _footer_of(place)
        sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        schema = metadata.schema.to_arrow_schema()
        schema = schema.with_metadata({**(schema.metadata or {}), **(metadata.metadata or {})})
    group_ptr = (0, *np.cumsum(sizes, dtype=np.int64).tolist())
    return Footer(ParquetPart(place, digest, group_ptr), schema, metadata)


def vector_widths(footer: Footer, columns: Columns) -> dict[str, int]:
    """Length of the first list of each column of lists that is read, and has one."""
    names = vectors_to_read(footer.schema, columns)
    if not names or not footer.part.n_rows:
        return {}
    with explained(footer.part.path):
        file = open_part(footer.part)
        found = {name: width_of(_lists(file, name)) for name in names}
    return read_widths({name: width for name, width in found.items() if width}, columns)


def _lists(file: pq.ParquetFile, name: str) -> Iterator[pa.Array]:
    for batch in file.iter_batches(batch_size=FIRST_LISTS, columns=[name], use_threads=False):
        yield batch.column(0)


def column_bytes(footer: Footer) -> NDArray[np.int64]:
    """Estimated memory of a reader that is open in the largest row group, by column.

    Returns
    -------
    (n_columns,) int64 bytes of each column of the schema.

    Raises
    ------
    DataError
        If the footer is damaged.
    """
    metadata, names = footer.metadata, footer.schema.names
    found = np.zeros(len(names), np.int64)
    if not metadata.num_row_groups:
        return found
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    largest = max(groups, key=lambda group: group.total_byte_size)
    position = {name: number for number, name in enumerate(names)}
    with explained(footer.part.path):
        for leaf in map(largest.column, range(metadata.num_columns)):
            path = leaf.path_in_schema  # of the values of a list, it begins with the column's name
            number = position.get(path, position.get(path.split(".")[0]))
            if number is not None:
                found[number] += _reader_bytes(leaf)
    return found


def column_ranges(footer: Footer, of_all: bool) -> NDArray[np.float64]:
    """Range of the 64-bit, whole and decimal numbers of each column.

    Parameters
    ----------
    footer
        The file.
    of_all
        Whether all row groups count, or the first and last alone, which tell how far values lie.

    Returns
    -------
    (n_columns, 2) float64 least and largest value; NaN where the footer does not say, and infinity
    and its negative where there is no value.

    Raises
    ------
    DataError
        If the footer is damaged.
    """
    metadata, names = footer.metadata, footer.schema.names
    found: dict[int, list[tuple[float, float]]] = {}
    position = {name: number for number, name in enumerate(names)}
    with explained(footer.part.path):
        ends = range(metadata.num_row_groups)
        for group in ends if of_all else {*ends[:1], *ends[-1:]}:
            row_group = metadata.row_group(group)
            for leaf in map(row_group.column, range(metadata.num_columns)):
                number = position.get(leaf.path_in_schema)
                if number is not None and leaf.physical_type in NUMBERS:
                    found.setdefault(number, []).append(_chunk_range(leaf, metadata.created_by))
    ranges = np.full((len(names), 2), np.nan)
    for number, of_groups in found.items():
        low, high = np.array(of_groups, dtype=np.float64).T
        ranges[number] = low.min(), high.max()  # NaN if one of them is
    return ranges


def _chunk_range(column: pq.ColumnChunkMetaData, writer: str | None) -> tuple[float, float]:
    """Least and largest value of a column of a row group, see `column_ranges`."""
    known = column.statistics
    if known is None:
        return np.nan, np.nan
    if known.has_min_max:
        low, high = known.min, known.max
        is_known = isinstance(low, int | float | Decimal)
        return (float(low), float(high)) if is_known else (np.nan, np.nan)
    is_empty = known.has_null_count and known.num_values == 0
    # Arrow passes over NaN, other writers then leave out the statistics of the others, too.
    is_empty |= (writer or "").startswith("parquet-cpp-arrow")
    return (np.inf, -np.inf) if is_empty else (np.nan, np.nan)


def _reader_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Estimated memory that a reader takes for a column of a row group, in bytes.

    Every page is in memory compressed and decompressed, and a dictionary decoded besides. Measured
    on 136 columns of 8,192 to 1,048,576 distinct floats: 2.0 to 2.6 times the bytes of the column
    with dictionaries, 1.7 times without, up to 7 and 4.4 MB.
    """
    first = column.dictionary_page_offset
    dictionary = 0 if first is None else column.data_page_offset - first
    sizes = (2 * column.total_uncompressed_size, dictionary)
    return sum(min(max(size, 0), MAX_PAGE_BYTES) for size in sizes)  # footers may be damaged


def open_part(part: ParquetPart, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file; columns of text that are named are read as dictionaries.

    Raises
    ------
    DataError
        If the file is gone, damaged, or was replaced.
    """
    metadata, digest, size = _footer_of(part.place)
    if digest != part.digest:
        raise DataError(f"{part.path}: was replaced since it was opened. Open the data again.")
    local = is_local(part.place)
    return pq.ParquetFile(
        part.path if local else open_input(part.place, size),
        metadata=metadata,
        read_dictionary=list(dictionaries),
        buffer_size=BUFFER_BYTES if local else 0,
        pre_buffer=not local,
        page_checksum_verification=True,
    )


def _footer_of(place: Place) -> tuple[pq.FileMetaData, str, int]:
    """Metadata of a file, digest of its footer, and its size; a store is asked for it once."""
    with explained(str(place)):
        if is_local(place):
            status = place.stat()
            size, version = status.st_size, str(status.st_mtime_ns)
        else:
            info = request(place, lambda: place.fs.info(place.path))
            size = info["size"]
            version = str(info.get("ETag") or info.get("mtime") or info.get("created"))
        return *_read_footer(place, size, version), size


@lru_cache(maxsize=64)
def _read_footer(place: Place, size: int, version: str) -> tuple[pq.FileMetaData, str]:
    """Metadata and digest of a file's footer; size and version are the cache's key."""
    tail = read_bytes(place, max(size - FOOTER_BYTES, 0), size)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if len(tail) < length <= size:
        tail = read_bytes(place, size - length, size)
    digest = hashlib.blake2b(tail[-length:], digest_size=16)
    digest.update(size.to_bytes(8, "little"))
    # pyarrow looks for the footer at the end of the file; the footer's places count from its start.
    return pq.read_metadata(pa.BufferReader(tail)), digest.hexdigest()


@contextmanager
def explained(path: str, group: int | None = None) -> Iterator[None]:
    """Convert errors of reading a file to a DataError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file.") from error
    except (OSError, pa.ArrowException, UnicodeError) as error:
        where = "" if group is None else f" in row group {group}"
        raise DataError(
            f"{path}: cannot be read as parquet, it may be damaged{where} ({error}). "
            "Copy or write the file again."
        ) from error
