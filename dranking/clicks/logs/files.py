"""Files of logs: parquet, JSON lines and CSV, read in chunks of bounded size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from dranking.clicks.logs.columns import has_column
from dranking.data.parquet.hive_folders import folder_values
from dranking.data.parquet.listing import is_hidden, parts_below
from dranking.data.parquet.part import ParquetPart, read_part
from dranking.errors import DataError, UsageError, quoted
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import exists, file_size, list_files, open_input
from dranking.files.table_formats import check_no_table_below, check_no_table_format
from dranking.ingestion.letor.text_ranges import TextRange, text_ranges
from dranking.ingestion.letor.text_source import is_compressed

FileForm: TypeAlias = Literal["parquet", "ndjson", "csv"]

CHUNK_ROWS = 1 << 18
"""Rows of a log that are in memory at a time, unless a row group of parquet has more."""

RANGE_BYTES = 1 << 26
"""Bytes of an uncompressed file of text that one task reads."""

BYTES_PER_EVENT = 64
"""Bytes of text that an event is assumed to take. The number of buckets follows from this guess; it
changes no result."""

_ENDINGS: dict[str, FileForm] = {
    ".parquet": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
    ".tsv": "csv",
}


@dataclass(frozen=True)
class LogPart:
    """A part of a log that one task reads: lines of a file of text, or rows of a parquet file.

    Attributes
    ----------
    place, form
        The file.
    folders
        Values of the folders ``key=value`` that it lies in, which are columns.
    n_events
        Estimated number of events in it.
    parquet, start, stop
        The parquet file, and the range of its rows.
    text
        The lines of a file of text.
    csv_states
        For CSV, the states (`csv_records`) before two bytes: the last one before the range of the
        part, and the last one of the range.
    """

    place: Place
    form: FileForm
    folders: tuple[tuple[str, str], ...]
    n_events: int
    parquet: ParquetPart | None = None
    start: int = 0
    stop: int = 0
    text: TextRange | None = None
    csv_states: tuple[int, int] = (0, 0)


def find_logs(sources: Sequence[AnyPlace], needed: Sequence[str]) -> list[LogPart]:
    """The parts of logs, in the order of sources and of names.

    Parameters
    ----------
    sources
        Files, or folders, which are read with the folders below them. Names that begin with a dot
        or an underscore, unless they are ``key=value``, are passed over.
    needed
        Columns that every parquet file must have, unless a folder has the name.

    Raises
    ------
    DataError
        If there are no files, a file cannot be read or belongs to a Delta, Iceberg or Hudi table,
        or a column is missing.
    UsageError
        If a file has another ending.
    """
    parts: list[LogPart] = []
    for root in map(as_place, sources):
        if not exists(root):
            raise DataError(f"{root}: there is no such file or folder.")
        check_no_table_format([root])
        for file in _files_at(root):
            below = parts_below(file, root)[:-1] if file != root else ()
            parts += _parts_of(file, tuple(folder_values(below).items()), needed)
    return parts


def _files_at(root: Place) -> list[Place]:
    if root.is_file():
        return [root]
    files = list_files(root)
    check_no_table_below(root, [parts_below(file, root) for file in files])
    found = [file for file in files if _form_of(file.name)]
    found = [f for f in found if not any(map(is_hidden, parts_below(f, root)))]
    if not found:
        raise DataError(
            f"{root}: there are no logs in it; their names end in "
            f"{', '.join(_ENDINGS)}, or with .gz after it."
        )
    return sorted(found, key=lambda f: [_natural(name) for name in parts_below(f, root)])


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(t), "") if t.isdecimal() else (-1, t) for t in re.split(r"(\d+)", name)]


def _form_of(name: str) -> FileForm | None:
    name = name.lower().removesuffix(".gz")
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), None)


def _parts_of(
    file: Place, folders: tuple[tuple[str, str], ...], needed: Sequence[str]
) -> list[LogPart]:
    form = _form_of(file.name)
    if form is None:
        raise UsageError(f"{file}: the name of a log ends in {', '.join(_ENDINGS)}, or .gz after.")
    if form != "parquet":
        return _parts_of_text(file, form, folders)
    part, schema = read_part(file)
    check_columns(str(file), schema, [n for n in needed if n not in dict(folders)])
    leaves = _leaves(file)
    parts, start = [], 0
    for group, stop in enumerate(part.group_ptr[1:]):
        if stop - start >= CHUNK_ROWS or stop == part.n_rows:
            first = part.group_ptr.index(start)
            n_events = sum(leaves[first : group + 1])
            if stop > start:
                parts.append(LogPart(file, form, folders, n_events, part, start, stop))
            start = stop
    return parts


def _parts_of_text(
    file: Place, form: FileForm, folders: tuple[tuple[str, str], ...]
) -> list[LogPart]:
    """Ranges of a plain file, or a compressed file as a whole."""
    size = file_size(file)
    parts = []
    for text in text_ranges([file], [size], RANGE_BYTES):
        n_bytes = (size if text.stop is None else text.stop) - text.start
        n_events = max(n_bytes * (8 if is_compressed(file) else 1) // BYTES_PER_EVENT, 1)
        parts.append(LogPart(file, form, folders, n_events, text=text))
    return parts


def _leaves(file: Place) -> list[int]:
    """For each row group, the values of its longest column: entries of lists count one by one."""
    with open_input(file) as opened:
        metadata = pq.read_metadata(opened)
    found = []
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        found.append(max(row_group.column(c).num_values for c in range(row_group.num_columns)))
    return found


def check_columns(name: str, schema: pa.Schema, needed: Sequence[str]) -> None:
    """Raise DataError if a file lacks a column."""
    absent = [column for column in needed if not has_column(schema, column)]
    if absent:
        raise DataError(
            f"{name}: there is no column {quoted(absent)}; the columns are "
            f"{quoted(schema.names)}. Name the columns of the log by options such as "
            "--session-column."
        )
