"""Conversion of users' numbers to float32 features and float64 grades and weights, with checks."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.tables.ids import Place, row_place
from dranking.errors import DataError

LARGEST_WEIGHT = 1e50
"""Largest weight of a query; see `LARGEST_GRADE`."""

LARGEST_GRADE = 1e50
"""Largest magnitude of a grade. With a largest weight and a largest float32 feature, the product is
3e138, the sum over 10^12 documents 3e150, and the square of this sum is still finite."""


LIMIT = "limit or rescale the feature first, as DataFrame.clip does."
"""Advice on values that float32 does not hold."""

REPLACE = (
    "say with --null zero, --null minimum or --null mean (in Python null=, for retrain "
    "data.null) where training data is read what stands for missing values: the model then knows "
    "the value of each feature, and --null with its own policy (in Python model.permitting_nulls) "
    "permits one here, too."
)
"""Advice on missing values."""

Nullable: TypeAlias = bool | NDArray[np.bool_]
"""Whether values may be missing, which are NaN then: of all features, or of each feature."""


class InvalidValue(NamedTuple):
    """A value that cannot be a feature: its position in C order, what is wrong, and what to do."""

    position: int
    problem: str
    advice: str = LIMIT


def as_float32(
    values: NDArray[Any], *, missing: Nullable = False
) -> tuple[NDArray[np.float32], InvalidValue | None]:
    """Numbers of any dtype as float32, and the first invalid number; float32 is not copied.

    Parameters
    ----------
    values
        Numbers.
    missing
        Whether NaN is valid: a value that is missing.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(np.float32, copy=False)
    finite = np.isfinite(cast)
    if np.any(missing) and not finite.all():
        finite |= np.isnan(cast) & missing
    if finite.all():
        return cast, None
    position = int(np.argmin(finite))
    value = values.flat[position]
    if np.isnan(value):
        return cast, InvalidValue(position, "is missing (NaN or null)", REPLACE)
    if np.isinf(value):
        return cast, InvalidValue(position, "is infinite")
    return cast, InvalidValue(position, f"is {value}, beyond float32")


def less_origins(values: NDArray[Any], origins: Any) -> NDArray[Any]:
    """Numbers less an origin, or less one for each column; whole numbers are subtracted exactly."""
    if not np.any(origins):
        return values
    whole = np.asarray(origins)
    if values.dtype.kind in "iu" and np.all(whole == np.rint(whole)) and np.all(abs(whole) < 2**62):
        limit = 2**62  # the difference of such numbers is within int64
        if not values.size or (values.min() >= -limit and values.max() <= limit):
            return np.asarray(values.astype(np.int64) - whole.astype(np.int64))
    return np.asarray(values.astype(np.float64) - whole)


def feature_error(place: str, query: object, feature: str, invalid: InvalidValue) -> DataError:
    """The error for a value that cannot be a feature."""
    return DataError(
        f"{place}, column {feature!r} (query {query}): the value {invalid.problem}. Features must "
        f"be finite float32 numbers; {invalid.advice}"
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a pyarrow type can be features; null is a column of missing values."""
    return bool(
        pa.types.is_null(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def arrow_numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Values of an Arrow column of numbers as a NumPy array; nulls become NaN."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.float64())
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def as_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """One number per row as float64; missing values (NaN, None, NA or null) become NaN.

    Parameters
    ----------
    values
        (n,) NumPy, pandas or pyarrow array, or a sequence.
    name
        Name of the values in errors.

    Raises
    ------
    DataError
        If the values are not one-dimensional or not numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    if hasattr(values, "__array__") and not hasattr(values, "dtype"):
        values = np.asarray(values)
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        if np.ndim(values) != 1:
            raise DataError(f"{name} has shape {np.shape(values)}; it must be one number per row.")
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            return values.astype(np.float64)
        try:
            values = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise DataError(f"{name} must be numbers ({error}).") from error
    if not is_number(values.type):
        raise DataError(
            f"{name} is of type {values.type}; it must be numbers. Convert it first, in pandas by "
            "astype(float), or by map({'bad': 0, 'good': 1}) for words."
        )
    return arrow_numbers(values).astype(np.float64)


def check_relevance(relevance: NDArray[np.float64], place: Place = row_place) -> None:
    """Raise DataError, naming the row, if a grade is infinite or beyond `LARGEST_GRADE`."""
    beyond = np.abs(relevance) > LARGEST_GRADE
    if beyond.any():
        row = int(np.argmax(beyond))
        value = relevance[row]
        raise DataError(
            f"{place(row)}: relevance is {'infinite' if np.isinf(value) else value}; it must be a "
            f"number from -{LARGEST_GRADE:g} to {LARGEST_GRADE:g}, whose squares can be summed, or "
            "missing for an unlabelled document."
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
    """Weights of the queries, from a column that repeats them for every document.

    Parameters
    ----------
    weights
        (n_documents,) weights, equal for all documents of a query.
    query_ptr
        (n_queries + 1,) row offsets.
    query_ids
        (n_queries,) ids, for errors.
    place
        Describes the place of a row, for errors.

    Returns
    -------
    (n_queries,) float64.

    Raises
    ------
    DataError
        If weights differ within a query, or a weight is missing, negative or too large.
    """
    firsts = weights[query_ptr[:-1]]
    check_query_weights(firsts, query_ids)
    same = weights == np.repeat(firsts, np.diff(query_ptr))
    if not same.all():
        row = int(np.argmin(same))
        query = int(np.searchsorted(query_ptr, row, side="right")) - 1
        raise DataError(
            f"{place(row)}: weight is {weights[row]}, but {firsts[query]} in the first row of "
            f"query {query_ids[query]}; give all documents of a query the same weight."
        )
    return firsts
