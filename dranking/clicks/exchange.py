"""Rows that go from tasks to tasks: split into buckets, and joined again.

Columns of text are dictionaries; a bucket's file holds only the texts of its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.ingest.scan import Span
from dranking.data.ingest.scratch import Scratch

FEW_TEXTS = 16
"""Dictionaries up to this size, such as those of arms and contexts, are written whole."""


def put_split(
    scratch: Scratch, name: str, rows: pa.Table, buckets: NDArray[np.int64], n_buckets: int
) -> list[Span | None]:
    """Write rows sorted by bucket, as one file.

    Parameters
    ----------
    scratch, name
        Where to write.
    rows
        The rows; dictionaries are unified.
    buckets
        (n,) bucket of each row.
    n_buckets
        Number of buckets.

    Returns
    -------
    Where each bucket's rows are; None for a bucket without rows.
    """
    if n_buckets > 1:  # 16 bits have a radix sort
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
    ends = np.concatenate(([0], np.cumsum(np.bincount(buckets, minlength=n_buckets))))
    sink = pa.BufferOutputStream()
    spans: list[Span | None] = []
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if start == stop:
            spans.append(None)
            continue
        begins = sink.tell()
        own = compacted(rows.slice(start, stop - start), more_than=FEW_TEXTS)
        with pa.ipc.new_stream(sink, own.schema) as stream:
            stream.write_table(own)
        spans.append(Span(name, begins, sink.tell()))
    scratch.put(name, sink.getvalue())
    return spans


def compacted(rows: pa.Table, more_than: int = 0) -> pa.Table:
    """The rows with dictionaries that hold no other texts than theirs, in the order of codes.

    Dictionaries of at most `more_than` texts stay as they are.
    """
    columns = {}
    for name in rows.column_names:
        values = rows.column(name).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0)
        if pa.types.is_dictionary(values.type) and len(values.dictionary) > more_than:
            values = _compacted(values)
        columns[name] = values
    return pa.table(columns)


def _compacted(values: pa.DictionaryArray) -> pa.DictionaryArray:
    n_texts, missing = len(values.dictionary), values.null_count > 0
    codes = (values.indices.fill_null(n_texts) if missing else values.indices).to_numpy()
    used = np.zeros(n_texts + 1, bool)
    used[codes] = True
    new = np.cumsum(used, dtype=np.int32) - np.int32(1)
    texts = values.dictionary.take(pa.array(np.flatnonzero(used[:-1])))
    indices = pa.array(new[codes], mask=codes == n_texts if missing else None)
    return pa.DictionaryArray.from_arrays(indices, texts)


def get_joined(scratch: Scratch, spans: Sequence[Span]) -> pa.Table:
    """The rows of a bucket, in the order of `spans`, with one dictionary for each column."""
    return joined([pa.ipc.open_stream(scratch.get(*span)).read_all() for span in spans])


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of tables one after another, with one dictionary for each column."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
