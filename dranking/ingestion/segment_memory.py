"""Memory of the tasks of an ingest: which of them run at the same time, and what each may hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa

from dranking.data.blocks import SEGMENT_DOCUMENTS
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, Room, Task
from dranking.engine.memory import release_memory
from dranking.errors import UsageError
from dranking.files.sizes import format_bytes
from dranking.ingestion.open_rows import OpenedRows

SEGMENT_COPIES = 4
"""Memory of a task that reads, scales and writes a segment, divided by the segment's features.
Measured on parquet of 65,536 x 136, 300 and 700 in a process of one and two threads: its memory
grows by 2.0 to 2.5 times these bytes for each thread, and by 3.6 to 4.0 times with the scaling
"standard", which reads every segment twice. Rows that were exchanged are read, put in order and
written in 3.9 times these bytes."""

COPIES_BESIDE_READER = 2
"""The same beside an open parquet reader, whose memory `OpenedRows.reader_bytes` counts. Measured
on 65,280 x 136: 0.6 times these bytes, 1.7 with "standard", and 2.2 with "quantile"."""

EXCHANGE_COPIES = 5
"""Memory of a task that sorts rows by bucket beside an open reader, divided by the bytes of the
rows that it sorts at a time. Measured for 8 to 40 MB of rows of 136 features: 2.9 to 5.0."""

MIN_EXCHANGED_BYTES = 1 << 20
"""Least bytes of rows that a task sorts at a time, however little memory there is."""

ADVISED = 1.1
"""The limit of a worker that an error advises, over the least one that is not refused."""


class TaskMemory(NamedTuple):
    """The tasks that may hold rows at the same time, and the memory of each.

    Attributes
    ----------
    slots
        Slots of the executor for these tasks.
    n_bytes
        Bytes that each of these tasks may take.
    reader_bytes
        Bytes of these that an open reader takes.
    """

    slots: tuple[int, ...]
    n_bytes: int
    reader_bytes: int

    @property
    def exchanged_bytes(self) -> int:
        """Bytes of rows that a task sorts at a time."""
        return max((self.n_bytes - self.reader_bytes) // EXCHANGE_COPIES, MIN_EXCHANGED_BYTES)


class _Need(NamedTuple):
    """The memory that a task needs for the largest segment.

    Attributes
    ----------
    n_bytes
        Bytes of the task.
    reader_bytes
        Bytes of these that an open reader takes.
    n_rows
        Number of rows of the segment.
    """

    n_bytes: int
    reader_bytes: int
    n_rows: int

    def __str__(self) -> str:
        text = (
            f"one segment of {self.n_rows:,} documents needs at least {format_bytes(self.n_bytes)} "
            "while it is read and written"
        )
        if not self.is_mostly_reader:
            return text
        return f"{text}, of which its row group of parquet takes {format_bytes(self.reader_bytes)}"

    @property
    def is_mostly_reader(self) -> bool:
        """Whether the reader takes half of the memory or more."""
        return 2 * self.reader_bytes >= self.n_bytes

    @property
    def advice(self) -> str:
        """Advice on the data, as a sentence that ends an error."""
        smaller = ", or write smaller row groups" if self.is_mostly_reader else ""
        return (
            "leave features out with --features (Columns(features=[...]), for retrain "
            "data.features) or --exclude (Columns(exclude=[...]), for retrain "
            f"data.exclude){smaller}."
        )


def plan_memory(executor: Executor, opened: OpenedRows | Dataset) -> TaskMemory:
    """The tasks that may hold rows at the same time, and the memory of each.

    A process that has a limit of its own is asked what it holds without any rows.

    Raises
    ------
    UsageError
        If there is not enough memory for one task, within the memory limit of the job or within
        that of a worker; the error says what is needed, and what there is.
    """
    need = _need_of(opened)
    limit = executor.memory_limit
    if limit is not None and need.n_bytes > limit:
        raise UsageError(
            f"the memory limit is {format_bytes(limit)}, and {need}; raise the limit, or "
            f"{need.advice}"
        )
    rooms = executor.rooms(bytes_without_rows)
    slots = _slots_with_room(executor.n_slots, rooms, need)
    if limit is not None:
        slots = slots[: limit // max(need.n_bytes, 1)]
    shares = [room.n_bytes // n for room in rooms if (n := len({*room.slots} & {*slots}))]
    share = min([*shares, executor.memory_bytes // len(slots)])
    return TaskMemory(tuple(slots), share, need.reader_bytes)


def _slots_with_room(n_slots: int, rooms: Sequence[Room], need: _Need) -> list[int]:
    """Slots for which there is memory; the first slots of all processes come first."""
    order = {slot: 0 for slot in range(n_slots)}  # of processes without a limit of their own
    for room in rooms:
        n_tasks = max(room.n_bytes // max(need.n_bytes, 1), 0)
        for number, slot in enumerate(room.slots):
            if number < n_tasks:
                order[slot] = number
            else:
                del order[slot]
    if not order:
        raise _no_room(max(rooms, key=lambda room: room.n_bytes), need)
    return sorted(order, key=lambda slot: (order[slot], slot))


def _no_room(room: Room, need: _Need) -> UsageError:
    advised = int(ADVISED * room.limit_for(need.n_bytes))
    return UsageError(
        f"a worker has a memory limit of {format_bytes(room.limit)} and holds "
        f"{format_bytes(room.held)} without any rows, which leaves "
        f"{format_bytes(max(room.n_bytes, 0))} for a task, and {need}. Give each worker at least "
        f"{format_bytes(advised)} (memory_limit, an option of the cluster), or {need.advice}"
    )


def bytes_without_rows() -> int:
    """Bytes of memory that this process holds before it holds any row, with all code loaded."""
    _load_code()
    release_memory()
    return int(psutil.Process().memory_info().rss)


@cache
def _load_code() -> None:
    """Load what the tasks of an ingest load at their first calls: kernels, zarr, and pandas."""
    from dranking.data.regrouping.query_lines import hash_ids
    from dranking.data.store.segment_layout import array_specs
    from dranking.data.store.segment_writer import parquet_of
    from dranking.data.store.zarr_arrays import CODEC, zarr_metadata
    from dranking.engine.tile_tasks import given
    from dranking.ingestion.rows.segments import write_segments  # noqa: F401 - it is loaded

    for ids in (pa.array([0]), pa.array([""])):
        hash_ids(given(ids), 0)
    zarr_metadata(array_specs(False, 1, 1, 1))
    parquet_of([{"relevance": np.zeros(1)}])
    CODEC.encode(np.zeros(1024))


def in_turns(
    executor: Executor,
    function: Callable[..., Any],
    calls: Sequence[Sequence[Any]],
    slots: Sequence[int],
    name: str,
) -> list[Task]:
    """Submit a task for each call. If `slots` are not all, each of them runs one task at a time."""
    if len(slots) >= executor.n_slots:
        return [executor.submit(function, *call, name=name) for call in calls]
    tasks: list[Task] = []
    for number, call in enumerate(calls):
        before = tasks[number - len(slots)] if number >= len(slots) else None
        slot = slots[number % len(slots)]
        tasks.append(executor.submit(_after, before, function, *call, name=name, slot=slot))
    return tasks


def _after(_: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function when another task, whose result is not used, is done.

    The next task runs in another thread, and does not find what this thread has freed: with four
    threads and a limit of 230 MB, the process would grow by 350 to 410 MB, and grows by 220.
    """
    found = function(*arguments)
    release_memory()
    return found


def _need_of(opened: OpenedRows | Dataset) -> _Need:
    """The memory that a task needs for the largest segment."""
    if isinstance(opened, OpenedRows):
        n_rows = min(opened.source.n_rows, SEGMENT_DOCUMENTS)
        dense = 0 if opened.is_sparse else 4 * len(opened.feature_names)  # text leaves out zeros
        n_bytes, reader = n_rows * max(opened.source.row_bytes, dense), opened.reader_bytes
        needed = max(SEGMENT_COPIES * n_bytes, reader + COPIES_BESIDE_READER * n_bytes)
        return _Need(needed, reader, n_rows)
    n_values = sum(block.n_values for block in opened.blocks)
    n_bytes = n_values * (12 if opened.is_sparse else 4)
    share = min(SEGMENT_DOCUMENTS / max(opened.n_documents, 1), 1.0)
    n_rows = min(opened.n_documents, SEGMENT_DOCUMENTS)
    return _Need(SEGMENT_COPIES * int(n_bytes * share), 0, n_rows)
