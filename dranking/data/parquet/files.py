"""Ranges of rows of parquet files that together are one table."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dranking.errors import DataError
from dranking.files.commit import AnyPath

BATCH_ROWS = 8_192
"""Rows decoded at a time if only a part of a row group is read."""

BUFFER_BYTES = 65_536
"""Bytes read ahead per column; without this limit, a row group's columns are read whole."""


@dataclass(frozen=True)
class ParquetPart:
    """One parquet file.

    Attributes
    ----------
    path
        Path of the file.
    digest
        Digest of the file's footer and size, to notice that the file was replaced.
    group_ptr
        (n_row_groups + 1,) first row of each row group, then the number of rows.
    """

    path: str
    digest: str
    group_ptr: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.group_ptr[-1]


class ParquetFiles:
    """Several files with the rows of one table.

    The object is small; a pickled copy opens the files again.

    Parameters
    ----------
    source
        A file, a directory, or several of these in order. Of a directory, the files
        ``*.parquet`` are read, sorted by name with numbers in numerical order.

    Raises
    ------
    DataError
        If a file does not exist or is not parquet.
    """

    def __init__(self, source: AnyPath | Sequence[AnyPath]) -> None:
        self.parts = tuple(_part(str(path)) for path in _paths(source))
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

    def schemas(self) -> list[tuple[str, pa.Schema]]:
        """Path and Arrow schema of each file, with its metadata."""
        return [(part.path, _schema(part.path)) for part in self.parts]

    def digests(self) -> Iterator[str]:
        """Hex digest of the content of each file, which is read whole.

        The footers are not enough: two files that differ in a value inside the column's range can
        have the same footer, and tools copy a writer's metadata into the files that they derive.
        """
        for part in self.parts:
            _open(part).close()  # raises if the file was replaced
            with _explained(part.path), open(part.path, "rb") as file:
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
                    table = _open(part).read_row_group(group, columns=columns, use_threads=False)
                    pieces.append(table.select(columns))
                else:
                    pieces.append(_read_rows(part, group, tuple(columns), start - offset, end))
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
                    yield row, pa.Table.from_batches([batch]).select(columns)
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
                self._rest = pa.Table.from_batches([batch]).select(self._columns)
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


def _paths(source: AnyPath | Sequence[AnyPath]) -> list[Path]:
    given = [source] if isinstance(source, str | os.PathLike) else source
    paths = [file for path in given for file in _files_at(Path(path).absolute())]
    if not paths:
        raise DataError("no parquet file is named; give a file or a directory.")
    return paths


def _files_at(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [p for p in path.glob("*.parquet") if p.is_file() and p.name[0] not in "._"]
    if not files:
        raise DataError(f"{path}: the directory has no files *.parquet; give a directory that has.")
    return sorted(files, key=lambda p: _natural_key(p.name))


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Sort key with numbers in numerical order: part.2 comes before part.10."""
    return [(int(t), "") if t.isdecimal() else (-1, t) for t in re.split(r"(\d+)", name)]


def _part(path: str) -> ParquetPart:
    metadata, digest = _footer_of(path)
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    return ParquetPart(path, digest, (0, *np.cumsum(sizes, dtype=np.int64).tolist()))


def _open(part: ParquetPart) -> pq.ParquetFile:
    metadata, digest = _footer_of(part.path)
    if digest != part.digest:
        raise DataError(f"{part.path}: was replaced since it was opened. Open the data again.")
    return pq.ParquetFile(
        part.path,
        metadata=metadata,
        buffer_size=BUFFER_BYTES,
        pre_buffer=False,
        page_checksum_verification=True,
    )


def _schema(path: str) -> pa.Schema:
    with _explained(path):
        metadata, _ = _footer_of(path)
        schema = metadata.schema.to_arrow_schema()
        return schema.with_metadata({**(schema.metadata or {}), **(metadata.metadata or {})})


def _footer_of(path: str) -> tuple[pq.FileMetaData, str]:
    with _explained(path):
        status = os.stat(path)
        return _read_footer(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _read_footer(path: str, size: int, modified: int) -> tuple[pq.FileMetaData, str]:
    """Metadata and digest of a file's footer; size and modification time are the cache's key."""
    with open(path, "rb") as file:
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - 8 - length, 0))
        digest = hashlib.blake2b(file.read(), digest_size=16)
    digest.update(size.to_bytes(8, "little"))
    return pq.read_metadata(path), digest.hexdigest()


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
