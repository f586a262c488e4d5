"""Rows of LETOR text sorted by query, in temporary files."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import block_boundaries
from dranking.errors import UsageError
from dranking.ingestion.kernels.tokenizer import TokenTable
from dranking.ingestion.letor.row_buffer import RowBuffer, empty_table
from dranking.ingestion.letor.seen_queries import query_keys


class Regrouper:
    """Takes rows in any order and returns them by query, in order of first appearance.

    Rows of a query keep their order. Values, comments and document ids are stored in unnamed
    temporary files, which the operating system removes when the process ends, however the process
    ends. Memory holds about 90 bytes per row and 150 bytes per query.
    """

    def __init__(self) -> None:
        self._files = ExitStack()
        self._ordinals: dict[bytes, int] = {}
        self._queries: list[NDArray[np.int64]] = []
        self._relevance: list[NDArray[np.float64]] = []
        self._values = _Spill(self._files, np.float32, np.int32)
        self._comments = _Spill(self._files, np.uint8)
        self._docs = _Spill(self._files, np.uint8)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closing the files flushes them, which fails again if the disk is full.
        with suppress(OSError):
            self._files.close()

    def take(self, rows: RowBuffer) -> None:
        """Move all rows out of a buffer.

        Raises
        ------
        UsageError
            If the folder of temporary files is full.
        """
        table, n_rows, n_queries = rows.table, rows.n_rows, rows.n_queries
        ordinals = [
            self._ordinals.setdefault(key, len(self._ordinals))
            for key in query_keys(table, range(n_queries))
        ]
        sizes = np.diff(table.query_ptr[: n_queries + 1])
        self._queries.append(np.repeat(np.array(ordinals, dtype=np.int64), sizes))
        self._relevance.append(table.relevance[:n_rows].copy())
        self._values.write(table.value_ptr[: n_rows + 1], table.values, table.columns)
        self._comments.write(table.comment_ptr[: n_rows + 1], table.comment_bytes)
        self._docs.write(table.doc_ptr[: n_rows + 1], table.doc_bytes)
        rows.clear()

    def tables(self, max_documents: int) -> Iterator[TokenTable]:
        """Yield the rows as one table of whole queries per block, without `lines` and `widths`."""
        queries, relevance = np.concatenate(self._queries), np.concatenate(self._relevance)
        order = np.argsort(queries, kind="stable")
        ends = np.cumsum(np.bincount(queries))
        starts = np.concatenate(([0], ends))
        keys = list(self._ordinals)
        for first, last in pairwise(block_boundaries(np.diff(starts), max_documents).tolist()):
            rows = order[starts[first] : starts[last]]
            value_ptr, values, columns = self._values.read(rows)
            comment_ptr, comment_bytes = self._comments.read(rows)
            doc_ptr, doc_bytes = self._docs.read(rows)
            yield empty_table()._replace(
                relevance=relevance[rows],
                value_ptr=value_ptr,
                values=values,
                columns=columns,
                query_ptr=starts[first : last + 1] - starts[first],
                qid_ptr=_borders(np.array([len(key) for key in keys[first:last]])),
                qid_bytes=np.frombuffer(b"".join(keys[first:last]), dtype=np.uint8),
                comment_ptr=comment_ptr,
                comment_bytes=comment_bytes,
                doc_ptr=doc_ptr,
                doc_bytes=doc_bytes,
            )


class _Spill:
    """Items of rows in temporary files: written in order, read in any order.

    Parameters
    ----------
    files
        Exit stack that closes the temporary files.
    dtypes
        One dtype per array; a row has equally many items in every array.
    """

    def __init__(self, files: ExitStack, *dtypes: type[np.generic]) -> None:
        self._dtypes = dtypes
        self._files: list[IO[bytes]] = [
            files.enter_context(tempfile.TemporaryFile()) for _ in dtypes
        ]
        self._lengths: list[NDArray[np.int64]] = []
        self._pointers = np.zeros(1, dtype=np.int64)
        self._arrays: list[NDArray[Any]] = []

    def write(self, pointers: NDArray[np.int64], *arrays: NDArray[Any]) -> None:
        """Append rows; `pointers` (n_rows + 1,) are their borders in the arrays, from 0."""
        self._lengths.append(np.diff(pointers))
        try:
            for file, array in zip(self._files, arrays, strict=True):
                file.write(array[: pointers[-1]].data)
                file.flush()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise UsageError(
                f"{tempfile.gettempdir()} is full; regrouping stores the data there for a while. "
                "Set TMPDIR to a folder with more room."
            ) from error

    def read(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        """(n_rows + 1,) borders and the arrays of some rows; call it after the last `write`."""
        if not self._arrays:
            self._pointers = _borders(np.concatenate(self._lengths))
            self._arrays = [
                np.memmap(file, dtype=dtype, mode="r") if self._pointers[-1] else np.empty(0, dtype)
                for file, dtype in zip(self._files, self._dtypes, strict=True)
            ]
        starts = self._pointers[rows]
        borders = _borders(self._pointers[rows + 1] - starts)
        items = np.repeat(starts - borders[:-1], np.diff(borders)) + np.arange(borders[-1])
        return borders, *(np.asarray(array[items]) for array in self._arrays)


def _borders(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
