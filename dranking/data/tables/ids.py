"""Ids of queries and documents, from integers of any width or strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.errors import DataError

Place = Callable[[int], str]
"""Describes the place of a row, counted from 0, for an error."""


def row_place(row: int) -> str:
    """Place of a row of data in memory."""
    return f"row {row}"


def as_ids(
    values: Any, name: str, *, as_string: bool = False, place: Place = row_place
) -> pa.Array:
    """Ids as int64 or string, the two types that the package works with.

    Parameters
    ----------
    values
        (n,) NumPy, pandas or pyarrow array, or a sequence: integers of any width, strings,
        categoricals of integers or strings, or whole numbers stored as floats that tell them apart
        (below 2^53 in float64), where NaN is a missing id.
    name
        Name of the ids in errors.
    as_string
        Convert integers to strings too.
    place
        Describes the place of a row, for errors.

    Returns
    -------
    (n,) pyarrow array: string if the ids are strings or some integer is beyond int64, otherwise
    int64. Missing ids are null.

    Raises
    ------
    DataError
        If the values are not one-dimensional, are of another type, or mix integers and strings.
    """
    ids = _arrow_array(values, name)
    if pa.types.is_dictionary(ids.type):
        values = ids.dictionary
        if pa.types.is_string_view(values.type):  # of which pyarrow takes no rows
            values = values.cast(pa.string())
        ids = values.take(ids.indices)
    kind = ids.type
    if pa.types.is_floating(kind):
        ids = _whole_numbers(ids, name, place)
    elif pa.types.is_integer(kind):
        ids = int64_or_string(ids)
    elif pa.types.is_null(kind) or is_text(kind):
        ids = _texts(ids, name, place)
    else:
        raise DataError(f"{name} is of type {kind}; ids are integers or strings.")
    return ids.cast(pa.string()) if as_string else ids


def is_text(kind: pa.DataType) -> bool:
    """Whether a pyarrow type holds strings, or bytes that may be strings."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def check_no_null(ids: pa.Array, name: str, place: Place = row_place) -> None:
    """Raise DataError, naming the first row, if an id is missing."""
    if ids.null_count:
        row = pc.index(ids.is_null(), True).as_py()
        raise DataError(f"{place(row)}: {name} is missing; give every row a {name}.")


def positions_of(wanted: pa.Array, there: pa.Array) -> NDArray[np.int64]:
    """Place of each id among others; -1 where it is none of them. Integers equal their texts."""
    kind = pa.string() if pa.string() in (wanted.type, there.type) else wanted.type
    places = pc.index_in(wanted.cast(kind), value_set=there.cast(kind))
    positions: NDArray[np.int64] = places.fill_null(-1).to_numpy().astype(np.int64)
    return positions


def _arrow_array(values: Any, name: str) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if not isinstance(values, pa.ChunkedArray):
        if np.ndim(values) != 1:
            raise DataError(f"{name} has shape {np.shape(values)}; it must be one id per row.")
        try:
            values = pa.array(values, from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError) as error:
            values = _from_integers(values, name, error)
    if not isinstance(values, pa.ChunkedArray):
        return values
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def _from_integers(values: Any, name: str, error: Exception) -> pa.Array:
    """Strings of Python integers beyond 64 bits, which pyarrow cannot hold."""
    items = list(values)
    if not all(isinstance(item, (int, np.integer)) for item in items):
        raise DataError(f"{name} must be all integers or all strings ({error}).") from error
    return pa.array([str(item) for item in items])


def int64_or_string(ids: pa.Array) -> pa.Array:
    """Integer ids as int64, or as strings if an id is beyond int64."""
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:  # uint64 beyond int64
        return ids.cast(pa.string())


def _whole_numbers(ids: pa.Array, name: str, place: Place) -> pa.Array:
    """Whole numbers stored as floats as int64; NaN is null.

    Raises
    ------
    DataError
        If a number is not whole, or so large that floats of its type skip its neighbours, so that
        different ids may have become one.
    """
    given = ids.to_numpy(zero_copy_only=False)
    n_digits = np.finfo(given.dtype).nmant + 1
    numbers = given.astype(np.float64)
    missing = np.isnan(numbers)
    whole = missing | (np.isfinite(numbers) & (np.trunc(numbers) == numbers))
    if not whole.all():
        row = int(np.argmin(whole))
        raise DataError(
            f"{place(row)}: {name} is {float(numbers[row])!r}; ids are integers or strings, or "
            "whole numbers stored as floats."
        )
    told_apart = missing | (np.abs(numbers) < 2.0**n_digits)
    if not told_apart.all():
        row = int(np.argmin(told_apart))
        raise DataError(
            f"{place(row)}: {name} is {float(numbers[row])!r}, a float; {given.dtype} rounds whole "
            f"numbers from 2**{n_digits} on, so that different ids become one. Make the column "
            "integers or strings where it is first read (pandas keeps integers beside missing "
            "values as 'Int64')."
        )
    return pa.array(np.where(missing, 0, numbers).astype(np.int64), mask=missing)


def _texts(ids: pa.Array, name: str, place: Place) -> pa.Array:
    """Strings, or bytes that are UTF-8, as strings."""
    try:
        return ids.cast(pa.string())
    except pa.ArrowInvalid as error:
        if pa.types.is_large_string(ids.type) or pa.types.is_string_view(ids.type):
            raise DataError(f"{name} cannot be read as strings ({error}).") from error
        row = next(row for row, value in enumerate(ids.to_pylist()) if not _is_utf8(value))
        raise DataError(
            f"{place(row)}: {name} is {ids[row].as_py()!r}, which is no text in UTF-8; ids are "
            "integers or strings. Decode them first, or write them as hexadecimal digits."
        ) from error


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
