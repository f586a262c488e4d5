"""Rows of LETOR text as Arrow tables, from tokens and back to blocks.

The columns are ``qid``, ``relevance`` (as in the text), ``docid``, ``comment`` (empty strings where
there is none), ``line`` (number in its range of text, from 1), and the lists ``columns`` and
``values``, which hold the features that the line names, without values of +0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.tables.query_rows import run_starts
from dranking.ingestion.letor.row_buffer import (
    BlockForm,
    RowBuffer,
    empty_table,
    make_block,
    string_array,
)

QID, RELEVANCE, LINE = "qid", "relevance", "line"

SCHEMA = pa.schema(
    {
        QID: pa.string(),
        RELEVANCE: pa.float64(),
        "docid": pa.string(),
        "comment": pa.string(),
        LINE: pa.int64(),
        "columns": pa.list_(pa.int32()),
        "values": pa.list_(pa.float32()),
    }
)


def token_rows(rows: RowBuffer) -> pa.Table:
    """Copy all rows of a buffer into a table of the schema `SCHEMA`."""
    table, n_rows, n_queries = rows.table, rows.n_rows, rows.n_queries
    query = np.repeat(np.arange(n_queries), np.diff(table.query_ptr[: n_queries + 1]))
    pointers = table.value_ptr[: n_rows + 1]
    stored = slice(int(pointers[0]), int(pointers[-1]))
    offsets = pa.array((pointers - pointers[0]).astype(np.int32))
    arrays = [
        string_array(table.qid_ptr[: n_queries + 1], table.qid_bytes).take(pa.array(query)),
        pa.array(table.relevance[:n_rows].copy()),
        string_array(table.doc_ptr[: n_rows + 1], table.doc_bytes),
        string_array(table.comment_ptr[: n_rows + 1], table.comment_bytes),
        pa.array(table.lines[:n_rows].copy()),
        pa.ListArray.from_arrays(offsets, pa.array(table.columns[stored].copy())),
        pa.ListArray.from_arrays(offsets, pa.array(table.values[stored].copy())),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def token_block(rows: pa.Table, form: BlockForm) -> QueryBlock:
    """Make a query block from rows of whole queries, in order; see `token_rows`."""
    arrays = {
        name: pa.concat_arrays(rows.column(name).chunks or [pa.array([], SCHEMA.field(name).type)])
        for name in SCHEMA.names
        if name != LINE
    }
    starts = run_starts(arrays[QID])
    qid_ptr, qid_bytes = _strings(arrays[QID].take(pa.array(starts)))
    doc_ptr, doc_bytes = _strings(arrays["docid"])
    comment_ptr, comment_bytes = _strings(arrays["comment"])
    table = empty_table()._replace(
        relevance=arrays[RELEVANCE].to_numpy(zero_copy_only=False),
        value_ptr=_borders(arrays["values"]),
        values=arrays["values"].flatten().to_numpy(zero_copy_only=False),
        columns=arrays["columns"].flatten().to_numpy(zero_copy_only=False),
        query_ptr=np.append(starts, rows.num_rows),
        qid_ptr=qid_ptr,
        qid_bytes=qid_bytes,
        comment_ptr=comment_ptr,
        comment_bytes=comment_bytes,
        doc_ptr=doc_ptr,
        doc_bytes=doc_bytes,
    )
    return make_block(table, 0, len(starts), form)


def _borders(array: pa.Array) -> NDArray[np.int64]:
    """(n + 1,) borders of lists or strings, from 0."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    own: NDArray[np.int64] = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    borders: NDArray[np.int64] = own - own[0]
    return borders


def _strings(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Borders from 0 and the bytes of an array of strings without nulls."""
    if not len(array):
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    _, offsets, content = array.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[array.offset, array.offset + len(array)]]
    text: NDArray[Any] = np.frombuffer(content or b"", np.uint8)[first:last]
    return _borders(array), text
