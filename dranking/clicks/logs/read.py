"""Reading a part of a log as tables of raw columns."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from dranking.clicks.logs.columns import has_column
from dranking.clicks.logs.csv_records import delimiter_of, opened_bytes, record_start
from dranking.clicks.logs.files import CHUNK_ROWS, LogPart, check_columns
from dranking.clicks.logs.utf8 import mended
from dranking.clicks.logs.values import NO_TEXT
from dranking.data.parquet.files import ParquetFiles
from dranking.data.parquet.part import ParquetPart, read_part
from dranking.errors import DataError
from dranking.files.arrow_tables import csv_batches, csv_schema
from dranking.files.places import Place
from dranking.files.reading import file_size, open_input
from dranking.ingestion.letor.text_source import line_chunks, line_start

CHUNK_BYTES = 1 << 25
"""Bytes of text that are parsed at a time."""

MOST_BREAKS = 10
"""A record of CSV with more line breaks has a quote that was not closed where it should be."""

_WHOLE_NUMBER = r"^(-?\d+)[.]0+$"
_BREAK = re.compile(r"\r\n|\r|\n")


def read_log(
    part: LogPart,
    columns: Sequence[str],
    needed: Sequence[str],
    found: Counter[str],
    single: Collection[str] = (),
) -> Iterator[pa.Table]:
    """Yield the rows of a part in tables, with the folders' values as columns.

    Parameters
    ----------
    part
        The part.
    columns
        Names of the columns to read; those that are absent are left out.
    needed
        Columns among these that a CSV file must have.
    found
        Counts by problem; lines that cannot be read are added.
    single
        Columns with one value a row: of JSON lines, a list there is `NO_TEXT`.

    Raises
    ------
    DataError
        If the file cannot be read, or lacks a column.
    """
    for table in _tables(part, columns, needed, found, single):
        for key, value in part.folders:
            if key in columns and key not in table.column_names:
                values = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
                table = table.append_column(key, values)
        yield table


def _tables(
    part: LogPart,
    columns: Sequence[str],
    needed: Sequence[str],
    found: Counter[str],
    single: Collection[str],
) -> Iterator[pa.Table]:
    if part.parquet is not None:
        yield from _parquet(part.parquet, range(part.start, part.stop), columns)
        return
    try:
        if part.form == "csv":
            own = [name for name in needed if name not in dict(part.folders)]
            yield from _csv(part, columns, own, found)
        else:
            for chunk in _lines(part):
                yield json_table(chunk, columns, found, single)
    except FileNotFoundError as error:
        raise DataError(f"{part.place}: there is no such file.") from error
    except (pa.ArrowException, EOFError, OSError, zlib.error) as error:
        reason = str(error)
        if "straddl" in reason:  # Arrow's word for a record that is longer than a block
            reason = f"a record has {CHUNK_BYTES:,} bytes or more, as if a quote is never closed"
        raise DataError(
            f"{part.place}: cannot be read as {part.form} ({reason}). Copy or write it again."
        ) from error


def _parquet(file: ParquetPart, rows: range, columns: Sequence[str]) -> Iterator[pa.Table]:
    _, schema = read_part(file.place)
    top = [name if name in schema.names else name.split(".")[0] for name in columns]
    own = [name for name in dict.fromkeys(top) if has_column(schema, name)]
    # Columns of text are read as dictionaries, as the file stores them: a text is decoded once.
    kinds = {name: schema.field(name).type for name in own}
    texts = [name for name, kind in kinds.items() if kind in (pa.string(), pa.large_string())]
    files = ParquetFiles([file], texts)
    start = rows.start
    for stop in (row for row in file.group_ptr if rows.start < row <= rows.stop):
        if stop - start >= CHUNK_ROWS or stop == rows.stop:
            yield pa.concat_tables(files.read(start, stop, own))
            start = stop


@contextmanager
def _open(place: Place) -> Iterator[Any]:
    with open_input(place) as file:
        if place.name.lower().endswith(".gz"):
            with gzip.open(file) as text:
                yield text
        else:
            yield file


def _lines(part: LogPart) -> Iterator[bytes]:
    """Whole lines, about `CHUNK_BYTES` at a time."""
    start, stop = 0, None
    if part.text is not None:
        start = line_start(part.place, part.text.start)
        stop = None if part.text.stop is None else line_start(part.place, part.text.stop)
    for chunk in line_chunks(part.place, CHUNK_BYTES, start, stop):
        yield chunk.tobytes()


@contextmanager
def _records(part: LogPart) -> Iterator[Any]:
    """The records of a part of a CSV file as a file, or None if there are none."""
    text = part.text
    if text is None or (text.start == 0 and text.stop is None):
        with _open(part.place) as file:
            yield file
        return
    start = record_start(part.place, text.start, part.csv_states[0])
    stop = file_size(part.place)
    if text.stop is not None:
        stop = record_start(part.place, text.stop, part.csv_states[1])
    if start == stop:
        yield None
        return
    # The line break before the range is read as an empty line: Arrow takes what looks like a byte
    # order mark at the beginning of a file for one.
    with opened_bytes(part.place, max(start - 1, 0), stop) as file:
        yield file


def json_table(
    text: bytes, columns: Sequence[str], found: Counter[str], single: Collection[str] = ()
) -> pa.Table:
    """The columns of lines of JSON objects, named by their full paths such as ``a.b``.

    Values of one column may differ in type: ids are made texts, and what is no id is `NO_TEXT`.
    """
    records = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            records.append(record.get("_source", record))
        else:
            found["unreadable_lines"] += 1
    return pa.table({name: _json_column(records, name, name in single) for name in columns})


def _json_column(records: Sequence[Any], name: str, is_single: bool) -> pa.Array:
    values = [_dig(record, name) for record in records]
    kinds = {type(value) for value in values} - {type(None)}
    if list in kinds and not is_single:
        rows = [v if isinstance(v, list) else [] if v is None else [v] for v in values]
        inner = {type(value) for row in rows for value in row} - {type(None)}
        if len(inner) > 1 or not inner <= {str, int, float, bool}:
            return pa.array(
                [[_text(value) for value in row] for row in rows], pa.list_(pa.string())
            )
        return _array(rows, values)
    if len(kinds) > 1 or not kinds <= {str, int, float, bool}:
        return pa.array([_text(value) for value in values], pa.string())
    return _array(values, values)


def _array(values: list[Any], again: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, OverflowError):  # an integer beyond 64 bits
        return pa.array([_text(value) for value in again], pa.string())


def _dig(record: Any, name: str) -> Any:
    if isinstance(record, dict) and name in record:
        return record[name]
    for part in name.split("."):
        if not isinstance(record, dict):
            return None
        record = record.get(part)
    return record


def _text(value: Any) -> str | None:
    """An id as text; the text `NO_TEXT` for what is no id."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return repr(value) if isinstance(value, float) else NO_TEXT


def _csv(
    part: LogPart, columns: Sequence[str], needed: Sequence[str], found: Counter[str]
) -> Iterator[pa.Table]:
    """Columns of a part of a CSV file as texts; an empty field is missing.

    A quote that is not closed takes the lines after it into its record. They all count as lines
    that cannot be read; such records are looked for in all columns, also in those not asked for.
    Lines with bytes that are not UTF-8 in a column asked for count as such lines, too.
    """
    place = part.place

    def skip(row: Any) -> str:
        found["unreadable_lines"] += 1 + len(_BREAK.findall(row.text))
        return "skip"

    with _open(place) as file:
        options = _parse_options(place, lambda _: "skip")
        header = csv_schema(lambda: mended(file), parse_options=options)
    check_columns(str(place), header, needed)
    own = {name: header.names.index(name) for name in columns if name in header.names}
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(header.names, pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    first = part.text is None or part.text.start == 0
    read = pa.csv.ReadOptions(
        block_size=CHUNK_BYTES, use_threads=False, column_names=None if first else header.names
    )
    with _records(part) as file:
        if file is None:
            return
        parse = _parse_options(place, skip)
        opened = csv_batches(
            lambda: mended(file), read_options=read, parse_options=parse, convert_options=convert
        )
        with closing(opened) as batches:
            for batch in batches:
                whole = _whole_records(pa.Table.from_batches([batch]), found)
                table = pa.table({name: whole.column(at) for name, at in own.items()})
                yield _with_whole_numbers(_of_text(table, found))


def _with_whole_numbers(records: pa.Table) -> pa.Table:
    """The records with 12 for 12.0: CSV does not say what is a number, and ids may be numbers."""
    for place, name in enumerate(records.column_names):
        column = records.column(place)
        if pc.any(pc.match_substring(column, ".0")).as_py():
            column = pc.replace_substring_regex(column, _WHOLE_NUMBER, r"\1")
            records = records.set_column(place, name, column)
    return records


def _of_text(records: pa.Table, found: Counter[str]) -> pa.Table:
    """The records whose fields are texts."""
    wrong = np.zeros(records.num_rows, bool)
    for column in records.columns:
        wrong |= np.asarray(pc.fill_null(pc.match_substring(column, NO_TEXT), False))
    found["unreadable_lines"] += int(wrong.sum())
    return records.filter(pa.array(~wrong)) if wrong.any() else records


def _whole_records(records: pa.Table, found: Counter[str]) -> pa.Table:
    """The records without those that hold more lines than a text of a query does."""
    breaks = np.zeros(records.num_rows, np.int64)
    for column in records.columns:
        breaks += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy()
    swallows = breaks > MOST_BREAKS
    if not swallows.any():
        return records
    lost = records.filter(pa.array(swallows))
    at_end = sum(pc.sum(pc.ends_with(column, "\n")).as_py() or 0 for column in lost.columns)
    found["unreadable_lines"] += int((breaks[swallows] + 1).sum()) - at_end
    return records.filter(pa.array(~swallows))


def _parse_options(place: Place, invalid_row: Callable[[Any], str]) -> Any:
    return pa.csv.ParseOptions(
        delimiter=delimiter_of(place), newlines_in_values=True, invalid_row_handler=invalid_row
    )
