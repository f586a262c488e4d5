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

from dranking.ingestion.rows.scratch import Scratch

Ints = NDArray[np.int64]
_WIDTHS = (np.int8, np.int16, np.int32)


class Routed(NamedTuple):
    """Rows of a table with unified dictionaries, and the (n,) bucket that each row goes to."""

    rows: pa.Table
    buckets: Ints


class SplitFile(NamedTuple):
    """A scratch file with the rows of all buckets, one after another.

    Attributes
    ----------
    name
        Name of the file.
    borders
        (n_buckets + 1,) int64: the bytes where the buckets begin, and where the last one ends.
    """

    name: str
    borders: Ints


class BucketParts(NamedTuple):
    """The parts of several files that hold the rows of a bucket.

    Dask looks at every object among the arguments of a task, and a log of 100,000,000 impressions
    has some 70,000 parts of buckets; so their borders are one array.

    Attributes
    ----------
    names
        Names of the files that have rows of the bucket.
    borders
        (n_files, 2) int64 first byte of the part, and the byte after the last.
    """

    names: tuple[str, ...]
    borders: Ints

    @classmethod
    def of(cls, files: Sequence[SplitFile], bucket: int) -> BucketParts:
        """The parts of a bucket, in the order of the files that have rows of it."""
        borders = np.array([file.borders[bucket : bucket + 2] for file in files], np.int64)
        there = np.flatnonzero(borders[:, 1] > borders[:, 0])
        return cls(tuple(files[i].name for i in there.tolist()), borders[there])


def put_split(scratch: Scratch, name: str, tables: Sequence[Routed], n_buckets: int) -> SplitFile:
    """Write the rows of tables sorted by bucket, as one file.

    Parameters
    ----------
    scratch, name
        Scratch place, and name of the file to write.
    tables
        The tables. A bucket that has no rows of the first table has no rows of the other tables.
    n_buckets
        Number of buckets.
    """
    split = [_split(table, n_buckets) for table in tables]
    sink = pa.BufferOutputStream()
    borders = np.zeros(n_buckets + 1, np.int64)
    for bucket in range(n_buckets):
        for parts in split if split[0][bucket].num_rows else ():
            with pa.ipc.new_stream(sink, parts[bucket].schema) as stream:
                stream.write_table(parts[bucket])
        borders[bucket + 1] = sink.tell()
    scratch.put(name, sink.getvalue())
    return SplitFile(name, borders)


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
    """Cut a column before the rows `ends`.

    The dictionary of each part holds only the texts of this part, in the order in which they first
    appear, so that equal rows are written as equal bytes.
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


def get_joined(scratch: Scratch, parts: BucketParts) -> list[pa.Table]:
    """The tables of a bucket, rows in the order of the parts, one dictionary for each text column.

    Integers may have fewer bytes than before they were written.
    """
    found = [
        _streams(scratch.get(name, begin, end))
        for name, (begin, end) in zip(parts.names, parts.borders.tolist(), strict=True)
    ]
    return [joined(tables) for tables in zip(*found, strict=True)]


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
