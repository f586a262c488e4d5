"""Events of sessions as plain arrays, on which sessions are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.night_tables import IDS, POSITION
from dranking.clicks.runs import Runs, comparable

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SessionEvents:
    """Columns of events, or of results; texts as codes, sessions as numbers from 0."""

    session: Ints
    user: NDArray[np.uint64]
    query: Ints
    document: Ints
    context: Ints
    arm: Ints
    position: Ints
    shown: NDArray[np.bool_]
    clicked: NDArray[np.bool_]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, events: Runs, session: Ints) -> SessionEvents:
        """The events of runs with the (n_runs,) numbers of their sessions.

        Columns that the events lack are zeros; without ``shown``, all were shown.
        """
        n_rows = events.own.num_rows
        none = np.zeros(n_rows, np.int64)
        columns: dict[str, Any] = {
            "user": none.view(np.uint64),
            "shown": np.ones(n_rows, bool),
            "weight": none.astype(np.float64),
            **{name: none for name in IDS},
            "session": events.of_events(session),
        }
        for name in events.shared.column_names:
            if name in columns and name != "session":
                columns[name] = events.of_events(_values(events.shared, name))
        for name in events.own.column_names:
            columns[name] = _values(events.own, name)
        columns[POSITION] = columns[POSITION].astype(np.int64)
        return cls(**columns)

    def __len__(self) -> int:
        return len(self.session)

    def only(self, rows: NDArray[np.bool_] | Ints) -> SessionEvents:
        """Some of the rows: those that are true, or those with these numbers, ascending."""
        if len(self) == (rows.sum() if rows.dtype == np.bool_ else len(rows)):
            return self
        return SessionEvents(**{name: values[rows] for name, values in vars(self).items()})

    def replaced(self, **columns: NDArray[np.generic]) -> SessionEvents:
        """The rows with other columns."""
        return SessionEvents(**{**vars(self), **columns})


def _values(rows: pa.Table, name: str) -> NDArray[Any]:
    """A column, or the codes of its texts."""
    values: NDArray[Any] = comparable(rows.column(name))
    return values.astype(np.int64) if name in IDS else values
