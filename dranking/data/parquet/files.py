"""Ranges of rows of parquet files that together are one table."""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dranking.data.parquet.part import ParquetPart, explained, open_part
from dranking.data.tables.vectors import elements_of, vector_names
from dranking.files.places import is_local
from dranking.files.reading import ahead, at_once, open_input

BATCH_ROWS = 8_192
"""Rows decoded at a time if only a part of a row group is read."""

AHEAD_ROWS = 1 << 20
"""Rows of smaller files behind URLs that are read before they are used, side by side."""


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
        part = self.parts[index]
        return f"{part.name}: row {part.first_row + row - self._starts[index]}"

    def name(self, row: int) -> str:
        """The name of a row's file, for an error."""
        return self.parts[self._index(row)].name

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
        return map(_digest, self.parts)

    def read(self, start: int, stop: int, columns: Sequence[str]) -> list[pa.Table]:
        """Read the rows from start to stop in pieces, across row groups and files.

        Reading a part of a row group decodes and drops the rows before the part. The next call of
        the same thread continues there if it reads the rows that follow, so that reading blocks in
        order costs one pass, however large the row groups are.

        Whole row groups of files behind URLs are read side by side.

        Raises
        ------
        DataError
            If a file is damaged or was replaced.
        """
        runs = _in_runs(list(self._pieces(start, stop)))
        together = [run for run in runs if _is_read_ahead(run[0])]
        tables = iter(at_once(partial(self._read_groups, columns=columns), together))
        found: list[pa.Table] = []
        for run in runs:
            found += next(tables) if _is_read_ahead(run[0]) else [self._read_piece(run[0], columns)]
        return found

    def _pieces(self, start: int, stop: int) -> Iterator[_Piece]:
        while start < stop:
            index = self._index(start)
            part, offset = self.parts[index], self._starts[index]
            group = bisect_right(part.group_ptr, start - offset) - 1
            end = min(stop - offset, part.group_ptr[group + 1])
            yield _Piece(part, group, start - offset, end)
            start = offset + end

    def _read_piece(self, piece: _Piece, columns: Sequence[str]) -> pa.Table:
        part, group, start, stop = piece
        with explained(part.path, group):
            if piece.is_whole:
                opened = open_part(part, self.dictionaries)
                stored = part.stored(columns)
                table = opened.read_row_group(group, columns=stored, use_threads=False)
            else:
                table = _read_rows(part, group, tuple(part.stored(columns)), start, stop)
            return _with_columns(table, part, columns, start)

    def _read_groups(self, run: Sequence[_Piece], columns: Sequence[str]) -> list[pa.Table]:
        """Adjacent row groups of one file, which is opened once."""
        if len(run) == 1:
            return [self._read_piece(run[0], columns)]
        part, groups = run[0].part, [piece.group for piece in run]
        with explained(part.path):
            opened = open_part(part, self.dictionaries)
            stored = part.stored(columns)
            read = opened.read_row_groups(groups, columns=stored, use_threads=False)
            table = _with_columns(read, part, columns, run[0].start)
        return [table.slice(p.start - run[0].start, p.stop - p.start) for p in run]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """All rows of some columns, in pieces, each with the number of its first row."""
        for part, start, whole in zip(self.parts, self._starts, self._whole(columns), strict=False):
            row = start
            with explained(part.path):
                batches = (
                    open_part(part).iter_batches(
                        batch_size=16 * BATCH_ROWS, columns=part.stored(columns), use_threads=False
                    )
                    if whole is None
                    else whole.to_batches(max_chunksize=16 * BATCH_ROWS)
                )
                for batch in batches:
                    table = pa.Table.from_batches([batch])
                    yield row, _with_columns(table, part, columns, row - start)
                    row += batch.num_rows

    def _whole(self, columns: Sequence[str]) -> Iterator[pa.Table | None]:
        """Some columns of each file that is small and behind a URL, read ahead; None of others."""
        if all(is_local(part.place) for part in self.parts):
            return repeat(None, len(self.parts))
        sizes = [part.n_rows for part in self.parts]
        return ahead(partial(_read_small, columns=columns), self.parts, sizes, AHEAD_ROWS)

    def _index(self, row: int) -> int:
        """Index of the file that holds a row."""
        return bisect_right(self._starts, row, hi=len(self.parts)) - 1


class _Piece(NamedTuple):
    """Rows from start to stop of a file, inside one row group."""

    part: ParquetPart
    group: int
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether the piece is the whole row group."""
        first, last = self.part.group_ptr[self.group : self.group + 2]
        return (self.start, self.stop) == (first, last)


def _is_read_ahead(piece: _Piece) -> bool:
    return piece.is_whole and not is_local(piece.part.place)


def _in_runs(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Pieces in order; adjacent ones of one file that are read ahead are together."""
    runs: list[list[_Piece]] = []
    for piece in pieces:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and last.part is piece.part
            and _is_read_ahead(last)
            and _is_read_ahead(piece)
        ):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _read_small(part: ParquetPart, columns: Sequence[str]) -> pa.Table | None:
    if is_local(part.place) or part.n_rows > AHEAD_ROWS:
        return None
    with explained(part.path):
        return open_part(part).read(columns=part.stored(columns), use_threads=False)


def _digest(part: ParquetPart) -> str:
    open_part(part).close()  # raises if the file was replaced
    with explained(part.path), open_input(part.place) as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


class _Cursor:
    """Decodes the rows of a row group in order and keeps rows that were not read yet."""

    def __init__(self, part: ParquetPart, group: int, columns: tuple[str, ...]) -> None:
        self.key = (part, group, columns)
        self.row, self.last_row = part.group_ptr[group : group + 2]
        self._columns = list(columns)
        self._batches = open_part(part).iter_batches(
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


def _with_columns(
    table: pa.Table, part: ParquetPart, columns: Sequence[str], first: int
) -> pa.Table:
    """The columns in order; those that the file lacks have their constant, or are null.

    `first` is the number of the first row in the file.
    """
    constants = dict(part.constants)
    for vector, width in part.vectors:
        if vector in table.column_names:
            table = _with_elements(table, part, columns, vector, width, first)
    for name in {*columns}.difference(table.column_names):  # a list that pyarrow makes anew
        values = pa.repeat(pa.scalar(constants.get(name), pa.float64()), table.num_rows)
        table = table.append_column(name, values)
    return table.select(columns)


def _with_elements(
    table: pa.Table,
    part: ParquetPart,
    columns: Sequence[str],
    vector: str,
    width: int,
    first: int,
) -> pa.Table:
    """The table with the elements of a column of lists that are among the columns."""

    def place(row: int) -> str:
        return f"{part.name}: row {part.first_row + first + row}"

    wanted = {*columns}
    numbered = [(i, n) for i, n in enumerate(vector_names(vector, width)) if n in wanted]
    positions = [i for i, _ in numbered]
    elements = elements_of(table.column(vector), vector, width, positions, place)
    for (_, name), values in zip(numbered, elements, strict=True):
        table = table.append_column(name, values)
    return table.drop_columns([vector])
