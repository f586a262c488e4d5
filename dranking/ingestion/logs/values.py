"""JSON values of a file: one on each line, or one or several over many lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from dranking.errors import DataError
from dranking.files.places import Place
from dranking.files.sizes import format_bytes
from dranking.ingestion.letor.text_ranges import TextRange
from dranking.ingestion.letor.text_source import line_chunks, line_start, text_pieces
from dranking.ingestion.logs.features import LogError

__all__: list[str] = []

_NOT_BLANK = re.compile(r"[^ \t\n\r]")

MAX_WHOLE_BYTES = 1 << 28
"""Largest file with values over many lines, which is read whole."""


def is_json_lines(place: Place) -> bool:
    """Whether a file has a JSON value on its first line that is not blank."""
    try:
        for chunk in line_chunks(place):
            for line in chunk.tobytes().split(b"\n"):
                if line.strip():
                    json.loads(line)
                    return True
    except (DataError, ValueError, RecursionError):  # a DataError: the line is too long
        return False
    return True


def json_values(part: TextRange, lines: bool) -> Iterator[tuple[int, Any, int]]:
    """Yield the line, counted from the beginning of a range, of each value, the value, its bytes.

    The value is a `LogError` where there is no JSON, and nothing follows it.

    Parameters
    ----------
    part
        The range.
    lines
        Whether each line has one value; otherwise the range is a whole file.
    """
    values = _of_lines(part) if lines else _of_text(part.place)
    for line, value, n_bytes in values:
        yield line, value, n_bytes
        if isinstance(value, LogError):
            return


def _of_lines(part: TextRange) -> Iterator[tuple[int, Any, int]]:
    start = line_start(part.place, part.start)
    stop = None if part.stop is None else line_start(part.place, part.stop)
    number = 0
    for chunk in line_chunks(part.place, start=start, stop=stop):
        for text in chunk.tobytes().split(b"\n")[:-1]:
            number += 1
            if not text.strip():
                yield number, None, 0
                continue
            try:
                value: Any = json.loads(text)
            except (ValueError, RecursionError) as error:
                value = LogError(f"the line is no JSON ({_reason(error)}).")
            yield number, value, len(text)


def _of_text(place: Place) -> Iterator[tuple[int, Any, int]]:
    text = _whole_text(place)
    decoder = json.JSONDecoder()
    position, line, n_lines = 0, 1, text.count("\n") + 1
    while True:
        start = _blanks_end(text, position)
        line += text.count("\n", position, start)
        if start == len(text):
            yield n_lines, None, 0
            return
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            at = error.lineno if isinstance(error, json.JSONDecodeError) else line
            yield at, LogError(f"is no JSON ({_reason(error)})."), 0
            return
        yield line, value, position - start
        line += text.count("\n", start, position)


def _blanks_end(text: str, position: int) -> int:
    found = _NOT_BLANK.search(text, position)
    return len(text) if found is None else found.start()


def _whole_text(place: Place) -> str:
    content = bytearray()
    for piece in text_pieces(place):
        content += piece
        if len(content) > MAX_WHOLE_BYTES:
            raise DataError(
                f"{place}: is JSON that is not line by line, is read whole, and has more than "
                f"{format_bytes(MAX_WHOLE_BYTES)}. Write each response on a line of its own "
                "(jq -c . log.json > log.jsonl), which is read line by line."
            )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{place}: is no text in UTF-8 ({error}).") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


def begins_as_json(content: bytes) -> bool:
    """Whether a text begins as a JSON object or array, which no other text does."""
    return content.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")
