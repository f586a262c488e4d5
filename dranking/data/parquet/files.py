"""Ranges of rows of parquet files that together are one table."""

from __future__ import annotations

import hashlib
import re
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dranking.errors import DataError
from dranking.files.places import Place, is_local
from dranking.files.reading import list_files, open_input, read_bytes
from dranking.files.requests import request

BATCH_ROWS = 8_192
"""Rows decoded at a time if only a part of a row group is read."""

FOOTER_BYTES = 65_536
"""Bytes read at the end of a file to find the footer; a longer footer is read once more."""

BUFFER_BYTES = 65_536
"""Bytes read ahead per column; without this limit, a row group's columns are read whole."""


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
    """

    place: Place
    digest: str
    group_ptr: tuple[int, ...]
    constants: tuple[tuple[str, float], ...] = ()

    @property
    def path(self) -> str:
        """Path or URL of the file."""
        return str(self.place)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.group_ptr[-1]


class ParquetFiles:
    """Several files with the rows of one table.

    The object is small; a pickled copy opens the files again.

    A column that some file lacks is null in the rows of that file.

    Parameters
    ----------
    parts
        The files, in order.
    dictionaries
        Columns of text that `read` returns as dictionaries, where it reads whole row groups.
    """

    def __init__(self, parts: Sequence[ParquetPart], dictionaries: Sequence[str] = ()) -> None:
        self.dictionaries = tuple(dictionaries)
        self.parts = tuple(parts)
        sizes = [part.n_rows for part in self.parts]
        self._starts = np.concatenate(([0], np.cumsum(sizes))).tolist()

    @property
    def n_rows(self) -> int:
        """Number of rows of all files."""
        return int(self._starts[-1])

    def place(self, row: int) -> str:
        """A row's file and position in that file, for an error."""
        index = self._index(row)
        return f"{self.parts[index].path}: row {row - self._starts[index]}"

    @property
    def group_borders(self) -> tuple[int, ...]:
        """First row of each row group of each file, ascending, then the number of rows."""
        firsts = [
            s + g for p, s in zip(self.parts, self._starts, strict=False) for g in p.group_ptr
        ]
        return tuple(dict.fromkeys([0, *firsts]))

    def digests(self) -> Iterator[str]:
        """Hex digest of the content of each file, which is read whole.

        The footers are not enough: two files that differ in a value inside the column's range can
        have the same footer, and tools copy a writer's metadata into the files that they derive.
        """
        for part in self.parts:
            _open(part).close()  # raises if the file was replaced
            with _explained(part.path), open_input(part.place) as file:
                yield hashlib.file_digest(file, "blake2b").hexdigest()

    def read(self, start: int, stop: int, columns: Sequence[str]) -> list[pa.Table]:
        """Read the rows from start to stop in pieces, across row groups and files.

        Reading a part of a row group decodes and drops the rows before the part. The next call of
        the same thread continues there if it reads the rows that follow, so that reading blocks in
        order costs one pass, however large the row groups are.

        Raises
        ------
        DataError
            If a file is damaged or was replaced.
        """
        pieces = []
        while start < stop:
            index = self._index(start)
            part, offset = self.parts[index], self._starts[index]
            group = bisect_right(part.group_ptr, start - offset) - 1
            first, last = part.group_ptr[group], part.group_ptr[group + 1]
            end = min(stop - offset, last)
            with _explained(part.path, group):
                if (start - offset, end) == (first, last):
                    opened = _open(part, self.dictionaries)
                    table = opened.read_row_group(group, columns=columns, use_threads=False)
                else:
                    table = _read_rows(part, group, tuple(columns), start - offset, end)
                pieces.append(_with_columns(table, part, columns))
            start = offset + end
        return pieces

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """All rows of some columns, in pieces, each with the number of its first row."""
        for part, offset in zip(self.parts, self._starts, strict=False):
            row = offset
            with _explained(part.path):
                batches = _open(part).iter_batches(
                    batch_size=16 * BATCH_ROWS, columns=columns, use_threads=False
                )
                for batch in batches:
                    yield row, _with_columns(pa.Table.from_batches([batch]), part, columns)
                    row += batch.num_rows

    def _index(self, row: int) -> int:
        """Index of the file that holds a row."""
        return bisect_right(self._starts, row, hi=len(self.parts)) - 1


class _Cursor:
    """Decodes the rows of a row group in order and keeps rows that were not read yet."""

    def __init__(self, part: ParquetPart, group: int, columns: tuple[str, ...]) -> None:
        self.key = (part, group, columns)
        self.row, self.last_row = part.group_ptr[group : group + 2]
        self._columns = list(columns)
        self._batches = _open(part).iter_batches(
            batch_size=BATCH_ROWS, row_groups=[group], columns=self._columns, use_threads=False
        )
        self._rest: pa.Table | None = None

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows of the file from start, which is at least `row`, to stop."""
        self._take(start - self.row)
        return pa.concat_tables(self._take(stop - self.row))

    def _take(self, n_rows: int) -> list[pa.Table]:
        """The next `n_rows` rows, in pieces."""
        taken = []
        while n_rows:
            if self._rest is None or not self._rest.num_rows:
                batch = next(self._batches, None)
                if batch is None:
                    raise pa.ArrowInvalid("a row group has fewer rows than the footer says")
                self._rest = pa.Table.from_batches([batch])
            taken.append(self._rest.slice(0, n_rows))
            self._rest = self._rest.slice(taken[-1].num_rows)
            n_rows -= taken[-1].num_rows
            self.row += taken[-1].num_rows
        return taken


# Every thread has its own cursor, which is an open file and a batch: pyarrow readers are not
# thread-safe.
_local = threading.local()


def _read_rows(
    part: ParquetPart, group: int, columns: tuple[str, ...], start: int, stop: int
) -> pa.Table:
    """Rows of a row group, read by the thread's cursor if the cursor is not beyond these rows."""
    cursor: _Cursor | None = getattr(_local, "cursor", None)
    _local.cursor = None  # an error below must not leave a cursor behind
    if cursor is None or cursor.key != (part, group, columns) or cursor.row > start:
        cursor = _Cursor(part, group, columns)
    table = cursor.read(start, stop)
    if cursor.row < cursor.last_row:
        _local.cursor = cursor
    return table


def _with_columns(table: pa.Table, part: ParquetPart, columns: Sequence[str]) -> pa.Table:
    """The columns in order; those that the file lacks have their constant, or are null."""
    constants = dict(part.constants)
    for name in columns:
        if name not in table.column_names:
            values = pa.repeat(pa.scalar(constants.get(name), pa.float64()), table.num_rows)
            table = table.append_column(name, values)
    return table.select(columns)


def list_parquet(place: Place) -> list[Place]:
    """The files ``*.parquet`` of a directory and of those below it, in natural order; or the file.

    Files and directories whose names begin with a dot or an underscore are passed over. Numbers in
    names are in numerical order, so that part.2 comes before part.10.

    Raises
    ------
    DataError
        If the directory has no such files, or is a Delta, Iceberg or Hudi table.
    """
    if is_local(place) and not place.is_dir():
        return [place]  # whatever its name; opening it says if it is not there
    files = list_files(place)
    _check_no_table_format(place, files)
    named = [file for file in files if file.name.endswith(".parquet")]
    if not named and place.suffix == ".parquet":
        return [place]
    below = {file: parts_below(file, place) for file in named}
    found = [file for file in named if not any(part[0] in "._" for part in below[file])]
    if not found:
        raise DataError(
            f"{place}: the directory has no files *.parquet; give a directory that has."
        )
    return sorted(found, key=lambda file: [_natural_key(part) for part in below[file]])


_FOLDERS_OF_FORMATS = {"_delta_log": "Delta", ".hoodie": "Hudi"}


def _check_no_table_format(place: Place, files: Sequence[Place]) -> None:
    """Raise DataError if the files are those of a table whose log says which of them count."""
    for file in files:
        *folders, name = parts_below(file, place)
        kind = next((_FOLDERS_OF_FORMATS[f] for f in folders if f in _FOLDERS_OF_FORMATS), None)
        if folders[-1:] == ["metadata"] and name.endswith(".metadata.json"):
            kind = "Iceberg"
        if kind is not None:
            raise DataError(
                f"{place} is the folder of a table in the {kind} format, for it has "
                f"{'/'.join([*folders, name])}: the parquet files also hold rows that the table "
                "has no longer. Open the table with a library for the format, and pass it in "
                "Python as an Arrow data set or reader, as "
                "dr.ingest(DeltaTable(PATH).to_pyarrow_dataset(), OUTPUT) does."
            )


def parts_below(file: Place, folder: Place) -> tuple[str, ...]:
    """Names of the directories between a folder and a file in it, then the file's name."""
    path, above = (p.as_posix() if is_local(p) else p.path for p in (file, folder))
    return PurePosixPath(path).relative_to(above).parts


def _natural_key(name: str) -> list[tuple[int, str]]:
    return [(int(t), "") if t.isdecimal() else (-1, t) for t in re.split(r"(\d+)", name)]


def read_part(place: Place) -> ParquetPart:
    """Read the footer of a file.

    Raises
    ------
    DataError
        If the file does not exist or is not parquet.
    """
    metadata, digest = _footer_of(place)
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    return ParquetPart(place, digest, (0, *np.cumsum(sizes, dtype=np.int64).tolist()))


def _open(part: ParquetPart, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    metadata, digest = _footer_of(part.place)
    if digest != part.digest:
        raise DataError(f"{part.path}: was replaced since it was opened. Open the data again.")
    local = is_local(part.place)
    return pq.ParquetFile(
        part.path if local else open_input(part.place),
        metadata=metadata,
        read_dictionary=list(dictionaries),
        buffer_size=BUFFER_BYTES if local else 0,
        pre_buffer=not local,
        page_checksum_verification=True,
    )


def read_schema(place: Place) -> pa.Schema:
    """Arrow schema of a file, with its metadata."""
    with _explained(str(place)):
        metadata, _ = _footer_of(place)
        schema = metadata.schema.to_arrow_schema()
        return schema.with_metadata({**(schema.metadata or {}), **(metadata.metadata or {})})


def _footer_of(place: Place) -> tuple[pq.FileMetaData, str]:
    with _explained(str(place)):
        if is_local(place):
            status = place.stat()
            return _read_footer(place, status.st_size, str(status.st_mtime_ns))
        info = request(place, lambda: place.fs.info(place.path))
        version = info.get("ETag") or info.get("mtime") or info.get("created")
        return _read_footer(place, info["size"], str(version))


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
def _explained(path: str, group: int | None = None) -> Iterator[None]:
    """Convert errors of reading a file to a DataError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file.") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        where = "" if group is None else f" in row group {group}"
        raise DataError(
            f"{path}: cannot be read as parquet, it may be damaged{where} ({error}). "
            "Copy or write the file again."
        ) from error
