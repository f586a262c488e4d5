"""First row of every query, and the check that the rows of a query are adjacent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.tables.ids import Place, row_place
from dranking.errors import DataError


class QueryScan:
    """Finds the queries in a column of ids that is added in pieces; keeps one entry per query."""

    def __init__(self) -> None:
        self._ids: list[pa.Array] = []
        self._starts: list[NDArray[np.int64]] = []
        self._flagged: list[NDArray[np.int64]] = []
        self._n_rows = 0
        self._last: pa.Scalar | None = None

    def add(self, ids: pa.Array, flags: NDArray[np.bool_] | None = None) -> None:
        """Add the next rows.

        Parameters
        ----------
        ids
            (n,) int64 or string, without nulls.
        flags
            (n,) bool; `flagged_per_query` counts the true values. None means that all are false.
        """
        if not len(ids):
            return
        starts = run_starts(ids)
        flagged = np.zeros(len(starts), dtype=np.int64)
        if flags is not None:
            flagged = np.add.reduceat(flags, starts, dtype=np.int64)
        if self._ids and str(self._last) == str(ids[0]):
            self._flagged[-1][-1] += flagged[0]
            starts, flagged = starts[1:], flagged[1:]
        self._last = ids[-1]
        if len(starts):
            self._ids.append(ids.take(pa.array(starts)))
            self._starts.append(starts + self._n_rows)
            self._flagged.append(flagged)
        self._n_rows += len(ids)

    @property
    def query_ids(self) -> pa.Array:
        """(n_queries,) ids in order; string if any piece held strings, otherwise int64."""
        is_text = any(pa.types.is_string(ids.type) for ids in self._ids)
        kind = pa.string() if is_text else pa.int64()
        return pa.concat_arrays([ids.cast(kind) for ids in self._ids] or [pa.array([], kind)])

    @property
    def query_ptr(self) -> NDArray[np.int64]:
        """(n_queries + 1,) int64 first row of each query, then the number of rows."""
        ends = np.array([self._n_rows], dtype=np.int64)
        return np.concatenate([*self._starts, ends])

    @property
    def flagged_per_query(self) -> NDArray[np.int64]:
        """(n_queries,) int64 number of flagged rows of each query."""
        return np.concatenate(self._flagged or [np.empty(0, dtype=np.int64)])


def run_starts(ids: pa.Array) -> NDArray[np.int64]:
    """First row of each run of equal ids.

    Parameters
    ----------
    ids
        (n,) without nulls.

    Returns
    -------
    (n_runs,) int64, ascending from 0.
    """
    if not len(ids):
        return np.empty(0, dtype=np.int64)
    changes = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1))
    rows = np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1
    return np.concatenate(([0], rows)).astype(np.int64)


def check_adjacent(run_ids: pa.Array, run_ptr: NDArray[np.int64]) -> None:
    """Check that the rows of every id are adjacent in a table in memory.

    Parameters
    ----------
    run_ids, run_ptr
        As in `repeated_run`.

    Raises
    ------
    DataError
        If an id has two runs; names the query, and where it began, ended and appeared again.
    """
    found = repeated_run(run_ids, run_ptr)
    if found is not None:
        raise DataError(
            f"{found}. Rows of a query must be adjacent; sort them by query id first (in pandas, "
            "table = table.sort_values(column, kind='stable'), before X, y and qid are taken from "
            "it), or ingest the table, which brings them together."
        )


def repeated_run(
    run_ids: pa.Array, run_ptr: NDArray[np.int64], place: Place = row_place
) -> str | None:
    """The first query with a second run: where it began, ended and appeared again, in words.

    Parameters
    ----------
    run_ids
        (n_runs,) id of each run of equal ids, in order.
    run_ptr
        (n_runs + 1,) int64 first row of each run, then the number of rows.
    place
        Describes the place of a row.

    Returns
    -------
    The words, or None if every id has one run.
    """
    if pc.count_distinct(run_ids).as_py() == len(run_ids):
        return None
    # Codes are numbered by first appearance: a code not above all earlier codes is a repeat.
    codes = run_ids.dictionary_encode().indices.to_numpy()
    again = int(np.argmax(codes[1:] <= np.maximum.accumulate(codes)[:-1])) + 1
    first = int(np.argmax(codes == codes[again]))
    return (
        f"{place(int(run_ptr[again]))}: query {run_ids[again]} appears again (first at "
        f"{place(int(run_ptr[first]))}, ended at {place(int(run_ptr[first + 1]) - 1)}; rows count "
        "from 0)"
    )
