"""Buffer of tokenized rows of LETOR text, and query blocks made from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import FeatureMatrix, QueryBlock, canonical_csr
from dranking.data.tables.numeric_values import LARGEST_GRADE
from dranking.errors import DataError, of_ingest
from dranking.ingestion.kernels import tokenizer
from dranking.ingestion.kernels.tokenizer import TokenTable, scatter_rows, tokenize
from dranking.ingestion.letor.invalid_lines import (
    RELEVANCE_RANGE,
    InvalidLine,
    invalid_encoding,
    invalid_index,
    invalid_syntax,
)

MAX_DENSE_BYTES = 1 << 33
"""A larger dense block is refused: the data is probably sparse, but `sparse` was not set."""

# Names of the arrays that grow with the rows, and of those that grow with the values. Strings are a
# pair of arrays, pointers and bytes, with the tokenizer's count of these strings. Pointers have one
# entry more than there are items; the last pointer of strings is the number of all their bytes.
_PER_ROW = ("relevance", "lines", "widths")
_PER_VALUE = ("values", "columns")
_STRINGS = (
    ("qid_ptr", "qid_bytes", tokenizer.QUERIES),
    ("comment_ptr", "comment_bytes", tokenizer.ROWS),
    ("doc_ptr", "doc_bytes", tokenizer.ROWS),
)


class BlockForm(NamedTuple):
    """Form of a block to make.

    Attributes
    ----------
    n_features
        Number of columns.
    sparse
        Whether the features are CSR.
    doc_ids, comments
        Whether the block has document ids, and comments; a document without one gets an empty
        string.
    """

    n_features: int
    sparse: bool
    doc_ids: bool
    comments: bool


class RowBuffer:
    """Rows that were read but not yet made into blocks, in arrays that grow and are reused.

    Parameters
    ----------
    nullable
        Whether a value may be ``NULL``, which becomes NaN; otherwise it is an error.

    Attributes
    ----------
    table
        The arrays; `append` may replace them by larger ones.
    """

    def __init__(self, nullable: bool) -> None:
        self._null = tokenizer.NULL_IS_NAN if nullable else tokenizer.NULL_IS_ERROR
        self._counts = np.zeros(tokenizer.N_COUNTS, dtype=np.int64)
        self.table = empty_table()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._counts[tokenizer.ROWS])

    @property
    def n_queries(self) -> int:
        """Number of queries; the last one may continue in the next chunk."""
        return int(self._counts[tokenizer.QUERIES])

    @property
    def n_lines(self) -> int:
        """Number of lines of the file so far."""
        return int(self._counts[tokenizer.LINE]) - 1

    def begin_file(self) -> None:
        """Count lines from 1 again."""
        self._counts[tokenizer.LINE] = 1

    def append(self, text: NDArray[np.uint8], n_features: int | None) -> list[InvalidLine]:
        """Tokenize a chunk.

        Parameters
        ----------
        text
            (n_bytes,) uint8, whole lines.
        n_features
            Largest feature index allowed; None allows any index.

        Returns
        -------
        The invalid lines found. Rows before the first of them are in the table.
        """
        counts = self._counts
        row, query = self.n_rows, self.n_queries
        counts[tokenizer.SLOW] = 0
        self._reserve(len(text))
        table = self.table
        code = tokenize(text, table, counts, self._null)
        rows = slice(row, self.n_rows)
        lines = table.lines[rows]
        first_lines = table.lines[table.query_ptr[query : self.n_queries]]
        invalid = [
            _convert_slow(text, table, int(counts[tokenizer.SLOW])),
            invalid_index(table.widths[rows], lines, n_features)
            if n_features is not None
            else None,
            invalid_encoding(
                table.qid_ptr[query : self.n_queries + 1], table.qid_bytes, first_lines, "query id"
            ),
            invalid_encoding(
                table.comment_ptr[row : self.n_rows + 1], table.comment_bytes, lines, "comment"
            ),
        ]
        if code != tokenizer.OK:
            position, line = int(counts[tokenizer.ERROR_AT]), int(counts[tokenizer.LINE])
            invalid.append(invalid_syntax(code, text, position, line))
        return [found for found in invalid if found is not None]

    def drop(self, n_queries: int) -> None:
        """Remove the first queries and their rows, and move the others to the front."""
        if n_queries == 0:
            return  # every chunk calls this, even in the middle of a long query
        table, counts = self.table, self._counts
        n_rows = int(table.query_ptr[n_queries])
        n_values = int(table.value_ptr[n_rows])
        for name in _PER_ROW:
            _shift(getattr(table, name), n_rows, self.n_rows)
        for name in _PER_VALUE:
            _shift(getattr(table, name), n_values, int(counts[tokenizer.VALUES]))
        for ptr_name, bytes_name, unit in _STRINGS:
            pointers = getattr(table, ptr_name)
            dropped = n_queries if unit == tokenizer.QUERIES else n_rows
            end = int(counts[unit])
            _shift(getattr(table, bytes_name), int(pointers[dropped]), int(pointers[end]))
            _shift_pointers(pointers, dropped, end)
        _shift_pointers(table.value_ptr, n_rows, self.n_rows)
        _shift_pointers(table.query_ptr, n_queries, self.n_queries)
        counts[tokenizer.ROWS] -= n_rows
        counts[tokenizer.VALUES] -= n_values
        counts[tokenizer.QUERIES] -= n_queries

    def clear(self) -> None:
        """Remove all rows and queries."""
        self.drop(self.n_queries)

    def _reserve(self, n_bytes: int) -> None:
        """Grow the arrays to hold whatever `n_bytes` of text may append."""
        # The shortest line is "0 qid:1\n", the shortest value " 1:1".
        rows, values = n_bytes // 8 + 1, n_bytes // 4 + 1
        room = {name: self.n_rows + rows for name in _PER_ROW}
        room |= {name: int(self._counts[tokenizer.VALUES]) + values for name in _PER_VALUE}
        room |= {"value_ptr": self.n_rows + rows + 1, "query_ptr": self.n_queries + rows + 1}
        room["slow"] = values + rows
        for ptr_name, bytes_name, unit in _STRINGS:
            end = int(self._counts[unit])
            room[ptr_name] = end + rows + 1
            room[bytes_name] = int(getattr(self.table, ptr_name)[end]) + n_bytes
        self.table = self.table._replace(
            **{name: _grown(getattr(self.table, name), size) for name, size in room.items()}
        )


def empty_table() -> TokenTable:
    """A table without rows."""
    pointers = {name: np.zeros(1, dtype=np.int64) for name in ("value_ptr", "query_ptr")}
    pointers |= {name: np.zeros(1, dtype=np.int64) for name, _, _ in _STRINGS}
    return TokenTable(
        relevance=np.empty(0),
        lines=np.empty(0, dtype=np.int64),
        widths=np.empty(0, dtype=np.int32),
        values=np.empty(0, dtype=np.float32),
        columns=np.empty(0, dtype=np.int32),
        qid_bytes=np.empty(0, dtype=np.uint8),
        comment_bytes=np.empty(0, dtype=np.uint8),
        doc_bytes=np.empty(0, dtype=np.uint8),
        slow=np.empty((0, 4), dtype=np.int64),
        **pointers,
    )


def _convert_slow(text: NDArray[np.uint8], table: TokenTable, n_slow: int) -> InvalidLine | None:
    """Convert the numbers that the tokenizer skipped; return the first that is out of range."""
    for slot, start, stop, line in table.slow[:n_slow].tolist():
        number = float(text[start:stop].tobytes())
        if slot < 0:
            table.relevance[-1 - slot] = number
            if np.isinf(number):
                return invalid_syntax(tokenizer.BAD_RELEVANCE, text, start, line)
            if number < 0 and number != -1:
                return invalid_syntax(tokenizer.NEGATIVE_RELEVANCE, text, start, line)
            if number > LARGEST_GRADE:  # the tokenizer leaves all such numbers to this loop
                return invalid_syntax(RELEVANCE_RANGE, text, start, line)
        else:
            with np.errstate(over="ignore"):
                table.values[slot] = np.float32(number)
            if np.isinf(table.values[slot]):
                return invalid_syntax(tokenizer.VALUE_RANGE, text, start, line)
    return None


def make_block(table: TokenTable, first: int, last: int, form: BlockForm) -> QueryBlock:
    """Copy queries `first` to `last` - 1 of a table into a block.

    Raises
    ------
    DataError
        If a dense matrix would exceed `MAX_DENSE_BYTES`.
    """
    start, stop = int(table.query_ptr[first]), int(table.query_ptr[last])
    relevance = table.relevance[start:stop]
    doc_ptr = table.doc_ptr[start : stop + 1]
    comment_ptr = table.comment_ptr[start : stop + 1]
    return QueryBlock(
        features=_features(table, start, stop, form),
        relevance=np.where(relevance == -1, np.nan, relevance),
        query_ptr=table.query_ptr[first : last + 1] - start,
        query_ids=string_array(table.qid_ptr[first : last + 1], table.qid_bytes),
        doc_ids=string_array(doc_ptr, table.doc_bytes) if form.doc_ids else None,
        comments=string_array(comment_ptr, table.comment_bytes) if form.comments else None,
    )


def string_array(pointers: NDArray[np.int64], text: NDArray[np.uint8]) -> pa.Array:
    """Copy the strings between (n_strings + 1,) borders in `text` (uint8, UTF-8)."""
    start, stop = int(pointers[0]), int(pointers[-1])
    if stop - start > np.iinfo(np.int32).max:
        raise DataError(
            f"the comments of one block of queries take {stop - start} bytes, and Arrow strings "
            "hold at most 2147483647. Shorten the comments of the file."
        )
    offsets = (pointers - start).astype(np.int32)
    return pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text[start:stop].copy())
    )


def _features(table: TokenTable, start: int, stop: int, form: BlockForm) -> FeatureMatrix:
    shape = (stop - start, form.n_features)
    pointers = table.value_ptr[start : stop + 1]
    if not form.sparse:
        n_bytes = 4 * shape[0] * shape[1]
        if n_bytes > MAX_DENSE_BYTES:
            raise DataError(
                f"{shape[0]} documents of {shape[1]} features would take "
                f"{n_bytes / 2**30:.0f} GiB as a dense block; read the data as sparse, with "
                f"{of_ingest('sparse')}."
            )
        dense = np.zeros(shape, dtype=np.float32)
        scatter_rows(pointers, table.columns, table.values, dense)
        return dense
    stored = slice(int(pointers[0]), int(pointers[-1]))
    features = canonical_csr(
        table.values[stored].copy(), table.columns[stored].copy(), pointers - pointers[0], shape
    )
    features.eliminate_zeros()  # also removes -0, which dense blocks keep
    return features


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array, or a longer one that begins with it."""
    if len(array) >= size:
        return array
    longer = np.empty((max(size, 3 * len(array) // 2), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _shift(array: NDArray[Any], start: int, stop: int) -> None:
    array[: stop - start] = array[start:stop]


def _shift_pointers(pointers: NDArray[np.int64], start: int, stop: int) -> None:
    pointers[: stop - start + 1] = pointers[start : stop + 1] - pointers[start]
