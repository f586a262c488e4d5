"""Rows of flat parquet files, read in place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from dranking.data.blocks import QueryBlock
from dranking.data.parquet.files import ParquetFiles
from dranking.data.tables.columns import Layout
from dranking.data.tables.exchanged_rows import ROW, exchanged_layout, exchanged_rows
from dranking.data.tables.ids import as_ids, check_no_null
from dranking.data.tables.numeric_values import arrow_numbers, check_relevance
from dranking.data.tables.rows_to_block import rows_to_block
from dranking.ingestion.rows.row_source import IdBatch

SCANNED_ROWS = 1 << 18
"""Rows of the columns of ids and relevance that are in memory at a time."""


class ParquetRows:
    """A `RowSource` of flat parquet files.

    Parameters
    ----------
    files
        The files.
    layout
        Roles of the columns, which hold for all files.
    missing
        Whether feature values may be missing; they are NaN in blocks and tables then.
    line_column
        Column with the numbers of the lines that the rows come from; None if they come from none.
    """

    def __init__(
        self,
        files: ParquetFiles,
        layout: Layout,
        *,
        missing: bool,
        line_column: str | None = None,
    ) -> None:
        self._line_column = line_column
        self._files, self._layout, self._missing = files, layout, missing
        self._features = np.arange(len(layout.feature_names))
        self._columns = layout.to_read(self._features)
        self._exchanged = exchanged_layout(layout)
        self.n_rows = files.n_rows
        self.borders = files.group_borders
        self.row_bytes = 4 * len(layout.feature_names) + 64

    def query_ids(self, start: int, stop: int) -> Iterator[IdBatch]:
        """Query ids of a range of rows; reads only the columns of ids and relevance."""
        roles = self._layout.roles
        columns = [roles.qid, *([roles.relevance] if roles.relevance else [])]
        for first in range(start, stop, SCANNED_ROWS):
            row = first
            for table in self._files.read(row, min(first + SCANNED_ROWS, stop), columns):
                place = partial(self._place_from, row)
                is_text = self._layout.qid_is_text
                ids = as_ids(table.column(roles.qid), roles.qid, as_string=is_text, place=place)
                check_no_null(ids, roles.qid, place)
                if roles.relevance:
                    numbers = arrow_numbers(table.column(roles.relevance)).astype(np.float64)
                    check_relevance(numbers, place)
                yield IdBatch(row, ids)
                row += table.num_rows

    def read_block(self, start: int, stop: int) -> QueryBlock:
        """The block of a range of rows; features are F-ordered from columns, C-ordered from lists.

        Blocks that one thread reads in order cost one pass, however large the row groups are.
        """
        return rows_to_block(
            self._files.read(start, stop, self._columns),
            self._layout,
            self._features,
            partial(self._place_from, start),
            missing=self._missing,
        )

    def tables(self, start: int, stop: int, n_bytes: int) -> Iterator[pa.Table]:
        """A range of rows as tables of about `n_bytes`; see `exchanged_rows`."""
        step = max(n_bytes // self.row_bytes, 1)
        for first in range(start, stop, step):
            yield exchanged_rows(
                self._files.read(first, min(first + step, stop), self._columns),
                self._layout,
                first,
                partial(self._place_from, first),
                missing=self._missing,
            )

    def table_block(self, rows: pa.Table) -> QueryBlock:
        """The block of rows of whole queries that come from `tables`."""
        numbers = rows.column(ROW).to_numpy()
        return rows_to_block(
            [rows],
            self._exchanged,
            self._features,
            lambda row: self.place(int(numbers[row])),
            missing=self._missing,
        )

    def place(self, row: int) -> str:
        """The file of a row, and its position or its line in that file."""
        if self._line_column is None:
            return self._files.place(row)
        (table,) = self._files.read(row, row + 1, [self._line_column])
        return f"{self._files.name(row)}:{table.column(self._line_column)[0]}"

    def _place_from(self, start: int, row: int) -> str:
        return self.place(start + row)
