"""Small Arrow tables, read without a thread that holds memory of Python.

Threads of Arrow may hold the last reference to bytes or to a file of Python. Where they let go of
it while the interpreter ends, the process is aborted, after its work and without a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq


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


def read_json_lines(source: Any) -> pa.Table:
    """Read a JSON object from every line."""
    return pyarrow.json.read_json(source, pyarrow.json.ReadOptions(use_threads=False))
