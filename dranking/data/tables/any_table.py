"""Tables of any library: pandas, pyarrow, and whatever speaks the Arrow C stream interface."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dranking.errors import DataError, UsageError


def is_table(value: Any) -> bool:
    """Whether a value is a table with named columns, in memory or as a stream.

    Tables are pandas DataFrames; pyarrow tables, record batches, record-batch readers, data sets
    and scanners; Polars frames and lazy frames; DuckDB relations; and every other object with the
    method ``__arrow_c_stream__`` that is no single column.
    """
    if type(value).__name__ in ("Series", "ChunkedArray"):
        return False
    return (
        isinstance(value, pa.RecordBatch)
        or _is_pandas(value)
        or hasattr(value, "__arrow_c_stream__")
        or _is_lazy_frame(value)
        or _is_arrow_dataset(value)
    )


def as_table(value: Any) -> pa.Table:
    """A table, see `is_table`, as a pyarrow table in memory.

    Raises
    ------
    UsageError
        If the value is no table.
    DataError
        If the table cannot be read, two columns of a pandas frame have the same name, or a column
        mixes types.
    """
    if isinstance(value, pa.Table):
        return value
    if _is_pandas(value):
        return _from_pandas(value)
    reader = as_reader(value)
    try:
        return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"the {type(value).__name__} cannot be read ({error}).") from error


def as_reader(value: Any) -> pa.RecordBatchReader:
    """A table, see `is_table`, as a stream of record batches, without having it whole in memory.

    A lazy frame is computed by Polars' streaming engine.

    Raises
    ------
    UsageError, DataError
        As `as_table`.
    """
    if isinstance(value, pa.RecordBatchReader):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(value.schema, [value])
    if not is_table(value):
        raise UsageError(
            f"a {type(value).__name__} is not a table with columns; give a pandas, Polars or "
            "pyarrow table, a DuckDB relation, or another object with __arrow_c_stream__."
        )
    if _is_pandas(value):
        value = _from_pandas(value)
    if _is_lazy_frame(value):
        value = value.collect(engine="streaming")
    if _is_arrow_dataset(value):
        return value.scanner().to_reader() if hasattr(value, "scanner") else value.to_reader()
    try:
        return pa.RecordBatchReader.from_stream(value)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"the {type(value).__name__} is no Arrow stream ({error}).") from error


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.startswith("pandas") and hasattr(value, "columns")


def _is_lazy_frame(value: Any) -> bool:
    return type(value).__module__.startswith("polars") and hasattr(value, "collect")


def _is_arrow_dataset(value: Any) -> bool:
    """Whether a value is a pyarrow data set or a scanner of one."""
    return type(value).__module__.startswith("pyarrow._dataset") and (
        hasattr(value, "scanner") or hasattr(value, "to_reader")
    )


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"two columns of the table have the same name, or a column mixes types ({error})."
        ) from error
