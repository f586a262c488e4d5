"""The rows of a log that errors name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dranking.clicks.counting.build_tasks import LogReading
from dranking.clicks.logs.files import LogPart
from dranking.clicks.logs.read import read_log
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.ingestion.gathering import results_of

EVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Wanted:
    """A condition on events: their time is later, or their session and position are these."""

    later_than: int | None = None
    session: int | None = None
    position: int | None = None

    def is_in(self, events: pa.Table) -> bool:
        """Whether one of the events fulfils the condition."""
        fits = np.ones(events.num_rows, bool)
        if self.later_than is not None:
            fits &= events.column("time").to_numpy() > self.later_than
        if self.session is not None:
            fits &= events.column("session").to_numpy() == np.uint64(self.session)
            fits &= events.column("position").to_numpy() == self.position
        return bool(fits.any())


def named_rows(
    parts: Sequence[LogPart], reading: LogReading, wanted: Wanted, run: Executor, n_rows: int = 1
) -> str:
    """File and number of the first rows with a wanted event, such as ``log.csv, row 7``.

    The log is read once more. A row is a record of the file: the first one is 1, and the heading
    of a CSV file is none. Records that cannot be read are not counted, and the text says so.
    """
    shared = run.submit(given, replace(reading, latest=EVER), name="reading")
    tasks = [run.submit(wanted_rows, part, shared, wanted, n_rows, name="rows") for part in parts]
    before: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    names: list[str] = []
    for part, (n_read, n_unread, rows) in zip(parts, results_of(run, tasks, "rows"), strict=True):
        file = str(part.place)
        unread[file] += n_unread
        which = " of those that can be read" if unread[file] else ""
        names += [f"{file}, row {before[file] + row + 1:,}{which}" for row in rows]
        before[file] += n_read
    return " and ".join(names[:n_rows])


def wanted_rows(
    part: LogPart, reading: LogReading, wanted: Wanted, n_rows: int
) -> tuple[int, int, list[int]]:
    """Number of rows of a part, of lines that cannot be read, and the first wanted rows: a task."""
    found: Counter[str] = Counter()
    rows: list[int] = []
    n_read = 0
    for table in read_log(part, reading.read, reading.needed, found, reading.single):
        start = 0
        while len(rows) < n_rows and wanted.is_in(reading.events(table.slice(start)).rows):
            start += _first(table.slice(start), reading, wanted) + 1
            rows.append(n_read + start - 1)
        n_read += table.num_rows
    return n_read, found["unreadable_lines"], rows


def _first(table: pa.Table, reading: LogReading, wanted: Wanted) -> int:
    """The first row of a table whose events fulfil a condition; one of them does."""
    low, high = 0, table.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        own = reading.events(table.slice(low, middle - low)).rows
        low, high = (low, middle) if wanted.is_in(own) else (middle, high)
    return low
