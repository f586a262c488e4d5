"""Sources of rows: files whose rows are numbered, so that tasks can read any range of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from dranking.data.blocks import QueryBlock


class IdBatch(NamedTuple):
    """Query ids of consecutive rows, without nulls."""

    first_row: int
    ids: pa.Array


class RowSource(Protocol):
    """Rows that are numbered from 0, in the order of the files. A source is small and is pickled.

    Attributes
    ----------
    n_rows
        Number of rows.
    borders
        The rows at which a range best begins, ascending from 0 to `n_rows`: reading from such a row
        costs nothing for the rows before it.
    row_bytes
        Estimated number of bytes of a row in memory.
    """

    n_rows: int
    borders: tuple[int, ...]
    row_bytes: int

    def query_ids(self, start: int, stop: int) -> Iterator[IdBatch]:
        """Query ids of a range of rows; reads only the columns of ids and relevance.

        Raises
        ------
        DataError
            If an id is missing or a relevance is infinite or beyond 1e50; the message says where.
        """
        ...

    def read_block(self, start: int, stop: int) -> QueryBlock:
        """The block of a range of rows, which holds whole queries; missing values may be NaN.

        Raises
        ------
        DataError
            If a value is not allowed; the message says where.
        """
        ...

    def tables(self, start: int, stop: int, n_bytes: int) -> Iterator[pa.Table]:
        """A range of rows as tables of about `n_bytes`, with the ids in the column ``qid``.

        Raises
        ------
        DataError
            If a value is not allowed; the message says where.
        """
        ...

    def table_block(self, rows: pa.Table) -> QueryBlock:
        """The block of rows of whole queries that come from `tables`."""
        ...

    def place(self, row: int) -> str:
        """The place of a row, for errors."""
        ...
