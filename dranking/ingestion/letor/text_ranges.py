"""LETOR text in ranges that tasks read in parallel.

A range is a part of a plain file, or a whole compressed file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import pyarrow as pa

from dranking.errors import DataError
from dranking.files.places import Place
from dranking.ingestion.letor.invalid_lines import InvalidLine
from dranking.ingestion.letor.row_buffer import RowBuffer
from dranking.ingestion.letor.row_widths import WidestRow, check_dense, check_widths, widest_row
from dranking.ingestion.letor.text_source import (
    CHUNK_BYTES,
    is_compressed,
    line_chunks,
    line_start,
)
from dranking.ingestion.letor.token_rows import token_rows

ROWS_AT_ONCE = 8_192
"""Number of rows from which `read_range` writes a table; a table may have a few more."""


@dataclass(frozen=True)
class TextRange:
    """A part of a text file.

    Attributes
    ----------
    file
        Position of the file among the files of the data set.
    place
        The file.
    start, stop
        The range holds the lines that begin at byte `start` or later, and before byte `stop`;
        `stop` None means the end of the file.
    """

    file: int
    place: Place
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class ReadRange:
    """Facts of the rows of a range that were read.

    Attributes
    ----------
    n_rows, n_lines
        Number of documents, and number of lines.
    widest
        The row with the most features; its line is counted from the beginning of the range.
    has_doc_ids, has_comments
        Whether any document has a document id, or a comment.
    invalid
        The first invalid line, counted from the beginning of the range; None if all are valid.
    """

    n_rows: int
    n_lines: int
    widest: WidestRow
    has_doc_ids: bool
    has_comments: bool
    invalid: InvalidLine | None


def text_ranges(places: Sequence[Place], sizes: Sequence[int], range_bytes: int) -> list[TextRange]:
    """Ranges of about `range_bytes` bytes of files, in order; `sizes` are those of the files."""
    ranges = []
    for file, (place, size) in enumerate(zip(places, sizes, strict=True)):
        if is_compressed(place) or size <= range_bytes:
            ranges.append(TextRange(file, place))
            continue
        cuts = [*range(0, size - range_bytes // 2, range_bytes), None]
        ranges += [TextRange(file, place, start or 0, stop) for start, stop in pairwise(cuts)]
    return ranges


def read_range(
    part: TextRange,
    write: Callable[[pa.Table], None],
    *,
    n_features: int | None,
    nullable: bool,
    chunk_bytes: int = CHUNK_BYTES,
) -> ReadRange:
    """Read the rows of a range up to the first invalid line.

    Parameters
    ----------
    part
        The range.
    write
        Called with tables of the rows, in order; see `dranking.ingestion.letor.token_rows`.
    n_features
        Largest feature index allowed; None allows any index.
    nullable
        Whether a value may be ``NULL``, which is NaN in the tables.
    chunk_bytes
        Bytes of text read at a time; the result does not depend on this number.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    rows, n_rows, widest = RowBuffer(nullable), 0, WidestRow(0, 0)
    has_doc_ids = has_comments = False
    invalid: list[InvalidLine] = []
    start = line_start(part.place, part.start)
    stop = None if part.stop is None else line_start(part.place, part.stop)
    rows.begin_file()

    def flush() -> None:
        nonlocal n_rows, has_doc_ids, has_comments
        n_rows += rows.n_rows
        has_doc_ids |= bool(rows.table.doc_ptr[rows.n_rows])
        has_comments |= bool(rows.table.comment_ptr[rows.n_rows])
        write(token_rows(rows))
        rows.clear()

    for text in line_chunks(part.place, chunk_bytes, start, stop):
        before = rows.n_rows
        invalid = rows.append(text, n_features)
        if invalid:
            break
        widest = widest_row(rows.table, range(before, rows.n_rows), widest)
        if rows.n_rows >= ROWS_AT_ONCE:
            flush()
    if rows.n_rows and not invalid:
        flush()
    first = min(invalid, key=lambda found: found.line, default=None)
    return ReadRange(n_rows, rows.n_lines, widest, has_doc_ids, has_comments, first)


def check_ranges(
    parts: Sequence[TextRange],
    found: Sequence[ReadRange],
    n_features: int | None,
    sparse: bool,
) -> None:
    """Raise the error at which one task that reads all files in order would stop, if there is one.

    Raises
    ------
    DataError
        If a line is invalid, a file is empty, has another number of features than the first file,
        or too many for dense data; the message names the file and the line.
    """
    by_file = groupby(zip(parts, found, strict=True), key=lambda pair: pair[0].file)
    names: list[str] = []
    widest: list[WidestRow] = []
    for _, pairs in by_file:
        lines, widest_of_file = 0, WidestRow(0, 0)
        for part, read in pairs:
            if read.invalid is not None:
                line = lines + read.invalid.line
                raise DataError(f"{part.place}:{line}: {read.invalid.message}")
            width, line = read.widest
            if line and (not widest_of_file.line or width > widest_of_file.width):
                widest_of_file = WidestRow(width, lines + line)
            lines += read.n_lines
        names.append(str(part.place))
        widest.append(widest_of_file)
        if n_features is None and not sparse:
            check_dense(names[-1], widest_of_file)
        check_widths(names, widest, n_features)
