"""Times of queries: what they may be, and how they are written."""

from __future__ import annotations

from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from dranking.errors import DataError, UsageError

TimeType = Literal["int64", "timestamp"]
TIME_TYPES: Final[dict[TimeType, Any]] = {"int64": pa.int64(), "timestamp": pa.timestamp("us")}


def as_times(values: Any, n_queries: int) -> pa.Array:
    """Times of queries as they are stored: int64, or timestamps of microseconds.

    Parameters
    ----------
    values
        One for each query, as numbers, dates or timestamps; or one for all, which may be the text
        of any of these.

    Raises
    ------
    DataError
        If there is not one for each query, or one is missing or no time.
    """
    if isinstance(values, (str, int)):
        time = parse_time(str(values))
        return pa.array([time.as_py()] * n_queries, time.type)
    try:
        times = pa.array(values) if not isinstance(values, pa.ChunkedArray) else values
        whole = pa.types.is_integer(times.type)
        times = pc.cast(times, TIME_TYPES["int64" if whole else "timestamp"])
    except pa.ArrowException as error:
        raise DataError(f"the times of queries cannot be read ({error}).") from error
    if len(times) != n_queries or times.null_count:
        raise DataError(
            f"{len(times) - times.null_count} times for {n_queries} queries; give each one."
        )
    return pa.concat_arrays(times.chunks) if isinstance(times, pa.ChunkedArray) else times


def parse_time(text: str) -> pa.Scalar:
    """A whole number, else a date or timestamp."""
    for kind in TIME_TYPES.values():
        try:
            return pa.scalar(text).cast(kind)
        except pa.ArrowInvalid:
            continue
    raise UsageError(
        f"{text!r} is no time; write a whole number, 2026-01-31, or 2026-01-31T12:00:00."
    )


def time_type(times: pa.Array | None) -> TimeType | None:
    """The type of times that `as_times` gave."""
    if times is None:
        return None
    return "int64" if pa.types.is_int64(times.type) else "timestamp"


def time_in_words(kind: TimeType | None) -> str:
    """How an error speaks of times of a type."""
    words = {"int64": "times that are whole numbers", "timestamp": "times that are dates"}
    return words[kind] if kind else "no times"
