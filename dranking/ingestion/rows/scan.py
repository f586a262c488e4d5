"""Tasks that find the queries of a source: their first rows, and their numbers of rows."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.regrouping.layout import QUERY, FirstRows, Summary, order_queries, summarize
from dranking.data.regrouping.query_lines import LINE, hash_ids, merge_lines, query_lines
from dranking.data.tables.query_rows import run_starts
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.scratch import FileParts, Scratch, numbered

N_BINS = 256
"""Bins of hashes, by their first byte; a partition of hashes is some neighbouring bins."""

LINES, QUERIES, FIRST_ROWS = "lines", "queries", "first"
"""Beginnings of the names of scratch files. "lines" hold the lines of a range of rows; "queries"
hold the queries of a partition of hashes, by first row; "first" hold the first row of the query of
each line of a partition."""


def scan_rows(
    source: RowSource, scratch: Scratch, number: int, start: int, stop: int, key: int
) -> NDArray[np.int64]:
    """Write the lines of the queries of a range of rows, sorted by hash.

    Returns
    -------
    (N_BINS + 1,) int64 first line of each bin of hashes, then the number of lines.
    """
    batches = source.query_ids(start, stop)
    lines = merge_lines([query_lines(b.ids, b.first_row, key=key) for b in batches])
    scratch.put(numbered(LINES, number), lines.tobytes())
    bins = (lines["hash"] >> np.uint64(56)).astype(np.int64)
    return np.append(0, np.cumsum(np.bincount(bins, minlength=N_BINS))).astype(np.int64)


def reduce_lines(scratch: Scratch, number: int, lines: FileParts) -> Summary:
    """Write the queries of a partition of hashes by first row, from its lines in all ranges."""
    queries, summary = summarize(merge_lines(_lines(scratch, lines)))
    scratch.put(numbered(QUERIES, number), queries.tobytes())
    return summary


def ordered_queries(scratch: Scratch, rows: FirstRows) -> NDArray[Any]:
    """(n,) `QUERY` of all partitions whose first rows are in a range, in order."""
    parts = FileParts(QUERIES, np.arange(len(rows.items)), rows.items)
    found = [np.frombuffer(part, QUERY) for part in scratch.get_parts(parts, QUERY.itemsize)]
    return order_queries(found, rows.low, rows.high)


def answer_lines(scratch: Scratch, number: int, lines: FileParts) -> NDArray[np.int64]:
    """Write, for every line of a partition, the first row of its query in all rows (int64).

    Returns
    -------
    (n_ranges + 1,) int64 first item of the answers to each range, then the number of items.
    """
    parts = _lines(scratch, lines)
    whole = merge_lines(parts)
    first = [whole["first"][np.searchsorted(whole["hash"], part["hash"])] for part in parts]
    content = np.concatenate(first).tobytes() if first else b""
    scratch.put(numbered(FIRST_ROWS, number), content)
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


def known_hashes(
    scratch: Scratch, lines: FileParts, hashes: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """The hashes, among `hashes`, that occur in the lines of a partition."""
    found = [part["hash"] for part in _lines(scratch, lines)]
    return np.intersect1d(np.concatenate([np.empty(0, np.uint64), *found]), hashes)


def hashes_of_any_type(ids: pa.Array, key: int) -> NDArray[np.uint64]:
    """Hashes of ids as texts, and also as integers if a text is one: ``7`` is the id ``"7"``."""
    texts = ids.cast(pa.string())
    if pa.types.is_integer(ids.type):
        return np.concatenate([hash_ids(texts, key), hash_ids(ids, key)])
    numbers = texts.filter(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,18})$"))
    numbers = numbers.cast(pa.decimal128(19))
    limits = np.iinfo(np.int64)
    least, most = (pa.scalar(Decimal(int(limit))) for limit in (limits.min, limits.max))
    fits = pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most))
    integers = numbers.filter(fits).cast(pa.int64())
    return np.concatenate([hash_ids(texts, key), hash_ids(integers, key)])


def ids_with(
    source: RowSource, start: int, stop: int, hashes: NDArray[np.uint64], key: int
) -> set[str]:
    """The query ids, as texts, of a range of rows that have one of some hashes."""
    found: set[str] = set()
    for batch in source.query_ids(start, stop):
        ids = batch.ids.take(pa.array(run_starts(batch.ids)))
        known = ids.filter(pa.array(np.isin(hash_ids(ids, key), hashes)))
        found.update(known.cast(pa.string()).to_pylist())
    return found


def _lines(scratch: Scratch, parts: FileParts) -> list[NDArray[Any]]:
    return [np.frombuffer(part, LINE) for part in scratch.get_parts(parts, LINE.itemsize)]


def read_lines(scratch: Scratch, number: int) -> NDArray[Any]:
    """All lines of a range of rows."""
    return np.frombuffer(scratch.get(numbered(LINES, number)), LINE)


def read_answers(scratch: Scratch, answers: FileParts) -> NDArray[np.int64]:
    """(n,) int64 first rows, joined from the answers of all partitions."""
    return np.frombuffer(b"".join(scratch.get_parts(answers, 8)), np.int64)


def partition_bins(bin_sizes: Sequence[int], n_lines: int) -> list[tuple[int, int]]:
    """Cut the bins into partitions of about `n_lines` lines, or of one bin."""
    borders, filled = [0], 0
    for bin_, size in enumerate(bin_sizes):
        if filled and filled + size > n_lines:
            borders.append(bin_)
            filled = 0
        filled += size
    return list(pairwise([*borders, len(bin_sizes)]))


def all_ids(table: pa.Table, name: str) -> pa.Array:
    """A column of ids as one array."""
    column = table.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
