"""Given propensities in tables: CSV or parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.csv

from dranking.clicks.propensities.propensities import Propensities, given_propensities
from dranking.errors import DataError, UsageError
from dranking.files.arrow_tables import read_csv, read_parquet
from dranking.files.places import AnyPlace, as_place
from dranking.files.reading import arrow_input
from dranking.files.table_formats import check_no_table_format

CONTEXT = "context"
TEXT: dict[str, Any] = {
    "convert_options": pyarrow.csv.ConvertOptions(column_types={CONTEXT: pa.string()})
}
"""A context stays the text that it is, such as ``007`` or ``true``."""


def read_propensity_table(path: AnyPlace, depth: int | None = None) -> Propensities:
    """Propensities from a table.

    Parameters
    ----------
    path
        CSV or parquet, by the ending of its name, with a row for each position: `position` from 1
        on without gaps; `propensity`, or `a` and optionally `b`; optionally `context`, read as
        text, and empty for the curve of all other contexts.
    depth
        Deepest position to use; None means all.

    Raises
    ------
    DataError
        If the file cannot be read, columns or positions are missing, or a position is there twice.
    """
    file = as_place(path)
    check_no_table_format([file])
    try:
        with arrow_input(file) as opened:
            is_parquet = file.suffix == ".parquet"
            table = read_parquet(opened) if is_parquet else read_csv(opened.read(), **TEXT)
        if CONTEXT in table.column_names:
            names = table[CONTEXT].cast(pa.string())
            table = table.set_column(table.column_names.index(CONTEXT), CONTEXT, names)
        rows = table.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file}: cannot be read as CSV or parquet ({error}).") from error
    slope = "propensity" if "propensity" in table.column_names else "a"
    missing = {"position", slope} - set(table.column_names)
    if missing:
        raise DataError(f"{file}: needs the columns position and propensity, or position, a and b.")
    curves: dict[str | None, dict[int, dict[str, Any]]] = {}
    for row in rows:
        context = row.get(CONTEXT) or None
        curve = curves.setdefault(context, {})
        if row["position"] in curve:
            where = "" if context is None else f" of context {context!r}"
            raise DataError(f"{file}: position {row['position']}{where} is there twice.")
        curve[row["position"]] = row
    slopes, intercepts = {}, {}
    for context, by_position in curves.items():
        ordered = _in_order(file, by_position)[:depth]
        slopes[context] = [row[slope] for row in ordered]
        intercepts[context] = [row.get("b") or 0.0 for row in ordered]
    try:
        return given_propensities(slopes, intercepts)
    except (UsageError, TypeError) as error:
        raise DataError(f"{file}: {error}") from error


def _in_order(file: object, by_position: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    expected = list(range(1, len(by_position) + 1))
    if sorted(by_position, key=str) != sorted(expected, key=str):
        raise DataError(f"{file}: positions must be 1, 2, 3, ... without gaps.")
    return [by_position[position] for position in expected]
