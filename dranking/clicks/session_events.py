"""Events of sessions as plain arrays, on which sessions are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.night_tables import IDS, POSITION

UNKNOWN: Final = -1
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SessionEvents:
    """Columns of events, or of results; texts as codes."""

    session: NDArray[np.uint64]
    session_group: Ints
    user: NDArray[np.uint64]
    query: Ints
    document: Ints
    context: Ints
    arm: Ints
    position: Ints
    shown: NDArray[np.bool_]
    clicked: NDArray[np.bool_]
    time: Ints
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, events: pa.Table) -> SessionEvents:
        """The columns of a table; those that it lacks are zeros."""
        n_rows = events.num_rows
        none = np.zeros(n_rows, np.int64)
        columns: dict[str, Any] = {
            "user": none.view(np.uint64),
            "shown": np.ones(n_rows, bool),
            "weight": none.astype(np.float64),
            **{name: none for name in IDS},
        }
        for name in events.column_names:
            column = events.column(name)
            columns[name] = _codes(column) if name in IDS else column.to_numpy()
        columns[POSITION] = columns[POSITION].astype(np.int64)
        return cls(session_group=none, **columns)

    def only(self, rows: NDArray[np.bool_] | Ints) -> SessionEvents:
        """Some of the rows."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        return SessionEvents(**{name: values[rows] for name, values in vars(self).items()})

    def replaced(self, **columns: NDArray[np.generic]) -> SessionEvents:
        """The rows with other columns."""
        return SessionEvents(**{**vars(self), **columns})


def _codes(column: pa.ChunkedArray) -> Ints:
    import pyarrow.compute as pc

    values = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
    return np.asarray(pc.fill_null(values.indices, UNKNOWN)).astype(np.int64)
