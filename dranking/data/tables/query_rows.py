"""First row of every query, and the order in which the rows of a query are adjacent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.tables.ids import Place, row_place
from dranking.errors import DataWarning, warn_user


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


def order_by_query(ids: pa.Array) -> NDArray[np.int64] | None:
    """The order in which the rows of every query are adjacent; None where they are already.

    Queries come by first appearance, and rows of a query in the order given, as in `ingest`. A
    `DataWarning` says how many queries lay apart.

    Parameters
    ----------
    ids
        (n,) without nulls.
    """
    starts = run_starts(ids)
    runs = ids.take(pa.array(starts)).dictionary_encode()
    if len(runs.dictionary) == len(starts):
        return None
    # Codes are numbered by first appearance.
    codes = np.asarray(runs.indices, dtype=np.int64)
    lengths = np.diff(starts, append=len(ids))
    is_apart = np.bincount(codes) > 1
    n_documents = int(lengths[is_apart[codes]].sum())
    warn_user(said_together(int(is_apart.sum()), n_documents), DataWarning)
    return np.argsort(np.repeat(codes, lengths), kind="stable")


def said_together(n_queries: int, n_documents: int) -> str:
    """What users are told of queries whose rows lay apart."""
    queries = "1 query" if n_queries == 1 else f"{n_queries:,} queries"
    return f"the rows of {queries} ({n_documents:,} documents) lay apart and were brought together."


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
