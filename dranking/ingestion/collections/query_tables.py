"""Values of queries, found block by block, for the rows of a Dask collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.regrouping.query_lines import hash_ids
from dranking.data.tables.ids import as_ids, positions_of
from dranking.engine.executor import Executor, Task
from dranking.errors import TryAgainError
from dranking.ingestion.collections.block_plan import BlockPlan

Array = NDArray[np.float64]


class QueryTable(NamedTuple):
    """Values of some queries of a block.

    Attributes
    ----------
    ids
        (n_queries,) query ids.
    values
        (n_queries, n_values) float64.
    """

    ids: pa.Array
    values: Array


class QueryValues:
    """Values of queries, looked up by query id.

    Parameters
    ----------
    ids
        (n_queries,) unique query ids, int64 or string.
    values
        (n_queries, n_values) float64.
    """

    def __init__(self, ids: pa.Array, values: Array) -> None:
        hashes = hash_ids(ids)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]
        self._ids, self._values = ids, values

    def __sizeof__(self) -> int:
        """Bytes of all arrays, which Dask takes as the memory of this object."""
        return object.__sizeof__(self) + n_bytes_of_values(self._ids, self._values.shape[1])

    def of(self, ids: Any) -> tuple[Array, NDArray[Any]]:
        """Values of the queries of rows.

        Parameters
        ----------
        ids
            (n_rows,) query ids of the rows.

        Returns
        -------
        values
            (n_distinct, n_values) float64 of the distinct queries of the rows.
        codes
            (n_rows,) the row of `values` for each row.

        Raises
        ------
        TryAgainError
            If a query is not there: the collection had other rows when it was computed before.
        """
        encoded = as_ids(ids, "qid").dictionary_encode()
        wanted = encoded.dictionary
        places = self._places(wanted)
        if (places < 0).any():
            absent = wanted[int(np.argmin(places))]
            raise TryAgainError(
                f"a partition of the dask collection holds query {absent} and did not when it was "
                "computed before. Store the collection, or persist it, and run again."
            )
        return self._values[places], encoded.indices.to_numpy()

    def _places(self, wanted: pa.Array) -> NDArray[np.int64]:
        """The query of each id; -1 where there is none. O(n_wanted log n_queries)."""
        places = np.full(len(wanted), -1)
        if pa.types.is_string(self._ids.type):
            wanted = wanted.cast(pa.string())
        elif wanted.type != self._ids.type:
            return places
        hashes, rows = hash_ids(wanted), np.arange(len(wanted))
        at = np.searchsorted(self._hashes, hashes)
        while len(rows):  # one round, unless different ids have the same hash
            there = at < len(self._hashes)
            there[there] = self._hashes[at[there]] == hashes[rows[there]]
            rows, at = rows[there], at[there]
            found = self._order[at]
            equal = pc.equal(self._ids.take(pa.array(found)), wanted.take(pa.array(rows)))
            same = equal.to_numpy(zero_copy_only=False).astype(bool)
            places[rows[same]] = found[same]
            rows, at = rows[~same], at[~same] + 1
        return places


def n_bytes_of_values(ids: pa.Array, n_values: int) -> int:
    """Bytes of `QueryValues`."""
    return int(ids.nbytes) + len(ids) * (8 * n_values + 16)


def values_of_all(
    executor: Executor, plan: BlockPlan, tables: Sequence[Task], default: Array
) -> Any:
    """Delayed `QueryValues` of all queries of a collection, for all of its partitions.

    Parameters
    ----------
    plan
        The plan of the collection's blocks.
    tables
        Tasks with lists of a `QueryTable` for each block, in order.
    default
        (n_values,) values of queries that are in no table.
    """
    task = executor.submit(_found, plan.query_ids, default, *tables, name="join")
    return _delayed(executor, [task])[0]


def values_of_partitions(
    executor: Executor,
    plan: BlockPlan,
    tables: Sequence[Task],
    first_blocks: Sequence[int],
    default: Array,
) -> list[Any]:
    """Delayed `QueryValues` of the queries of each partition of a collection.

    The values go from worker to worker, never through the driver; a partition receives those of its
    own queries.

    Parameters
    ----------
    plan, tables, default
        As in `values_of_all`.
    first_blocks
        The first block of each task.
    """
    firsts = plan.borders[np.asarray(first_blocks)]
    found = []
    for of_part in plan.queries:
        queries = np.unique(of_part)
        task_of = np.searchsorted(firsts, queries, side="right") - 1
        numbers, starts = np.unique(task_of, return_index=True)
        picked = zip(numbers.tolist(), np.split(queries, starts[1:]), strict=False)
        pieces = [
            executor.submit(
                _picked, tables[number], plan.query_ids.take(pa.array(some)), default, name="pick"
            )
            for number, some in picked
        ]
        ids = plan.query_ids.take(pa.array(queries))
        found.append(executor.submit(_joined, ids, len(default), *pieces, name="join"))
    return _delayed(executor, found)


def _delayed(executor: Executor, tasks: Sequence[Task]) -> list[Any]:
    from dask import delayed

    if executor.in_process:
        return [delayed(each, pure=False, traverse=False) for each in executor.gather(tasks)]
    # Errors of the fits are raised here, and all values are there when this function returns.
    executor.gather([executor.submit(_is_there, task, name="there") for task in tasks])
    return [delayed(task) for task in tasks]


def _is_there(values: QueryValues) -> bool:
    return True


def _found(ids: pa.Array, default: Array, *tables: Sequence[QueryTable]) -> QueryValues:
    return QueryValues(ids, _picked([each for some in tables for each in some], ids, default))


def _picked(tables: Sequence[QueryTable], ids: pa.Array, default: Array) -> Array:
    """(len(ids), n_values) values of queries; the default for those that are in no table."""
    there = pa.concat_arrays([table.ids.cast(ids.type) for table in tables])
    values = np.concatenate([default[None], *(table.values for table in tables)])
    picked: Array = values[positions_of(ids, there) + 1]
    return picked


def _joined(ids: pa.Array, n_values: int, *pieces: Array) -> QueryValues:
    return QueryValues(ids, np.concatenate([np.empty((0, n_values)), *pieces]))
