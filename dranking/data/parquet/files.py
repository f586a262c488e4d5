"""Rows of parquet files that are one table, read where they lie."""

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
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dranking.errors import DataError

AnyPath: TypeAlias = str | os.PathLike[str]

BATCH_ROWS = 8_192
"""Rows decoded at a time where part of a row group is wanted."""

BUFFER_BYTES = 65_536
"""Bytes read ahead per column; without it a row group's columns are read whole."""


@dataclass(frozen=True)
class ParquetPart:
    """One file.

    Attributes
    ----------
    path
        Where it is.
    digest
        Of its footer, to notice that it was replaced.
    group_ptr
        (n_row_groups + 1,) first row of each row group in the file, then the number of rows.
    """

    path: str
    digest: str
    group_ptr: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.group_ptr[-1]


class ParquetFiles:
    """Several files with the rows of one table; small, and opened anew wherever it is pickled to.

    Parameters
    ----------
    source
        A file; a directory, of which the files ``*.parquet`` count, numbers in their names in
        numerical order; or a list of files in order.

    Raises
    ------
    DataError
        If a file is not there or is not parquet.
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
        """File and row in it, both for a message."""
        index = self._index(row)
        return f"{self.parts[index].path}: row {row - self._starts[index]}"

    def schemas(self) -> list[tuple[str, pa.Schema]]:
        """Path and Arrow schema of each file, with its metadata."""
        return [(part.path, _schema(part.path)) for part in self.parts]

    def digests(self) -> Iterator[str]:
        """Hex digest of the bytes of each file; reads them.

        Footers do not tell two files apart that differ in a value between the extremes, and what
        a writer notes in the metadata, other tools copy into the files they derive.
        """
        for part in self.parts:
            _open(part).close()  # is it still the one that was opened?
            with _explained(part.path), open(part.path, "rb") as file:
                yield hashlib.file_digest(file, "blake2b").hexdigest()

    def read(self, start: int, stop: int, columns: Sequence[str]) -> list[pa.Table]:
        """Read rows start to stop, which lie in any number of row groups and files, in pieces.

        Of a row group that is wanted in part, rows before the part are decoded and dropped; but
        the next call of the same thread, if it wants the rows that follow, goes on from there. So
        reading blocks in order costs one pass, however large the row groups.

        Raises
        ------
        DataError
            If a file is damaged, or is not the one that was opened.
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
        """All rows of a few columns, in order, with the number of the first row of each piece."""
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
        """Which file holds a row."""
        return bisect_right(self._starts, row, hi=len(self.parts)) - 1


class _Cursor:
    """Decodes the rows of a row group in order, keeping those not asked for yet."""

    def __init__(self, part: ParquetPart, group: int, columns: tuple[str, ...]) -> None:
        self.key = (part, group, columns)
        self.row, self.last_row = part.group_ptr[group : group + 2]
        self._columns = list(columns)
        self._batches = _open(part).iter_batches(
            batch_size=BATCH_ROWS, row_groups=[group], columns=self._columns, use_threads=False
        )
        self._rest: pa.Table | None = None

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows start to stop of the file; start is at least `row`."""
        self._take(start - self.row)
        return pa.concat_tables(self._take(stop - self.row))

    def _take(self, n_rows: int) -> list[pa.Table]:
        """The next rows, in pieces."""
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


# One per thread, because a pyarrow reader serves one at a time. It holds a batch and an open file.
_local = threading.local()


def _read_rows(
    part: ParquetPart, group: int, columns: tuple[str, ...], start: int, stop: int
) -> pa.Table:
    """Rows of a row group, by the thread's cursor if it has not passed them yet."""
    cursor: _Cursor | None = getattr(_local, "cursor", None)
    _local.cursor = None  # also what an error leaves
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
        raise DataError("no parquet file is named.")
    return paths


def _files_at(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [p for p in path.glob("*.parquet") if p.is_file() and p.name[0] not in "._"]
    if not files:
        raise DataError(f"{path}: the directory has no files *.parquet.")
    return sorted(files, key=lambda p: _natural_key(p.name))


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Sorts part.2 before part.10, as the writers that number so mean it."""
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
    """Metadata and digest of a file in the state that size and time of change name."""
    with open(path, "rb") as file:
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - 8 - length, 0))
        digest = hashlib.blake2b(file.read(), digest_size=16)
    digest.update(size.to_bytes(8, "little"))
    return pq.read_metadata(path), digest.hexdigest()


@contextmanager
def _explained(path: str, group: int | None = None) -> Iterator[None]:
    """Name the file in what reading it raises."""
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
