"""One line per query: what a scan of rows tells about the queries in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.tables.query_rows import run_starts

LINE = np.dtype(
    [
        ("hash", np.uint64),
        ("first", np.int64),
        ("last", np.int64),
        ("rows", np.int64),
    ]
)
"""A query's line: hash of its id, number of its first and last row, rows."""


def query_lines(ids: pa.Array, first_row: int, *, key: int = 0) -> NDArray[Any]:
    """One line per query of a range of rows.

    Parameters
    ----------
    ids
        (n,) int64, uint64 or string query ids without nulls, of consecutive rows.
    first_row
        Number of the first of these rows in the data set.
    key
        Key of the hash, at least 0.

    Returns
    -------
    (n_queries,) `LINE`, sorted by hash.
    """
    starts = run_starts(ids)
    lines = np.zeros(len(starts), dtype=LINE)
    if not len(starts):
        return lines
    ends = np.append(starts[1:], len(ids))
    lines["hash"] = hash_ids(ids.take(pa.array(starts)), key)
    lines["first"] = first_row + starts
    lines["last"] = first_row + ends - 1
    lines["rows"] = ends - starts
    return merge_lines([lines])


def merge_lines(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Merge lines of several ranges of rows, in any order, to one line per hash, sorted by hash."""
    lines = np.concatenate(parts) if parts else np.zeros(0, dtype=LINE)
    lines = lines[np.argsort(lines["hash"], kind="stable")]
    starts = np.flatnonzero(np.append(True, lines["hash"][1:] != lines["hash"][:-1])[: len(lines)])
    merged = lines[starts]
    if len(merged) < len(lines):
        merged["first"] = np.minimum.reduceat(lines["first"], starts)
        merged["last"] = np.maximum.reduceat(lines["last"], starts)
        merged["rows"] = np.add.reduceat(lines["rows"], starts)
    return merged


def hash_ids(ids: pa.Array, key: int = 0) -> NDArray[np.uint64]:
    """(n,) 64-bit hashes of int64, uint64 or string ids, equal on every machine."""
    from dranking.kernels.text.hashes import hash_strings, hash_words

    out = np.empty(len(ids), dtype=np.uint64)
    if not len(ids):
        return out
    if pa.types.is_integer(ids.type):
        words = ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)
        with np.errstate(over="ignore"):  # kernels that are not compiled warn
            hash_words(np.ascontiguousarray(words), np.uint64(key), out)
        return out
    ids = ids.cast(pa.large_string())
    _, offsets, text = ids.buffers()
    pointers = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    characters = np.frombuffer(text, np.uint8) if text and text.size else np.empty(0, np.uint8)
    with np.errstate(over="ignore"):
        hash_strings(pointers, characters, np.uint64(key), out)
    return out
