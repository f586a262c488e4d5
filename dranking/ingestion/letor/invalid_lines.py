"""Error messages for invalid lines of LETOR text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.tables.numeric_values import LARGEST_GRADE
from dranking.errors import of_ingest
from dranking.files.file_kinds import N_BYTES, foreign_kind
from dranking.ingestion.kernels import tokenizer

_FORM = "A line reads: <relevance> qid:<id> <index>:<value> ... # comment"
_SHOWN_BYTES = 60
_MAX_FLOAT32 = float(np.finfo(np.float32).max)

RELEVANCE_RANGE = -1
"""A code that the tokenizer lacks, because the tokenizer leaves large numbers to Python."""

_MESSAGES = {
    tokenizer.BAD_RELEVANCE: (
        f"expected the relevance, a finite number, but found {{word}}. {_FORM}"
    ),
    tokenizer.NEGATIVE_RELEVANCE: (
        "the relevance is {word}; it must be at least 0, or -1 for an unlabelled document."
    ),
    RELEVANCE_RANGE: (
        f"the relevance is {{word}}; it must be at most {LARGEST_GRADE:g}, so that its square can "
        "be summed."
    ),
    tokenizer.NO_QID: (
        f"expected qid:<id> behind the relevance, but found {{word}}. {_FORM}. Sizes of queries in "
        "a file of their own, as LightGBM has them (.query), are not read; docs/coming-from.md "
        "has the lines that make ids of them."
    ),
    tokenizer.BAD_FEATURE: f"expected <index>:<value>, but found {{word}}. {_FORM}",
    tokenizer.INDEX_ZERO: (
        "feature index 0 in {word}; indices start at 1. "
        "If the file counts from 0, add 1 to every index."
    ),
    tokenizer.INDEX_ORDER: (
        "the feature index of {word} is not larger than the one before it; "
        "name each feature once in a line, in increasing order."
    ),
    tokenizer.INDEX_LARGE: f"the feature index of {{word}} exceeds {tokenizer.MAX_INDEX}.",
    tokenizer.BAD_VALUE: (
        "the value in {word} is not a finite number. Correct it, or write NULL if it is missing "
        "and pass --null zero, minimum or mean (null=, for retrain data.null)."
    ),
    tokenizer.NULL_VALUE: (
        "the value in {word} is missing. Pass --null zero, minimum or mean (null=, for retrain "
        "data.null) to say what to put in its place."
    ),
    tokenizer.VALUE_RANGE: (
        f"the value in {{word}} is beyond float32 (about {_MAX_FLOAT32:.2g}); rescale the feature."
    ),
}


class InvalidLine(NamedTuple):
    """The number of an invalid line in its file, counted from 1, and what is wrong with it."""

    line: int
    message: str


def invalid_syntax(code: int, text: NDArray[np.uint8], position: int, line: int) -> InvalidLine:
    """The line at which the tokenizer stopped.

    Parameters
    ----------
    code
        The tokenizer's return code, other than `OK`.
    text
        (n_bytes,) uint8, the text that the tokenizer read.
    position
        Position in `text` at which the tokenizer stopped.
    line
        Number of that line in the file.
    """
    if code == tokenizer.BAD_RELEVANCE:
        kind = foreign_kind(text[position : position + N_BYTES].tobytes())
        if kind is not None:
            return InvalidLine(line, f"the file {kind}.")
    return InvalidLine(line, _MESSAGES[code].format(word=_word(text, position)))


def invalid_index(
    widths: NDArray[np.int32], lines: NDArray[np.int64], n_features: int
) -> InvalidLine | None:
    """The first row with a feature index above `n_features`, or None.

    Parameters
    ----------
    widths, lines
        (n_rows,) largest feature index and line number of each row.
    n_features
        The number of features that the caller announced.
    """
    wide = np.flatnonzero(widths > n_features)
    if not len(wide):
        return None
    return InvalidLine(
        int(lines[wide[0]]),
        f"feature index {widths[wide[0]]} exceeds the {n_features} features that were announced, "
        "or that the data set has to which the text is appended. Ingest everything anew with "
        f"{of_ingest('n_features', int(widths[wide[0]]))}, or more if later lines need it.",
    )


def invalid_encoding(
    pointers: NDArray[np.int64], text: NDArray[np.uint8], lines: NDArray[np.int64], what: str
) -> InvalidLine | None:
    """The first string that is not UTF-8, or None.

    Parameters
    ----------
    pointers
        (n_strings + 1,) int64 borders of the strings in `text`.
    text
        uint8.
    lines
        (n_strings,) int64 line number of each string.
    what
        The name of such strings, for the error.
    """
    part = text[pointers[0] : pointers[-1]]
    if not len(part) or part.max() < 0x80:
        return None
    for line, start, stop in zip(lines, pointers[:-1], pointers[1:], strict=True):
        try:
            text[start:stop].tobytes().decode()
        except UnicodeDecodeError as error:
            return InvalidLine(
                int(line),
                f"the {what} is not UTF-8 text ({error.reason}). Convert the file, for example "
                "with: iconv -f LATIN1 -t UTF-8",
            )
    return None


def _word(text: NDArray[np.uint8], position: int) -> str:
    """The word at a position of the text, quoted and shortened."""
    line = text[position : position + 4 * _SHOWN_BYTES].tobytes().split(b"\n")[0]
    words = line.split()
    if not words:
        return "the end of the line"
    word = words[0].decode(errors="replace")
    return repr(word if len(word) <= _SHOWN_BYTES else word[:_SHOWN_BYTES] + "...")
