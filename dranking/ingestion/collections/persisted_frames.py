"""Persisted DataFrames whose partitions Dask has computed under other names."""

from __future__ import annotations

from typing import Any

from dranking.errors import DataError


def check_persisted(frame: Any) -> None:
    """Check that a persisted DataFrame has all of the partitions that it names.

    When Dask persists a DataFrame that is read with fewer columns and has no further step, small
    files become one partition, and the DataFrame keeps the number of partitions from before (issue
    12488 of Dask).

    Raises
    ------
    DataError
        If partitions are missing: no computation with the DataFrame can succeed.
    """
    from dask.dataframe.dask_expr.io import FromGraph

    for stored in frame.expr.find_operations(FromGraph):
        n_there = len(stored.operand("keys"))
        if n_there < stored.npartitions:
            raise DataError(
                f"the persisted dask DataFrame names {stored.npartitions} partitions, and Dask has "
                f"stored {n_there}: frame.compute() fails too (issue 12488 of Dask: persist() "
                "right after read_parquet with fewer columns). Put a step between the two: "
                "frame.map_partitions(lambda part: part).persist()."
            )
