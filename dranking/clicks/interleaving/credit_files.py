"""Files of credits: a row for each page that was interleaved, with user, time and credit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dranking.errors import DataError, quoted
from dranking.files.arrow_tables import read_csv, read_json_lines, read_parquet
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import arrow_input, exists, list_files
from dranking.files.table_formats import check_no_table_format

READERS: dict[str, Callable[[Any], pa.Table]] = {
    ".parquet": read_parquet,
    ".csv": lambda file: read_csv(file.read()),
    ".ndjson": read_json_lines,
    ".jsonl": read_json_lines,
}


@dataclass(frozen=True)
class CreditColumns:
    """Names of the columns: id of the user, time of the page, and credit of ranker b."""

    user: str = "user"
    time: str = "time"
    credit: str = "credit"


@dataclass(frozen=True)
class Credits:
    """Credits of pages.

    Attributes
    ----------
    user
        (n_pages,) int64 numbers of users, equal for pages of one user.
    time
        (n_pages,) datetime64[us], UTC.
    credit
        (n_pages,) float64 in [0, 1]: how much the clicks on the page prefer ranker b.
    """

    user: NDArray[np.int64]
    time: NDArray[np.datetime64]
    credit: NDArray[np.float64]


def read_credits(place: AnyPlace, columns: CreditColumns = CreditColumns()) -> Credits:
    """Read a file, or all files of a folder: parquet, CSV, or a JSON object per line.

    Raises
    ------
    DataError
        If there is no such file, a file cannot be read or lacks a column, a user or a time is
        missing, or a credit is no number in [0, 1].
    """
    source = as_place(place)
    files = [file for file in _files(source) if file.suffix.lower() in READERS]
    if not files:
        raise DataError(
            f"{source}: no file of credits is there; give a file that ends with "
            f"{', '.join(READERS)}, or a folder of such files."
        )
    parts = [_read(file, columns) for file in files]
    users = pd.concat([user for user, _, _ in parts], ignore_index=True)
    return Credits(
        user=pd.factorize(users)[0].astype(np.int64),
        time=np.concatenate([time for _, time, _ in parts]),
        credit=np.concatenate([credit for _, _, credit in parts]),
    )


def _files(source: Place) -> list[Place]:
    if not exists(source):
        raise DataError(f"{source}: there is no such file or folder.")
    check_no_table_format([source])
    return list_files(source) or [source]


def _read(
    file: Place, columns: CreditColumns
) -> tuple[pd.Series[str], NDArray[np.datetime64], NDArray[np.float64]]:
    try:
        with arrow_input(file) as opened:
            table = READERS[file.suffix.lower()](opened)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read ({error}).") from error
    for name in (columns.user, columns.time, columns.credit):
        if name not in table.column_names:
            raise DataError(
                f"{file}: has no column {name!r}; there are {quoted(table.column_names)}. Name "
                "the columns with --user-column, --time-column and --credit-column."
            )
        if n_missing := table.column(name).null_count:
            raise DataError(f"{file}: {name} is missing in {n_missing:,} rows.")
    users = _users(file, columns.user, table.column(columns.user))
    time = _times(file, columns.time, table.column(columns.time))
    return users, time, _credits(file, columns.credit, table.column(columns.credit))


def _users(file: Place, name: str, column: pa.ChunkedArray) -> pd.Series[str]:
    try:
        return column.cast(pa.string()).to_pandas()
    except pa.ArrowException as error:
        raise DataError(f"{file}: {name} has values that are no ids ({error}).") from error


def _times(file: Place, name: str, column: pa.ChunkedArray) -> NDArray[np.datetime64]:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        raise DataError(
            f"{file}: {name} has numbers, whose unit is not known; write times such as "
            "2026-11-23T09:30:00Z."
        )
    try:
        times = pd.to_datetime(column.to_pandas(), utc=True, format="ISO8601")
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{file}: {name} has a value that is no time ({error}); write times such as "
            "2026-11-23T09:30:00Z."
        ) from error
    found: NDArray[np.datetime64] = times.dt.tz_localize(None).to_numpy("datetime64[us]")
    return found


def _credits(file: Place, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    try:
        values = column.cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise DataError(f"{file}: {name} has a value that is no number ({error}).") from error
    wrong = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if len(wrong):
        raise DataError(
            f"{file}: {name} is {values[wrong[0]]:g} in row {wrong[0] + 1}, and {len(wrong):,} "
            "rows are not in [0, 1]. Credits are numbers from 0 (all for a) to 1 (all for b), "
            "1/2 for neither, as `preference` returns; sums of clicks have no bound, and an "
            "interval that holds at every look needs one."
        )
    return np.asarray(values)
