"""Tokenizer of LETOR / SVMlight text: bytes in, rows of numbers and byte strings out.

A chunk of whole lines is read once, byte by byte. Its rows are appended to growing arrays
(`TokenTable`). A small array of counts says how far each array is filled, so that the next chunk
continues where this chunk ended.

Every value is the float32 of the correctly rounded float64 (see `decimals`); the few numbers whose
float32 is uncertain are listed for the caller to convert.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.ingestion.kernels.decimals import (
    MAX_EXACT_MANTISSA,
    MAX_EXACT_POWER,
    POWERS,
    round_to_float32,
    scale,
    scan_decimal,
    scan_digits,
)
from dranking.ingestion.kernels.words import (
    COLON,
    DOT,
    EQUALS,
    HASH,
    MINUS,
    NEWLINE,
    RETURN,
    append_bytes,
    ends_word,
    is_alphanumeric,
    is_blank,
    line_end,
    matches,
    skip_blanks,
    word_end,
)
from dranking.kernels.machine.compile import kernel

# Reasons why the tokenizer stopped (its return value).
OK = 0
BAD_RELEVANCE = 1
NEGATIVE_RELEVANCE = 2
NO_QID = 3
BAD_FEATURE = 4
INDEX_ZERO = 5
INDEX_ORDER = 6
INDEX_LARGE = 7
BAD_VALUE = 8
NULL_VALUE = 9
VALUE_RANGE = 10
SLOW_NUMBER = 11  # used only within this module

# Positions in the array of counts.
ROWS, VALUES, QUERIES, SLOW, LINE, ERROR_AT = range(6)
N_COUNTS = 6

# Treatments of a NULL value.
NULL_IS_ERROR, NULL_IS_NAN = range(2)

MAX_INDEX = 2**31 - 2
"""Largest feature index: columns are int32, and so is their number."""

_QID = np.frombuffer(b"qid:", dtype=np.uint8)
_NULL = np.frombuffer(b"NULL", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)
_SHORT = 18  # numbers of so many digits fit into int64


class TokenTable(NamedTuple):
    """Growing arrays that the tokenizer appends to; `counts` says how far they are filled.

    Attributes
    ----------
    relevance
        (rows,) float64 relevance as in the text.
    lines
        (rows,) int64 line number in the file, from 1.
    widths
        (rows,) int32 largest feature index of the row, including features with value 0.
    value_ptr
        (rows + 1,) int64; the values of row r are `value_ptr[r]:value_ptr[r + 1]`.
    values, columns
        (values,) float32 values and int32 columns (counted from 0), without values of +0.
    query_ptr
        (queries + 1,) int64 first row of each query, then the number of rows.
    qid_ptr, qid_bytes
        (queries + 1,) int64 offsets into uint8 bytes: the query ids.
    comment_ptr, comment_bytes
        (rows + 1,) int64 offsets into uint8 bytes: the comments behind ``#``.
    doc_ptr, doc_bytes
        (rows + 1,) int64 offsets into uint8 bytes: the words behind ``docid =`` in comments.
    slow
        (slow, 4) int64 numbers that the caller must convert: position in `values` (or -1 - row for
        a relevance), first byte and last byte + 1 in the text, line.
    """

    relevance: NDArray[np.float64]
    lines: NDArray[np.int64]
    widths: NDArray[np.int32]
    value_ptr: NDArray[np.int64]
    values: NDArray[np.float32]
    columns: NDArray[np.int32]
    query_ptr: NDArray[np.int64]
    qid_ptr: NDArray[np.int64]
    qid_bytes: NDArray[np.uint8]
    comment_ptr: NDArray[np.int64]
    comment_bytes: NDArray[np.uint8]
    doc_ptr: NDArray[np.int64]
    doc_bytes: NDArray[np.uint8]
    slow: NDArray[np.int64]


@kernel
def tokenize(
    text: NDArray[np.uint8], table: TokenTable, counts: NDArray[np.int64], null: int
) -> int:
    """Append the rows of a chunk of text to the table.

    Parameters
    ----------
    text
        (n_bytes,) uint8, whole lines: empty, or with a newline at the end.
    table
        The table to which rows are appended. It must have room for `n_bytes` // 4 values, `n_bytes`
        // 8 + 1 rows and queries, and `n_bytes` more bytes in each array of bytes.
    counts
        (N_COUNTS,) int64, updated. `LINE` is the number of the next line. At an error, `ERROR_AT`
        is set to the wrong byte, and the other counts end before the line of this byte.
    null
        `NULL_IS_ERROR` or `NULL_IS_NAN`.

    Returns
    -------
    `OK`, or the reason why the tokenizer stopped.

    Notes
    -----
    One pass, O(n_bytes).
    """
    line_start = 0
    while line_start < len(text):
        start = skip_blanks(text, line_start)
        if text[start] == NEWLINE:
            stop = start
        elif text[start] == HASH:
            stop = line_end(text, start)
        else:
            code, stop = _read_row(text, start, table, counts, null)
            if code != OK:
                counts[ERROR_AT] = stop
                return code
        counts[LINE] += 1
        line_start = stop + 1
    return OK


@kernel
def _read_row(
    text: NDArray[np.uint8], start: int, table: TokenTable, counts: NDArray[np.int64], null: int
) -> tuple[int, int]:
    """Append one line; return the error code, and the line's end or the wrong byte."""
    row = counts[ROWS]
    code, stop, relevance = _read_relevance(text, start)
    if code == SLOW_NUMBER:
        _add_slow(table.slow, counts, -1 - row, start, stop)
    elif code != OK:
        return code, start
    table.relevance[row] = relevance
    start = skip_blanks(text, stop)
    if not matches(text, start, _QID) or ends_word(text[start + len(_QID)]):
        return NO_QID, start
    qid_start = start + len(_QID)
    qid_stop = word_end(text, qid_start)
    code, stop, width, n_values = _read_features(
        text, qid_stop, table.values, table.columns, table.slow, counts, null
    )
    if code != OK:
        return code, stop
    newline = line_end(text, stop)
    start, stop = _comment_range(text, stop, newline)
    filled = table.comment_ptr[row]
    table.comment_ptr[row + 1] = append_bytes(text, start, stop, table.comment_bytes, filled)
    start, stop = _find_doc_id(text, start, stop)
    filled = table.doc_ptr[row]
    table.doc_ptr[row + 1] = append_bytes(text, start, stop, table.doc_bytes, filled)
    query = counts[QUERIES]
    if not _is_last_query(text, qid_start, qid_stop, table.qid_ptr, table.qid_bytes, query):
        filled = table.qid_ptr[query]
        table.qid_ptr[query + 1] = append_bytes(text, qid_start, qid_stop, table.qid_bytes, filled)
        table.query_ptr[query] = row
        query += 1
    table.query_ptr[query] = row + 1
    table.lines[row] = counts[LINE]
    table.widths[row] = width
    table.value_ptr[row + 1] = n_values
    counts[ROWS] = row + 1
    counts[VALUES] = n_values
    counts[QUERIES] = query
    return OK, newline


@kernel
def _read_relevance(text: NDArray[np.uint8], start: int) -> tuple[int, int, float]:
    """Read the relevance; return its error code, its end and its value."""
    valid, stop, negative, mantissa, exponent, cut = scan_decimal(text, start)
    if not valid:
        return BAD_RELEVANCE, start, 0.0
    if mantissa == 0:
        value = 0.0
    elif not cut and mantissa <= MAX_EXACT_MANTISSA and abs(exponent) <= MAX_EXACT_POWER:
        value = scale(mantissa, exponent)
    else:
        return SLOW_NUMBER, stop, 0.0
    if negative and value != 0.0 and value != 1.0:
        return NEGATIVE_RELEVANCE, start, 0.0
    return OK, stop, -value if negative else value


@kernel
def _read_features(
    text: NDArray[np.uint8],
    position: int,
    values: NDArray[np.float32],
    columns: NDArray[np.int32],
    slow: NDArray[np.int64],
    counts: NDArray[np.int64],
    null: int,
) -> tuple[int, int, int, int]:
    """Store the values of a row.

    Returns
    -------
    The error code, the end of the features or the wrong byte, the last index, the number of values.
    """
    # Nearly all time is spent here. Short decimals are read in place, with helpers that have a
    # single return statement: Numba inlines them without counting references to `text`.
    filled = counts[VALUES]
    last = 0
    while True:
        start = skip_blanks(text, position)
        position, index = scan_digits(text, start, 0)
        if text[position] != COLON or index <= last or index > MAX_INDEX:
            break
        last = index
        number = position + 1
        negative = text[number] == MINUS
        first = number + 1 if negative else number
        position, mantissa = scan_digits(text, first, 0)
        fraction = position
        if position > first and text[position] == DOT:
            fraction = position + 1
            position, mantissa = scan_digits(text, fraction, mantissa)
        short = first < position <= first + _SHORT and mantissa <= MAX_EXACT_MANTISSA
        if short and ends_word(text[position]):
            value = np.float32(mantissa / POWERS[position - fraction])
        else:
            code, position, value = _read_value(text, number, null)
            if code == SLOW_NUMBER:
                _add_slow(slow, counts, filled, number, position)
            elif code != OK:
                return code, start, last, filled
        if value != 0 or negative:
            values[filled] = -value if negative else value
            columns[filled] = index - 1
            filled += 1
    return _index_error(text, start, position, index), start, last, filled


@kernel
def _index_error(text: NDArray[np.uint8], start: int, stop: int, index: int) -> int:
    """Return the error code of the text behind the last valid feature of a row, or `OK`."""
    if stop == start and (text[start] == NEWLINE or text[start] == HASH):
        return OK
    if stop == start or text[stop] != COLON:
        return BAD_FEATURE
    if index == 0:
        return INDEX_ZERO
    return INDEX_LARGE if index > MAX_INDEX else INDEX_ORDER


@kernel
def _read_value(text: NDArray[np.uint8], start: int, null: int) -> tuple[int, int, np.float32]:
    """Read a value of any form; return its error code, its end, and the value without its sign."""
    valid, stop, _, mantissa, exponent, cut = scan_decimal(text, start)
    if valid:
        sure, value = round_to_float32(mantissa, exponent, cut)
        if not sure:
            return SLOW_NUMBER, stop, np.float32(np.nan)
        return (VALUE_RANGE if value == np.inf else OK), stop, value
    if not matches(text, start, _NULL) or not ends_word(text[start + len(_NULL)]):
        return BAD_VALUE, start, np.float32(0)
    stop = start + len(_NULL)
    if null == NULL_IS_ERROR:
        return NULL_VALUE, start, np.float32(0)
    return OK, stop, np.float32(np.nan)


@kernel
def _add_slow(
    slow: NDArray[np.int64], counts: NDArray[np.int64], slot: int, start: int, stop: int
) -> None:
    """List a number for the caller to convert."""
    n_slow = counts[SLOW]
    slow[n_slow, 0] = slot
    slow[n_slow, 1] = start
    slow[n_slow, 2] = stop
    slow[n_slow, 3] = counts[LINE]
    counts[SLOW] = n_slow + 1


@kernel
def _comment_range(text: NDArray[np.uint8], start: int, newline: int) -> tuple[int, int]:
    """Return the range of the comment behind the features; an empty range if there is none."""
    if start == newline:
        return start, start
    return start + 1, newline - 1 if text[newline - 1] == RETURN else newline


@kernel
def _find_doc_id(text: NDArray[np.uint8], start: int, stop: int) -> tuple[int, int]:
    """Return the range of the word behind ``docid =`` in `text[start:stop]`, or an empty range."""
    for position in range(start, stop):
        if text[position] != _DOCID[0] or not matches(text, position, _DOCID):
            continue
        equals = skip_blanks(text, position + len(_DOCID))
        if text[equals] == EQUALS and not is_alphanumeric(text[position - 1]):
            first = skip_blanks(text, equals + 1)
            last = first
            while text[last] != NEWLINE and not is_blank(text[last]):
                last += 1
            return first, last
    return stop, stop


@kernel
def _is_last_query(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    qid_ptr: NDArray[np.int64],
    qid_bytes: NDArray[np.uint8],
    n_queries: int,
) -> bool:
    """Return whether `text[start:stop]` is the id of the last query so far."""
    if n_queries == 0 or qid_ptr[n_queries] - qid_ptr[n_queries - 1] != stop - start:
        return False
    previous = qid_ptr[n_queries - 1]
    for offset in range(stop - start):
        if qid_bytes[previous + offset] != text[start + offset]:
            return False
    return True


@kernel
def scatter_rows(
    value_ptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write the values of rows into a matrix of zeros.

    Parameters
    ----------
    value_ptr
        (n_rows + 1,) int64 positions in `columns` and `values`.
    columns, values
        int32 and float32.
    out
        (n_rows, n_features) float32; overwritten where a row has a value.
    """
    for row in range(len(out)):
        for at in range(value_ptr[row], value_ptr[row + 1]):
            out[row, columns[at]] = values[at]
