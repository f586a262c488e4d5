"""Numbers as users have them, made float32 features, float64 grades and weights, and checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.tables.ids import Place, row_place
from dranking.errors import DataError

LARGEST_WEIGHT = 1e100
"""Of a query: what learners add up with it stays finite."""


class Flaw(NamedTuple):
    """A value that cannot be a feature: its position in the array, in C order, and what it is."""

    position: int
    problem: str


def as_float32(values: NDArray[Any]) -> tuple[NDArray[np.float32], Flaw | None]:
    """Numbers of any type as float32 (the same array if they are that), and the first flaw."""
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(np.float32, copy=False)
    finite = np.isfinite(cast)
    if finite.all():
        return cast, None
    position = int(np.argmin(finite))
    value = values.flat[position]
    if np.isnan(value):
        return cast, Flaw(position, "is missing (NaN or null)")
    if np.isinf(value):
        return cast, Flaw(position, "is infinite")
    return cast, Flaw(position, f"is {value}, beyond float32")


def feature_error(place: str, query: object, feature: str, flaw: Flaw) -> DataError:
    """The error for a value that cannot be a feature."""
    return DataError(
        f"{place}, column {feature!r} (query {query}): the value {flaw.problem}. Features must be "
        "finite float32 numbers; fill in missing values and limit the others first."
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a pyarrow type can be features."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def arrow_numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Values of an arrow column of numbers as NumPy; nulls become NaN."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.float64())
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def as_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """One number per row as float64, NaN where it is missing (NaN, None, NA or null).

    Parameters
    ----------
    values
        (n,) NumPy, pandas, pyarrow or a sequence.
    name
        What they are, for messages.

    Raises
    ------
    DataError
        If they are not one-dimensional or not numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        if np.ndim(values) != 1:
            raise DataError(f"{name} has shape {np.shape(values)}; it must be one number per row.")
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            return values.astype(np.float64)
        try:
            values = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise DataError(f"{name} must be numbers ({error}).") from error
    if not (is_number(values.type) or pa.types.is_null(values.type)):
        raise DataError(f"{name} is of type {values.type}; it must be numbers.")
    return arrow_numbers(values).astype(np.float64)


def check_relevance(relevance: NDArray[np.float64], place: Place = row_place) -> None:
    """Raise DataError, naming the row, if a grade is infinite."""
    infinite = np.isinf(relevance)
    if infinite.any():
        raise DataError(
            f"{place(int(np.argmax(infinite)))}: relevance is infinite; it must be a finite "
            "number, or missing for an unlabelled document."
        )


def check_query_weights(weights: NDArray[np.float64], query_ids: pa.Array) -> None:
    """Raise DataError, naming the query, unless weights are from 0 to `LARGEST_WEIGHT`."""
    good = (weights >= 0) & (weights <= LARGEST_WEIGHT)
    if not good.all():
        query = int(np.argmin(good))
        raise DataError(
            f"query {query_ids[query]}: its weight is {weights[query]}; query weights are numbers "
            f"from 0 to {LARGEST_WEIGHT:g}."
        )


def weights_per_query(
    weights: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    query_ids: pa.Array,
    place: Place = row_place,
) -> NDArray[np.float64]:
    """The weights of queries from those of their documents.

    Parameters
    ----------
    weights
        (n_documents,), equal for the documents of a query.
    query_ptr
        (n_queries + 1,) row offsets.
    query_ids
        (n_queries,) ids, for messages.
    place
        Says where a row is.

    Returns
    -------
    (n_queries,) float64.

    Raises
    ------
    DataError
        If they differ within a query, or are missing, infinite or negative.
    """
    firsts = weights[query_ptr[:-1]]
    check_query_weights(firsts, query_ids)
    same = weights == np.repeat(firsts, np.diff(query_ptr))
    if not same.all():
        row = int(np.argmin(same))
        query = int(np.searchsorted(query_ptr, row, side="right")) - 1
        raise DataError(
            f"{place(row)}: weight is {weights[row]}, but {firsts[query]} in the first row of "
            f"query {query_ids[query]}; all documents of a query have the query's weight."
        )
    return firsts
