"""The beginnings of CSV records, in files that are read in ranges of bytes.

A line break inside of a quoted field ends no record, and whether a byte is inside of one depends on
all bytes before it. So each range is followed from every state that it may begin in
(`dranking.clicks.kernels.csv_states`), side by side; the maps of states, one after another, say in
which state each range begins.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.logs.files import LogPart
from dranking.engine.executor import Executor
from dranking.files.places import Place
from dranking.files.reading import open_input
from dranking.ingestion.gathering import results_of

STEP_BYTES = 1 << 23
SHORT_STEP_BYTES = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

States: TypeAlias = tuple[int, ...]


def delimiter_of(place: Place) -> str:
    """The character that separates the fields of a file."""
    return "\t" if place.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def with_states(parts: Sequence[LogPart], run: Executor) -> list[LogPart]:
    """The parts of a log; parts of CSV files that have several parts get `LogPart.csv_states`."""
    tasks = [
        run.submit(followed_states, one.place, _first_byte(one), _first_byte(other), name="states")
        for one, other in pairwise(parts)
        if _cut_between(one, other)
    ]
    maps = iter(results_of(run, tasks, "states"))
    found, state = [], 0
    for part, following in zip(parts, [*parts, None][1:], strict=True):
        before = state
        is_cut = following is not None and _cut_between(part, following)
        state = next(maps)[before] if is_cut else 0
        found.append(replace(part, csv_states=(before, state)))
    return found


def _cut_between(one: LogPart, other: LogPart) -> bool:
    """Whether two parts are neighbours in a CSV file."""
    return one.form == "csv" and other.text is not None and other.text.start > 0


def _first_byte(part: LogPart) -> int:
    """The byte before the range of a part: if it ends a record, the range begins with one."""
    return 0 if part.text is None else max(part.text.start - 1, 0)


def followed_states(place: Place, start: int, stop: int) -> States:
    """The state after the bytes from `start` to before `stop`, for each state before them.

    A byte order mark at the beginning of the file is no part of its first field.
    """
    from dranking.clicks.kernels.csv_states import N_STATES, follow, kinds_of_bytes

    kinds, states = kinds_of_bytes(delimiter_of(place)), np.arange(N_STATES)
    with opened_bytes(place, start, stop) as file:
        while content := file.read(STEP_BYTES):
            text = content.removeprefix(BYTE_ORDER_MARK) if start == 0 else content
            follow(_as_array(text), kinds, states)
            start += len(content)
    return tuple(states.tolist())


def record_start(place: Place, position: int, state: int) -> int:
    """The byte at which the first CSV record at or after a byte begins, or the end of the file.

    Parameters
    ----------
    place, position
        The file, and the byte.
    state
        The state before the byte before `position`.
    """
    from dranking.clicks.kernels.csv_states import kinds_of_bytes, record_end

    if position == 0:
        return 0
    kinds, states = kinds_of_bytes(delimiter_of(place)), np.array([state])
    at = position - 1
    with open_input(place) as file:
        file.seek(at)
        while content := file.read(SHORT_STEP_BYTES):
            end = record_end(_as_array(content), kinds, states)
            if end >= 0:
                return at + end + 1
            at += len(content)
    return at


@contextmanager
def opened_bytes(place: Place, start: int, stop: int) -> Iterator[io.RawIOBase]:
    """The bytes from `start` to before `stop`, as a file."""
    with open_input(place) as file:
        file.seek(start)
        yield _FilePart(file, stop)


class _FilePart(io.RawIOBase):
    """The bytes of an open file from its present position to before `stop`."""

    def __init__(self, file: IO[bytes], stop: int) -> None:
        self._file, self._stop = file, stop

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)[: self._stop - self._file.tell()]
        return int(self._file.readinto(room))  # type: ignore[attr-defined]


def _as_array(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)
