"""Queries that LETOR text has held so far, to find one whose rows are not adjacent."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

from dranking.errors import of_ingest
from dranking.ingestion.kernels.tokenizer import TokenTable
from dranking.ingestion.letor.invalid_lines import InvalidLine


class SeenQueries:
    """Every query read so far with the place of its rows, to find a query that appears again.

    Parameters
    ----------
    paths
        The files; `add` takes positions in this list.

    Notes
    -----
    The dictionary takes about 200 bytes per query, and twice as much just after it has grown.
    Nothing else grows with the data while text is streamed.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._ordinals: dict[bytes, int] = {}
        self._first_files, self._last_files = array("i"), array("i")
        self._first_lines, self._last_lines = array("q"), array("q")

    def add(self, file: int, table: TokenTable, rows: range, queries: range) -> list[InvalidLine]:
        """Add the rows and queries that a chunk appended to a table.

        Parameters
        ----------
        file
            Position of the chunk's file.
        table
            The table so far; rows before the first new query belong to the query before the chunk.
        rows, queries
            The rows and the queries that the chunk appended.

        Returns
        -------
        The first row of a query that appeared before, or an empty list.
        """
        pointers = table.query_ptr[queries.start : queries.stop + 1]
        if len(rows) and pointers[0] > rows.start:
            self._last_files[-1] = file
            self._last_lines[-1] = int(table.lines[pointers[0] - 1])
        first_lines = table.lines[pointers[:-1]].tolist()
        last_lines = table.lines[pointers[1:] - 1].tolist()
        for key, first, last in zip(
            query_keys(table, queries), first_lines, last_lines, strict=True
        ):
            ordinal = self._ordinals.setdefault(key, len(self._first_lines))
            if ordinal < len(self._first_lines):
                return [InvalidLine(first, self._message(key, ordinal, file))]
            self._first_files.append(file)
            self._last_files.append(file)
            self._first_lines.append(first)
            self._last_lines.append(last)
        return []

    def _message(self, key: bytes, ordinal: int, file: int) -> str:
        def place(at: int, line: int) -> str:
            return f"line {line}" if at == file else f"{self._paths[at]}:{line}"

        first = place(self._first_files[ordinal], self._first_lines[ordinal])
        last = place(self._last_files[ordinal], self._last_lines[ordinal])
        return (
            f"query {key.decode(errors='replace')} appears again (first at {first}, ended at "
            f"{last}). Rows of a query must be adjacent; pass {of_ingest('regroup')} to "
            "sort them together."
        )


def query_keys(table: TokenTable, queries: range) -> list[bytes]:
    """Ids of some queries of a table, as bytes."""
    pointers = table.qid_ptr[queries.start : queries.stop + 1]
    text = table.qid_bytes[pointers[0] : pointers[-1]].tobytes()
    borders = (pointers - pointers[0]).tolist()
    return [text[start:stop] for start, stop in pairwise(borders)]
