"""Rows that go from tasks to tasks: split into buckets, and joined again.

Columns of text are dictionaries; a bucket's file holds only the texts of its own rows. Integers are
written in the fewest bytes that hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.ingest.scan import Span
from dranking.data.ingest.scratch import Scratch

Ints = NDArray[np.int64]
_WIDTHS = (np.int8, np.int16, np.int32)


class Routed(NamedTuple):
    """Rows of a table, dictionaries unified, and the (n,) bucket that each of them goes to."""

    rows: pa.Table
    buckets: Ints


def put_split(
    scratch: Scratch, name: str, tables: Sequence[Routed], n_buckets: int
) -> list[Span | None]:
    """Write the rows of tables sorted by bucket, as one file.

    Parameters
    ----------
    scratch, name
        Where to write.
    tables
        The tables. A bucket without rows of the first has none of the others.
    n_buckets
        Number of buckets.

    Returns
    -------
    Where each bucket's rows are; None for a bucket without rows.
    """
    split = [_split(table, n_buckets) for table in tables]
    sink = pa.BufferOutputStream()
    spans: list[Span | None] = []
    for bucket in range(n_buckets):
        if not split[0][bucket].num_rows:
            spans.append(None)
            continue
        begins = sink.tell()
        for parts in split:
            with pa.ipc.new_stream(sink, parts[bucket].schema) as stream:
                stream.write_table(parts[bucket])
        spans.append(Span(name, begins, sink.tell()))
    scratch.put(name, sink.getvalue())
    return spans


def _split(table: Routed, n_buckets: int) -> list[pa.Table]:
    """The rows of each bucket, in their order."""
    from dranking.kernels.grouping import order_by_bucket

    rows = _narrow(table.rows)
    ends = np.cumsum(np.bincount(table.buckets, minlength=n_buckets))
    if n_buckets > 1:
        order = np.empty(rows.num_rows, np.int64)
        order_by_bucket(table.buckets, np.append(0, ends[:-1]), order)
        rows = rows.take(pa.array(order))
    columns = {name: parts_of(rows.column(name), ends) for name in rows.column_names}
    return [
        pa.table({name: parts[bucket] for name, parts in columns.items()})
        for bucket in range(n_buckets)
    ]


def parts_of(column: pa.ChunkedArray, ends: Ints) -> list[pa.Array]:
    """A column cut before the rows `ends`.

    The dictionary of each part has its own texts only, in the order in which the rows have them
    first, so that the same rows are the same bytes.
    """
    values = one_array(column)
    return (
        _texts_of_parts(values, ends) if pa.types.is_dictionary(values.type) else _cut(values, ends)
    )


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column with one dictionary as one array."""
    chunks = column.chunks or [pa.array([], column.type)]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _texts_of_parts(values: pa.DictionaryArray, ends: Ints) -> list[pa.DictionaryArray]:
    from dranking.kernels.grouping import renumber_parts

    n_rows, n_texts, missing = len(values), len(values.dictionary), values.null_count > 0
    indices = values.indices.fill_null(-1) if missing else values.indices
    codes = indices.to_numpy().astype(np.int32)
    used, used_ends = np.empty(n_rows, np.int64), np.empty(len(ends), np.int64)
    renumber_parts(codes, ends, np.full(n_texts, -1), np.empty(n_texts, np.int64), used, used_ends)
    texts = _cut(values.dictionary.take(pa.array(used[: used_ends[-1]])), used_ends)
    numbers = pa.array(codes, mask=codes < 0 if missing else None)
    return [
        pa.DictionaryArray.from_arrays(own, names)
        for own, names in zip(_cut(numbers, ends), texts, strict=True)
    ]


def _cut(values: pa.Array, ends: Ints) -> list[pa.Array]:
    return [values.slice(a, b - a) for a, b in pairwise((0, *ends.tolist()))]


def _narrow(rows: pa.Table) -> pa.Table:
    """The rows with signed integers in the narrowest type that holds a column."""
    for place, name in enumerate(rows.column_names):
        if rows.num_rows and pa.types.is_signed_integer(rows.schema.field(name).type):
            numbers = rows.column(name).to_numpy()
            low, high = int(numbers.min()), int(numbers.max())
            fits = [w for w in _WIDTHS if np.iinfo(w).min <= low and high <= np.iinfo(w).max]
            if fits:
                rows = rows.set_column(place, name, pa.array(numbers.astype(fits[0])))
    return rows


def get_joined(scratch: Scratch, spans: Sequence[Span]) -> list[pa.Table]:
    """The tables of a bucket, rows in the order of `spans`, one dictionary for each text column.

    Integers may have fewer bytes than when they were put.
    """
    found = [_streams(scratch.get(*span)) for span in spans]
    return [joined(parts) for parts in zip(*found, strict=True)]


def _streams(content: bytes) -> list[pa.Table]:
    source, tables = pa.BufferReader(content), []
    while source.tell() < len(content):
        with pa.ipc.open_stream(source) as stream:
            tables.append(stream.read_all())
    return tables


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of tables one after another, with one dictionary for each column."""
    rows = pa.concat_tables(tables, promote_options="permissive")
    return rows.unify_dictionaries().combine_chunks()
