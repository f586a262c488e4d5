"""Rows of LETOR text: read once in ranges, kept as Arrow files in a scratch place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dranking.data.blocks import QueryBlock
from dranking.ingestion.letor.row_buffer import BlockForm
from dranking.ingestion.letor.text_ranges import ReadRange, TextRange, read_range
from dranking.ingestion.letor.token_rows import LINE, QID, SCHEMA, token_block
from dranking.ingestion.rows.row_source import IdBatch
from dranking.ingestion.rows.scratch import Scratch


@dataclass(frozen=True)
class RangeFile:
    """An Arrow file with the rows of a range of text.

    Attributes
    ----------
    name
        Name in the scratch place.
    path
        The text file.
    lines_before
        Number of lines of the text file before the range.
    batch_ptr
        (n_batches + 1,) first row of each record batch, then the number of rows.
    """

    name: str
    path: str
    lines_before: int
    batch_ptr: tuple[int, ...]


class SpilledRange(NamedTuple):
    """The result of reading a range, and borders of its record batches.

    The tables of the range take `n_bytes` in memory, and its file takes `n_file_bytes`.
    """

    found: ReadRange
    batch_ptr: tuple[int, ...]
    n_bytes: int
    n_file_bytes: int


def spill_range(
    scratch: Scratch, name: str, part: TextRange, n_features: int | None, nullable: bool
) -> SpilledRange:
    """Read a range of text into an Arrow file of a scratch place: a task; see `read_range`."""
    ptr, n_bytes = [0], 0
    with scratch.writing(name) as path, path.open("wb") as file:
        with pa.ipc.new_file(file, SCHEMA) as writer:

            def write(rows: pa.Table) -> None:
                nonlocal n_bytes
                writer.write_table(rows)
                ptr.append(ptr[-1] + rows.num_rows)
                n_bytes += rows.nbytes

            found = read_range(part, write, n_features=n_features, nullable=nullable)
        n_file_bytes = file.tell()
    return SpilledRange(found, tuple(ptr), n_bytes, n_file_bytes)


class TextRows:
    """A `RowSource` of text that was read into Arrow files.

    Parameters
    ----------
    scratch
        Place of the files.
    files
        The files, in order.
    form
        Form of the blocks.
    n_bytes
        Bytes of all tables.
    """

    def __init__(
        self, scratch: Scratch, files: Sequence[RangeFile], form: BlockForm, n_bytes: int
    ) -> None:
        self._scratch, self._files, self._form = scratch, tuple(files), form
        self.borders = tuple(np.cumsum([0, *(f.batch_ptr[-1] for f in files)]).tolist())
        self.n_rows = self.borders[-1]
        self.row_bytes = max(n_bytes // max(self.n_rows, 1), 1)

    def query_ids(self, start: int, stop: int) -> Iterator[IdBatch]:
        """Query ids of a range of rows."""
        for row, table in self._read(start, stop):
            ids = pa.concat_arrays(table.column(QID).chunks)
            yield IdBatch(row, ids)

    def read_block(self, start: int, stop: int) -> QueryBlock:
        """The block of a range of rows."""
        return self.table_block(pa.concat_tables([t for _, t in self._read(start, stop)]))

    def tables(self, start: int, stop: int, n_bytes: int) -> Iterator[pa.Table]:
        """A range of rows as tables."""
        step = max(n_bytes // self.row_bytes, 1)
        for first in range(start, stop, step):
            parts = [table for _, table in self._read(first, min(first + step, stop))]
            yield pa.concat_tables(parts)

    def table_block(self, rows: pa.Table) -> QueryBlock:
        """The block of rows of whole queries."""
        return token_block(rows, self._form)

    def place(self, row: int) -> str:
        """The text file and the line of a row."""
        return f"{self.path(row)}:{self.line(row)}"

    def path(self, row: int) -> str:
        """The text file of a row."""
        return self._file(row)[1].path

    def line(self, row: int) -> int:
        """The line of a row in its text file, from 1."""
        _, file = self._file(row)
        (_, table), *_ = self._read(row, row + 1)
        return int(file.lines_before + table.column(LINE)[0].as_py())

    def _file(self, row: int) -> tuple[int, RangeFile]:
        index = bisect_right(self.borders, row, hi=len(self._files)) - 1
        return self.borders[index], self._files[index]

    def _read(self, start: int, stop: int) -> Iterator[tuple[int, pa.Table]]:
        """A range of rows as tables, each with the number of its first row."""
        while start < stop:
            first, file = self._file(start)
            end = min(stop - first, file.batch_ptr[-1])
            with self._scratch.open_arrow(file.name) as reader:
                while start - first < end:
                    batch = bisect_right(file.batch_ptr, start - first) - 1
                    begins, ends = file.batch_ptr[batch : batch + 2]
                    rows = pa.Table.from_batches([reader.get_batch(batch)])
                    taken = rows.slice(start - first - begins, min(end, ends) - (start - first))
                    yield start, taken
                    start += taken.num_rows
