"""Times of queries, by which queries expire: whole numbers, or dates and timestamps."""

from __future__ import annotations

from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from dranking.errors import DataError, UsageError

TimeType = Literal["int64", "timestamp"]
TIME_TYPES: Final[dict[TimeType, Any]] = {"int64": pa.int64(), "timestamp": pa.timestamp("us")}


def as_times(values: Any, n_queries: int) -> pa.Array:
    """Times of queries in the stored types: int64, or timestamps in microseconds.

    Parameters
    ----------
    values
        (n_queries,) whole numbers, dates or timestamps; or a single time for all queries, which
        may be text.
    n_queries
        Number of queries.

    Raises
    ------
    DataError
        If the number of times is not `n_queries`, or a time is missing or cannot be read.
    UsageError
        If text is no time.
    """
    if isinstance(values, (str, int)):
        time = parse_time(str(values))
        return pa.array([time.as_py()] * n_queries, time.type)
    try:
        times = pa.array(values) if not isinstance(values, pa.ChunkedArray) else values
        whole = pa.types.is_integer(times.type)
        times = pc.cast(times, TIME_TYPES["int64" if whole else "timestamp"])
    except pa.ArrowException as error:
        raise DataError(
            f"the times of queries cannot be read ({error}); give whole numbers, "
            "dates or timestamps."
        ) from error
    if len(times) != n_queries or times.null_count:
        raise DataError(
            f"{len(times) - times.null_count} times for {n_queries} queries; give every query one."
        )
    return pa.concat_arrays(times.chunks) if isinstance(times, pa.ChunkedArray) else times


def parse_time(text: str) -> pa.Scalar:
    """Time written as a whole number, a date or a timestamp.

    Raises
    ------
    UsageError
        If the text is none of these.
    """
    for kind in TIME_TYPES.values():
        try:
            return pa.scalar(text).cast(kind)
        except pa.ArrowInvalid:
            continue
    raise UsageError(
        f"{text!r} is no time; write a whole number, 2026-01-31, or 2026-01-31T12:00:00."
    )


def time_type(times: pa.Array | None) -> TimeType | None:
    """Type of the times that `as_times` returned; None if there are no times."""
    if times is None:
        return None
    return "int64" if pa.types.is_int64(times.type) else "timestamp"


def time_in_words(kind: TimeType | None) -> str:
    """Description of times of a type, for errors."""
    words = {"int64": "times that are whole numbers", "timestamp": "times that are dates"}
    return words[kind] if kind else "no times"
