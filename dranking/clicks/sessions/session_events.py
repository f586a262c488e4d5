"""Events of sessions as plain arrays, on which sessions are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.logs.events import SHOWN
from dranking.clicks.sessions.runs import Runs, comparable
from dranking.clicks.store.night_tables import IDS

FRESH: Final = "fresh"
"""Column that tells the events of a log from those that the store has kept of open sessions."""

OF_LOG: Final = "sessions_of_log"
"""Name, among the counts of what was found, of the number of sessions with events of the log."""

Ints = NDArray[np.int64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class SessionEvents:
    """Columns of events, or of results; texts are codes, sessions are numbers from 0.

    Codes and positions keep the integer types that they were read with.
    """

    session: Ints
    user: NDArray[np.uint64]
    query: Codes
    document: Codes
    context: Codes
    arm: Codes
    position: Codes
    page: Codes
    kind: NDArray[np.int8]
    clicked: NDArray[np.bool_]
    weight: NDArray[np.float64]
    fresh: NDArray[np.bool_]

    @classmethod
    def of(cls, events: Runs, session: Ints) -> SessionEvents:
        """The events of runs with the (n_runs,) numbers of their sessions.

        Columns that the events lack are zeros; without ``kind``, all were shown, without
        ``page``, all are of the first page, and without ``fresh``, all are of the log.
        """
        n_rows = events.own.num_rows
        none = np.zeros(n_rows, np.int64)
        columns: dict[str, Any] = {
            "user": none.view(np.uint64),
            "page": np.ones(n_rows, np.int32),
            "kind": np.full(n_rows, SHOWN, np.int8),
            FRESH: np.ones(n_rows, bool),
            "weight": none.astype(np.float64),
            **{name: none for name in IDS},
            "session": events.of_events(session),
        }
        for name in events.shared.column_names:
            if name in columns and name != "session":
                columns[name] = events.of_events(comparable(events.shared.column(name)))
        for name in events.own.column_names:
            columns[name] = comparable(events.own.column(name))
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
