"""Logs with lists: a row for each session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.logs.columns import LogColumns, column_of
from dranking.clicks.logs.events import CLICK, SHOWN, Events, Privacy, Raw, make_events, query_of

PAGE = "page of the results"
"""Column that `dranking.clicks.logs.ubi` adds to rows of queries."""


def list_events(table: pa.Table, columns: LogColumns, privacy: Privacy) -> Events:
    """Events of a log with a row for each session.

    A session without a list of documents was shown nothing.
    """
    documents = _lists(column_of(table, columns.document))
    ptr = _pointers(documents)
    lists = {
        name: column_of(table, getattr(columns, name)) for name in ("position", "clicked", "weight")
    }
    if columns.clicked_ids:
        lists.pop("clicked")
    wrong = np.zeros(table.num_rows, bool)
    for values in lists.values():
        if _is_list(values.type):
            present = ~np.asarray(values.is_null())
            wrong |= present & (np.diff(_pointers(_lists(values))) != np.diff(ptr))
    found = Counter({"lists_of_other_lengths": int(np.diff(ptr)[wrong].sum())})
    if wrong.any():
        return added(list_events(table.filter(pa.array(~wrong)), columns, privacy), [], found)
    shown = _shown(table, columns, documents, ptr, lists)
    events = make_events(shown, privacy, SHOWN)
    alone = []
    if columns.clicked_ids:
        alone.append(_clicked_documents(table, columns, privacy))
    return added(events, alone, found)


def _shown(
    table: pa.Table,
    columns: LogColumns,
    documents: pa.Array,
    ptr: NDArray[np.int64],
    lists: dict[str, pa.Array],
) -> Raw:
    """One value for each document of each list."""
    row = np.repeat(np.arange(table.num_rows), np.diff(ptr))
    own = pa.array(row)
    flat = {
        name: _flattened(values) if _is_list(values.type) else values.take(own)
        for name, values in lists.items()
    }
    in_order = columns.position is None or pa.types.is_null(flat["position"].type)
    if in_order:
        flat["position"] = pa.array(np.arange(len(row)) - np.repeat(ptr[:-1], np.diff(ptr)) + 1)
    flat.setdefault("clicked", pa.nulls(len(row)))
    return Raw(
        document=_flattened(documents),
        first_position=1 if in_order else columns.first_position,
        **flat,
        **_of_sessions(table, columns, own),
    )


def _of_sessions(table: pa.Table, columns: LogColumns, rows: pa.Array) -> dict[str, Any]:
    """The columns that all documents of a session share, for the sessions in these rows."""
    names = ("session", "user", "time", "arm")
    return {
        "query": query_of(table, columns).take(rows),
        "page": column_of(table, PAGE).take(rows),
        **{name: column_of(table, getattr(columns, name)).take(rows) for name in names},
        "context": tuple(column_of(table, name).take(rows) for name in columns.context),
    }


def _clicked_documents(table: pa.Table, columns: LogColumns, privacy: Privacy) -> Events:
    """The clicks of lists of clicked documents."""
    documents = _lists(column_of(table, columns.clicked))
    ptr = _pointers(documents)
    own = pa.array(np.repeat(np.arange(table.num_rows), np.diff(ptr)))
    n_clicks = len(own)
    raw = Raw(
        document=_flattened(documents),
        position=None,
        first_position=columns.first_position,
        clicked=pa.array(np.ones(n_clicks, bool)),
        weight=pa.nulls(n_clicks),
        **_of_sessions(table, columns, own),
    )
    return make_events(raw, privacy, CLICK)


def added(events: Events, more: Sequence[Events], found: Counter[str]) -> Events:
    """Events and more of them, with their counts by problem and `found`."""
    tables = [events.rows, *(each.rows for each in more)]
    rows = pa.concat_tables(tables) if len(tables) > 1 else events.rows
    return Events(rows, sum((each.found for each in more), events.found + found))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _lists(values: pa.Array) -> pa.Array:
    """Lists; a value that is no list is a list of one, and a missing one is empty."""
    if _is_list(values.type):
        return values
    present = np.asarray(values.is_valid()).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(present))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.drop_null())


def _pointers(lists: pa.Array) -> NDArray[np.int64]:
    """(n + 1,) borders of the lists in `_flattened`."""
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _flattened(lists: pa.Array) -> pa.Array:
    values = lists.flatten()
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
