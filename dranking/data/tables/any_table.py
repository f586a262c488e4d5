"""Tables of any library: pandas, pyarrow, and whatever speaks the Arrow C stream interface."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dranking.data.roles import Columns
from dranking.errors import DataError, DrankingError, UsageError, quoted

BATCH_ROWS = 65_536
"""Most rows of a batch of a table in memory."""


def is_dask(value: Any) -> bool:
    """Whether a value is a Dask collection."""
    # A process that has not imported Dask has no collection, and need not import Dask to know.
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.base.is_dask_collection(value))


def is_dask_frame(value: Any) -> bool:
    """Whether a value is a dask DataFrame."""
    return is_dask(value) and hasattr(value, "columns")


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


class Stream(NamedTuple):
    """A table as record batches, one after the other, of types that all readers know.

    What goes wrong while batches are made is raised as DataError. `n_bytes` has the bytes of each
    column of a table in memory; it is None for a stream, whose end is not known.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    n_bytes: tuple[int, ...] | None


def as_table(value: Any) -> pa.Table:
    """A table, see `is_table`, as a pyarrow table in memory.

    Raises
    ------
    UsageError
        If the value is no table.
    DataError
        If the table cannot be read, columns of a pandas frame have the same name, or a column
        mixes types.
    """
    table = _from_pandas(value) if _is_pandas(value) else value
    if isinstance(table, pa.Table):
        _check_unique(table.column_names)
    if isinstance(table, pa.Table) and _plain_schema(table.schema).equals(table.schema):
        return table
    stream = as_stream(table)
    return pa.Table.from_batches(list(stream.batches), stream.schema)


def with_columns(value: Any, names: Sequence[str]) -> Any:
    """A table with those of its columns alone that have these names, where that reads no value."""
    wanted = set(names)
    if not wanted:  # a table without columns would have no rows
        return value
    if _is_pandas(value):
        return value.loc[:, [str(name) in wanted for name in value.columns]]
    if isinstance(value, pa.Table | pa.RecordBatch):
        return value.select([i for i, name in enumerate(value.schema.names) if name in wanted])
    if type(value).__module__.startswith("polars") and hasattr(value, "collect_schema"):
        return value.select([name for name in value.collect_schema() if name in wanted])
    return value


def as_stream(value: Any) -> Stream:
    """A table, see `is_table`, as a stream of record batches, without having it whole in memory.

    A lazy frame is computed by Polars' streaming engine. Run-end encoded columns are decoded, and
    views of texts are texts where they are the values of a dictionary.

    Raises
    ------
    UsageError, DataError
        As `as_table`.
    """
    if is_dask_frame(value):
        raise UsageError(
            "a dask DataFrame is not read into memory: fit, predict, tune and evaluate of dranking "
            "take it as it is, dranking.ingest(frame, path) stores it, and frame.compute() makes a "
            "pandas DataFrame of it."
        )
    if not is_table(value):
        raise UsageError(
            f"a {type(value).__name__} is not a table with columns; give a pandas, Polars or "
            "pyarrow table, a DuckDB relation, or another object with __arrow_c_stream__."
        )
    name = type(value).__name__
    with _explained(name):
        if _is_pandas(value):
            value = _from_pandas(value)
        if _is_lazy_frame(value):
            value = value.collect(engine="streaming")
        schema, batches = _open(value)
        n_bytes = _bytes_in_memory(value)
    _check_unique(schema.names)
    return Stream(_plain_schema(schema), _plain_batches(schema, batches, name), n_bytes)


def _bytes_in_memory(value: Any) -> tuple[int, ...] | None:
    """Bytes of each column of a table in memory; None for a stream."""
    if isinstance(value, pa.Table | pa.RecordBatch):
        return tuple(int(column.nbytes) for column in value.columns)
    if type(value).__module__.startswith("polars") and hasattr(value, "get_columns"):
        return tuple(int(column.estimated_size()) for column in value.get_columns())
    return None


def _open(value: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema and batches of a table."""
    if isinstance(value, pa.RecordBatch):
        return value.schema, iter([value])
    if isinstance(value, pa.Table):
        return value.schema, iter(value.to_batches(max_chunksize=BATCH_ROWS))
    if isinstance(value, pa.RecordBatchReader):
        reader = value
    elif _is_arrow_dataset(value):
        reader = value.scanner().to_reader() if hasattr(value, "scanner") else value.to_reader()
    else:
        reader = pa.RecordBatchReader.from_stream(value)
    return reader.schema, iter(reader)


def _plain_batches(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], name: str
) -> Iterator[pa.RecordBatch]:
    plain = _plain_schema(schema)
    is_plain = plain.equals(schema)
    while True:
        with _explained(name):
            batch = next(batches, None)
            if batch is not None and not is_plain:
                columns = [_plain(column) for column in batch.columns]
                batch = pa.RecordBatch.from_arrays(columns, schema=plain)
        if batch is None:
            return
        yield batch


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_type(_plain_type(field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.dictionary(kind.index_type, pa.string(), kind.ordered)
    return kind


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(column.type):
        return _plain(pc.run_end_decode(column))
    kind = _plain_type(column.type)
    if kind == column.type:
        return column
    return pa.DictionaryArray.from_arrays(
        column.indices, column.dictionary.cast(pa.string()), ordered=kind.ordered
    )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Convert what a library raises while its table is read, whatever it is, to a DataError."""
    try:
        yield
    except (DrankingError, MemoryError):
        raise
    except Exception as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"the {name} cannot be read ({why[0].rstrip('.'):.500}).") from error


def no_dataset(value: Any, function: str) -> UsageError:
    """The error for a function that writes data sets, and is given something else."""
    if is_dask_frame(value):
        return UsageError(
            "a dask DataFrame is no data set; dranking.ingest(frame, path) stores it, each "
            "partition by the worker that computes it."
        )
    made = "from_table(table)" if is_table(value) else "open_dataset(path)"
    return UsageError(
        f"a {type(value).__name__} is no data set: {function}(dranking.{made}, path) writes the "
        f"data set that {made.split('(')[0]} makes of it."
    )


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
    frame = frame.rename(columns=str)
    _check_unique(frame.columns.tolist())
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"a column cannot be read, or mixes types ({error}).") from error


def _check_unique(names: Sequence[str]) -> None:
    """Raise DataError if columns of a table have the same name."""
    if len({*names}) < len(names):
        twice = quoted([name for name, times in Counter(names).items() if times > 1])
        raise DataError(f"the table: columns occur more than once: {twice}; rename them.")


def check_index(value: Any, columns: Columns) -> None:
    """Raise DataError if a column that has a role is in the index of a pandas frame."""
    if not _is_pandas(value):
        return
    levels = [name for name in value.index.names if name is not None]
    named = (columns.qid, columns.relevance, columns.docid, columns.weight)
    found = [name for name in named if name and name in levels and name not in value.columns]
    if found:
        raise DataError(
            f"the index of the table has {quoted(found)}, which must be columns; "
            "pass table.reset_index()."
        )
