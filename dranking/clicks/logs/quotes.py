"""Where records of CSV begin, in files that are read in ranges of bytes.

A line break inside of quotes ends no record. Whether a byte is inside of quotes is known from the
number of quotes before it (two quotes inside of quotes are one that is meant), so they are counted
first, range by range and side by side. A file in which single quotes stand in the middle of values,
and others hold line breaks, is not the CSV of RFC 4180; its records may be cut in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dranking.clicks.logs.files import LogPart
from dranking.engine.executor import Executor
from dranking.engine.ingest.gathering import results_of
from dranking.files.places import Place
from dranking.files.reading import open_input, read_bytes

QUOTE, NEWLINE = b'"', b"\n"
STEP_BYTES = 1 << 16


def with_quotes(parts: Sequence[LogPart], run: Executor) -> list[LogPart]:
    """The parts of a log, those of CSV files in several parts with `LogPart.in_quotes`."""
    counted = [(one, other) for one, other in pairwise(parts) if _cut_between(one, other)]
    tasks = [
        run.submit(count_quotes, one.place, _before(one), _before(other), name="quotes")
        for one, other in counted
    ]
    counts = iter(results_of(run, tasks, "quotes"))
    found, inside = [], False
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        begins = inside
        inside = following is not None and _cut_between(part, following)
        inside = inside and (begins + next(counts)) % 2 == 1
        found.append(replace(part, in_quotes=(begins, inside)))
    return found


def _cut_between(one: LogPart, other: LogPart) -> bool:
    """Whether two parts are neighbours in a CSV file."""
    return one.form == "csv" and other.text is not None and other.text.start > 0


def _before(part: LogPart) -> int:
    """The byte before the first of a part, with which `record_start` begins."""
    return 0 if part.text is None else max(part.text.start - 1, 0)


def count_quotes(place: Place, start: int, stop: int) -> int:
    """Number of quotes in the bytes from `start` to before `stop` of a file: a task."""
    return read_bytes(place, start, stop).count(QUOTE)


def record_start(place: Place, position: int, in_quotes: bool) -> int:
    """The first beginning of a record of CSV at or behind a byte, or the end of the file.

    Parameters
    ----------
    place, position
        The file, and the byte.
    in_quotes
        Whether the byte before is behind an odd number of quotes.
    """
    if position == 0:
        return 0
    at, n_quotes = position - 1, int(in_quotes)
    with open_input(place) as file:
        file.seek(at)
        while content := file.read(STEP_BYTES):
            text = np.frombuffer(content, np.uint8)
            quotes = n_quotes + np.cumsum(text == ord(QUOTE))
            ends = np.flatnonzero((text == ord(NEWLINE)) & (quotes % 2 == 0))
            if len(ends):
                return at + int(ends[0]) + 1
            at, n_quotes = at + len(text), int(quotes[-1])
    return at
