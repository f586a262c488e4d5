"""Values of queries, found block by block, brought to the partitions that hold the queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.tables.ids import as_ids
from dranking.engine.collections.plan import BlockPlan
from dranking.engine.executor import Executor, Task
from dranking.errors import TryAgainError

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


def tables_of_partitions(
    executor: Executor,
    plan: BlockPlan,
    tables: Sequence[Task],
    first_blocks: Sequence[int],
    default: Array,
) -> list[Any]:
    """A delayed table of the values of its queries for each partition of a collection.

    The values go from worker to worker, never through the driver; a partition receives those of its
    own queries.

    Parameters
    ----------
    plan
        The plan of the collection's blocks.
    tables
        Tasks with lists of a `QueryTable` for each block, in order.
    first_blocks
        The first block of each task.
    default
        (n_values,) values of queries that are in no table.

    Returns
    -------
    For each partition a delayed pandas DataFrame of the values, whose index holds the query ids.
    """
    from dask import delayed

    firsts = plan.borders[np.asarray(first_blocks)]
    found = []
    for of_part in plan.queries:
        queries = np.unique(of_part)
        ids = plan.query_ids.take(pa.array(queries))
        task_of = np.searchsorted(firsts, queries, side="right") - 1
        numbers, starts = np.unique(task_of, return_index=True)
        picked = zip(numbers.tolist(), np.split(queries, starts[1:]), strict=False)
        pieces = [
            executor.submit(
                _picked, tables[number], plan.query_ids.take(pa.array(some)), default, name="pick"
            )
            for number, some in picked
        ]
        found.append(executor.submit(_joined, ids, len(default), *pieces, name="join"))
    if executor.in_process:
        return [delayed(each, pure=False, traverse=False) for each in executor.gather(found)]
    # Errors of the fits are raised here, and all tables are there when this function returns.
    executor.gather([executor.submit(len, table, name="length") for table in found])
    return [delayed(table) for table in found]


def values_of_rows(ids: Any, table: Any) -> Array:
    """(n_rows, n_values) values of the query of each row.

    Parameters
    ----------
    ids
        (n_rows,) query ids of the rows.
    table
        The table of their partition.

    Raises
    ------
    TryAgainError
        If the partition holds a query that it did not hold when the table was made.
    """
    wanted = as_ids(ids, "qid")
    rows = _positions(wanted, as_ids(table.index, "qid"))
    if (rows < 0).any():
        absent = wanted[int(np.argmin(rows))]
        raise TryAgainError(
            f"a partition of the dask collection holds query {absent} and did not when it was "
            "computed before. Store the collection, or persist it, and run again."
        )
    values: Array = table.to_numpy()[rows]
    return values


def _picked(tables: Sequence[QueryTable], ids: pa.Array, default: Array) -> Array:
    """(len(ids), n_values) values of queries; the default for those that are in no table."""
    there = pa.concat_arrays([table.ids.cast(ids.type) for table in tables])
    values = np.concatenate([default[None], *(table.values for table in tables)])
    picked: Array = values[_positions(ids, there) + 1]
    return picked


def _joined(ids: pa.Array, n_values: int, *pieces: Array) -> Any:
    import pandas as pd

    values = np.concatenate([np.empty((0, n_values)), *pieces])
    return pd.DataFrame(values, index=pd.Index(ids.to_numpy(zero_copy_only=False)))


def _positions(wanted: pa.Array, there: pa.Array) -> NDArray[np.int64]:
    """Place of each id among others; -1 where it is none of them."""
    kind = pa.string() if pa.string() in (wanted.type, there.type) else wanted.type
    places = pc.index_in(wanted.cast(kind), value_set=there.cast(kind))
    positions: NDArray[np.int64] = places.fill_null(-1).to_numpy().astype(np.int64)
    return positions
