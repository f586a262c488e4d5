"""The error for rows of a query that lie apart, where they must be adjacent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dranking.data.regrouping.layout import HashCollisionError
from dranking.data.tables.query_rows import run_starts
from dranking.errors import DataError, of_ingest
from dranking.ingestion.rows.row_source import RowSource
from dranking.ingestion.rows.text_rows import TextRows


def repeated_query(source: RowSource) -> DataError:
    """Read the ids of a source up to the first query that appears again; the error for it.

    Raises
    ------
    HashCollisionError
        If no query appears again: two ids have one hash.
    """
    runs: dict[Any, list[int]] = {}  # first and last row
    last: Any = None
    for batch in source.query_ids(0, source.n_rows):
        starts = run_starts(batch.ids).tolist()
        ids = batch.ids.take(pa.array(starts)).to_pylist()
        for query, start, stop in zip(ids, starts, [*starts[1:], len(batch.ids)], strict=True):
            row = batch.first_row + start
            if query in runs and query != last:
                first_row, last_row = runs[query]
                return _error(source, query, first_row, last_row, row)
            runs.setdefault(query, [row, row])[1] = batch.first_row + stop - 1
            last = query
    raise HashCollisionError("the rows of every query are adjacent")


def _error(source: RowSource, query: Any, first: int, last: int, again: int) -> DataError:
    def place(row: int) -> str:
        if isinstance(source, TextRows) and source.path(row) == source.path(again):
            return f"line {source.line(row)}"
        return source.place(row)

    counted = "; rows count from 0" if ": row " in source.place(again) else ""
    return DataError(
        f"{source.place(again)}: query {query} appears again (first at {place(first)}, ended at "
        f"{place(last)}{counted}). Rows of a query must be adjacent; pass "
        f"{of_ingest('regroup')} to sort them together."
    )
