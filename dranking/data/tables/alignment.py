"""Values beside the rows of a table, and weights of queries, brought into the order of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.roles import QID
from dranking.data.tables.any_table import as_table, is_dask, is_table
from dranking.data.tables.ids import as_ids, positions_of
from dranking.data.tables.numeric_values import as_numbers, check_query_weights
from dranking.errors import DataError, DataWarning, UsageError, listed, warn_user

_ID_COLUMNS = (QID, "query_id")
"""Names of the column of query ids in a table of weights."""

_BY_ID = (
    "Give the weights by query id: a mapping {query id: weight}, a pandas Series indexed by query "
    "id, or a table with the columns qid and weight."
)


def aligned(rows: Any, *, of: str = "X", **values: Any) -> dict[str, Any]:
    """Values of rows in the order of the rows, joined by label where both have a pandas index.

    Parameters
    ----------
    rows
        Features of the rows, or other values of them.
    of
        Name of the rows in errors.
    values
        One value for each row, by the name of the argument; None stays None.

    Raises
    ------
    UsageError
        If indexes differ, and their labels do not tell which values belong to which rows.
    """
    first, index = of, _index(rows)
    may_join = index is not None
    for name, value in values.items():
        own = _index(value)
        if own is None or (index is not None and (own.equals(index) or len(own) != len(index))):
            continue  # lengths are checked where the values are read
        if index is None:
            first, index = name, own
            continue
        if not (may_join and index.is_unique and own.is_unique and index.isin(own).all()):
            why = _why_not(index, own) if may_join else f"{of} has none, which could tell the order"
            raise UsageError(
                f"the index of {name} differs from the index of {first}, and {why}. Give both the "
                f"same index; or, if their values agree row by row, pass {name}.to_numpy()."
            )
        warn_user(
            f"the index of {name} has the labels of the index of {first} in another order: values "
            f"are joined by label. If they agree row by row, pass {name}.to_numpy().",
            DataWarning,
        )
        values[name] = value.take(own.get_indexer(index))
    return values


def _index(value: Any) -> Any:
    """The index of a pandas DataFrame or Series; None of everything else."""
    is_pandas = type(value).__module__.startswith("pandas") and hasattr(value, "iloc")
    return value.index if is_pandas else None


def _why_not(index: Any, own: Any) -> str:
    """Why the labels of an index do not tell the rows."""
    if index.is_unique and own.is_unique:
        return f"lacks the label {index[~index.isin(own)][0]!r}"
    return "labels occur more than once"


def weights_of_queries(
    given: Any, query_ids: pa.Array, not_in_order: str = ""
) -> NDArray[np.float64]:
    """(n_queries,) float64 weights in the order of the queries.

    Parameters
    ----------
    given
        Weights by query id, or an array in the order of the queries.
    query_ids
        (n_queries,) ids.
    not_in_order
        Why the order of the queries is not that of an array of the caller, as a sentence; such
        arrays are then refused.

    Raises
    ------
    UsageError
        If weights come as an array, and the order of the queries is not the caller's.
    DataError
        If a query has no weight or several, or a weight is out of range.
    """
    table = weights_by_id(given)
    if table is None:
        if not_in_order:
            raise in_no_order(not_in_order)
        weights = as_numbers(given, "query_weights")
        if len(weights) != len(query_ids):
            raise DataError(
                f"query_weights has {len(weights)} entries for {len(query_ids)} queries of X."
            )
    else:
        ids = as_ids(table["qid"], "query_weights")
        if len(ids.unique()) < len(ids):
            raise DataError("query_weights names a query more than once; give each one weight.")
        places = positions_of(query_ids, ids)
        if (places < 0).any():
            raise DataError(_without_weight(given, query_ids, places))
        weights = as_numbers(table["weight"], "query_weights")[places]
    check_query_weights(weights, query_ids)
    return weights


def _without_weight(given: Any, query_ids: pa.Array, places: NDArray[np.int64]) -> str:
    absent = np.flatnonzero(places < 0)
    others = f" and {len(absent) - 1:,} more" if len(absent) > 1 else ""
    by_position = (
        " A pandas Series is joined by its index: pass query_weights.to_numpy() if the weights "
        "come in the order of the queries."
    )
    return (
        f"query_weights has no weight for query {query_ids[int(absent[0])]}{others}; give every "
        f"query of the data one.{'' if _index(given) is None else by_position}"
    )


def weights_by_id(given: Any) -> pa.Table | None:
    """A table of query ids, ``qid``, and weights, ``weight``; None for an array.

    Raises
    ------
    UsageError
        If the weights are a Dask collection.
    DataError
        If a table is not one of query ids and weights.
    """
    if is_dask(given):
        raise UsageError(f"query_weights is a Dask collection; compute it. {_BY_ID}")
    if isinstance(given, Mapping):
        ids, weights = list(given.keys()), list(given.values())
    elif is_table(given):
        table = as_table(given)
        names = [name for name in table.column_names if name not in _ID_COLUMNS]
        if table.num_columns != 2 or len(names) != 1:
            raise DataError(
                "the table of query_weights has not two columns, qid and weight, but "
                f"{listed(table.column_names)}. Give these two."
            )
        [name] = names
        ids, weights = table.drop_columns([name])[0], table[name]
    elif _index(given) is not None:
        ids, weights = given.index, given
    else:
        return None
    columns = as_ids(ids, "query_weights"), as_numbers(weights, "query_weights")
    return pa.table({"qid": columns[0], "weight": columns[1]})


def in_no_order(reason: str) -> UsageError:
    """The error for an array of weights of queries; the reason is a sentence."""
    return UsageError(f"query_weights is an array, and {reason}. {_BY_ID}")
