"""Events that follow each other in a log and share session, query and time, as one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.rows.split_files import one_array

Scalar = TypeVar("Scalar", bound=np.generic)

UNKNOWN: Final = -1
"""Code of a text that is missing."""

LENGTH: Final = "length"
OWN: Final = ("document", "position", "clicked", "weight")
"""Columns in which the events of a run may differ."""


class Runs(NamedTuple):
    """Events of a log in runs, which is how logs of pages of results lie on disk.

    The values that a run shares are written, sent and hashed once for all its events.

    Attributes
    ----------
    shared
        A row for each run: all columns of `events.Events` but `OWN`, and the `LENGTH` of the run.
    own
        A row for each event, run after run: the columns `OWN`.
    """

    shared: pa.Table
    own: pa.Table

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n_runs,) events of each run."""
        lengths: NDArray[np.int64] = self.shared.column(LENGTH).to_numpy().astype(np.int64)
        return lengths

    def of_events(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """(n_events,) the values that the runs of the events have."""
        return np.repeat(values, self.lengths)


def runs_of(events: pa.Table) -> Runs:
    """The runs of events; dictionaries are unified."""
    own = [name for name in OWN if name in events.column_names]
    shared = events.drop_columns(own)
    first = starts_of_runs([comparable(column) for column in shared.columns])
    lengths = np.diff(first, append=events.num_rows)
    shared = shared.take(pa.array(first)).append_column(LENGTH, pa.array(lengths))
    return Runs(shared, events.select(own))


def starts_of_runs(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The rows of (n,) columns that differ from the row before, and the first row."""
    begins = np.zeros(len(columns[0]), bool)
    begins[:1] = True
    for values in columns:
        begins[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(begins)


def comparable(column: pa.ChunkedArray) -> NDArray[Any]:
    """Values of a column, or the codes of its texts; null is `UNKNOWN`."""
    values = one_array(column)
    if pa.types.is_dictionary(values.type):
        values = values.indices.fill_null(UNKNOWN) if values.null_count else values.indices
    found: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found
