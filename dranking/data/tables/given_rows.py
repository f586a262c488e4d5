"""Rows as users give them, in arrays or tables of Arrow, some of them at a time as float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import FeatureMatrix
from dranking.data.roles import QID, RELEVANCE
from dranking.data.tables.any_table import as_table, is_table
from dranking.data.tables.ids import row_place
from dranking.data.tables.numeric_values import (
    as_float32,
    feature_error,
    is_number,
    less_origins,
)
from dranking.data.tables.refused_columns import is_category, of_categories
from dranking.data.tables.rows_to_block import fill_from_columns
from dranking.data.tables.vectors import spread_table
from dranking.errors import DataError, UsageError, listed

Rows: TypeAlias = slice | NDArray[np.int64]
"""Some rows of what was given: from one to another, or by number."""


def span(start: int, stop: int, order: NDArray[np.int64] | None) -> Rows:
    """The rows given from `start` to `stop` in an order; None is the order given."""
    span = slice(int(start), int(stop))
    return span if order is None else order[span]


def taken(values: Any, rows: Rows) -> Any:
    """Some rows of a table or array of Arrow."""
    return values[rows] if isinstance(rows, slice) else values.take(pa.array(rows))


def given_row(rows: Rows, position: int) -> int:
    """The row given at a position among some rows."""
    return int(rows.start + position if isinstance(rows, slice) else rows[position])


def as_features(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Features as an array, canonical `csr_array` or pyarrow Table; and the names of a table."""
    if sparse.issparse(X):
        return canonical_rows(X), None
    if is_table(X):
        table = spread_table(as_table(X))
        for field in table.schema:
            if field.name in (QID, RELEVANCE):
                raise UsageError(
                    f"X has a column {field.name!r}, which would become a feature; drop it from X."
                )
        others = [field for field in table.schema if not is_number(field.type)]
        if others:
            shown = listed([f"{field.name!r} ({field.type})" for field in others])
            texts = [field.name for field in others if is_category(field.type)]
            raise DataError(
                f"{len(others)} column(s) of X cannot be features: {shown}. Features are numbers. "
                f"Drop these columns.{f' {of_categories(texts)}' if texts else ''}"
            )
        return table, tuple(table.column_names)
    return _as_matrix(X), None


def _as_matrix(X: Any) -> NDArray[Any]:
    """A two-dimensional array of numbers; masked entries become NaN."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise DataError(f"the rows of X differ in length ({error}).") from error
    if array.ndim != 2:
        raise DataError(f"X has shape {array.shape}; it must be (n_documents, n_features).")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"X has an entry that is no number ({error}); features are numbers."
            ) from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"X is of type {array.dtype}; features are numbers.")
    return array


def canonical_rows(X: Any) -> Any:
    """CSR array with sorted, unique indices; copied only if they are not."""
    if X.ndim != 2:
        raise DataError(f"X has shape {X.shape}; it must be (n_documents, n_features).")
    matrix = sparse.csr_array(X)
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"X is of type {matrix.dtype}; features are numbers.")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def check_lengths(expected: int, of: str = "rows", **arrays: Any) -> None:
    """Raise DataError unless arrays, given by name, have an entry for each row or column of X."""
    for name, values in arrays.items():
        if values is not None and len(values) != expected:
            hint = " Each row needs its own id: qid=np.repeat(np.arange(len(group)), group)."
            raise DataError(
                f"{name} has {len(values)} entries for {expected} {of} of X."
                + (hint if name == "qid" and len(values) < expected else "")
            )


def block_features(
    features: Any,
    rows: Rows,
    names: tuple[str, ...],
    qid: pa.Array,
    nullable: NDArray[np.bool_],
    origins: Sequence[float],
) -> FeatureMatrix:
    """Some rows as float32; read-only if they share the memory of the caller's array."""
    if isinstance(features, pa.Table):
        piece = taken(features, rows)
        matrix = np.empty((len(names), piece.num_rows), dtype=np.float32).T
        invalid = fill_from_columns(piece, names, matrix, missing=nullable, origins=origins)
    elif sparse.issparse(features):
        matrix = features[rows]
        matrix.data, invalid = as_float32(matrix.data, missing=nullable[matrix.indices])
        if invalid is not None:
            row = int(np.searchsorted(matrix.indptr, invalid.position, side="right")) - 1
            column = int(matrix.indices[invalid.position])
            invalid = invalid._replace(position=row * len(names) + column)
    else:
        rows_here = np.ascontiguousarray(features[rows])
        rows_here = less_origins(rows_here, origins) if len(origins) else rows_here
        matrix, invalid = as_float32(rows_here, missing=nullable)
        matrix = matrix.view()
        matrix.flags.writeable = False
    if invalid is not None:
        row, column = divmod(invalid.position, len(names))
        row = given_row(rows, row)
        raise feature_error(row_place(row), qid[row], names[column], invalid)
    return matrix
