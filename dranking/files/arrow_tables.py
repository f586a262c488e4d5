"""Small Arrow tables, read without a thread that holds memory of Python.

Threads of Arrow may hold the last reference to bytes or to a file of Python. Where they let go of
it while the interpreter ends, the process is aborted, after its work and without a message.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

LONGEST_WAIT: Final = 10.0
"""Seconds after which a thread of Arrow that still reads is no longer waited for."""


def read_parquet(
    source: Any, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()
) -> pa.Table:
    """Read parquet.

    Parameters
    ----------
    source
        File of Arrow, or buffer reader.
    columns
        Names of the columns; None for all.
    dictionaries
        Names of columns of text that become dictionaries, where they are there.

    Raises
    ------
    pyarrow.ArrowException
        If the content is damaged, or lacks a column.
    """
    metadata = pq.read_metadata(source)
    names = metadata.schema.to_arrow_schema().names
    missing = {*(columns or ())} - {*names}
    if missing:
        raise pa.ArrowInvalid(f"there is no column {', '.join(sorted(missing))}")
    file = pq.ParquetFile(
        source,
        metadata=metadata,
        read_dictionary=[name for name in dictionaries if name in names],
        page_checksum_verification=True,
    )
    table = file.read(columns=columns, use_threads=False)
    return table if columns is None else table.select(columns)


def read_csv(content: bytes, **options: Any) -> pa.Table:
    """Read CSV, with the options of `pyarrow.csv.read_csv`."""
    copy = pa.BufferOutputStream()  # a thread always reads ahead, here in memory of Arrow
    copy.write(content)
    return pyarrow.csv.read_csv(pa.BufferReader(copy.getvalue()), **options)


def csv_schema(open_file: Callable[[], Any], **options: Any) -> pa.Schema:
    """Columns of CSV in a file of Python; the parameters are those of `csv_batches`."""
    file = open_file()
    gone, opened = weakref.ref(file), [file]
    del file
    try:
        return pyarrow.csv.open_csv(opened.pop(), **options).schema
    finally:
        _wait(gone)


def csv_batches(
    open_file: Callable[[], Any], **options: Any
) -> Generator[pa.RecordBatch, None, None]:
    """Yield batches of CSV from a file of Python, and wait at the end until Arrow let go of it.

    Parameters
    ----------
    open_file
        Makes the file, of which nobody else keeps a reference: when it is gone, no thread holds it.
    options
        Options of `pyarrow.csv.open_csv`.
    """
    file = open_file()
    gone, opened = weakref.ref(file), [file]
    del file
    try:
        yield from pyarrow.csv.open_csv(opened.pop(), **options)
    finally:
        _wait(gone)


def _wait(gone: weakref.ref[Any]) -> None:
    """Wait until an object is gone."""
    deadline = time.monotonic() + LONGEST_WAIT
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.001)


def read_json_lines(source: Any) -> pa.Table:
    """Read a JSON object from every line; texts stay texts, also where they look like dates."""
    options = pyarrow.json.ReadOptions(use_threads=False)
    table = pyarrow.json.read_json(source, options)
    dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    if not dates:
        return table
    source.seek(0)
    texts = pa.schema([(name, pa.string()) for name in dates])
    return pyarrow.json.read_json(source, options, pyarrow.json.ParseOptions(explicit_schema=texts))
