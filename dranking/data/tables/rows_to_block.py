"""Rows of flat tables made into query blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.tables.columns import Layout
from dranking.data.tables.ids import Place, as_ids, check_no_null, row_place
from dranking.data.tables.numeric_values import (
    InvalidValue,
    Nullable,
    arrow_numbers,
    as_float32,
    check_relevance,
    feature_error,
    less_origins,
    weights_per_query,
)
from dranking.data.tables.query_rows import run_starts


def rows_to_block(
    pieces: Sequence[pa.Table],
    layout: Layout,
    features: NDArray[np.intp],
    place: Place,
    *,
    missing: Nullable = False,
) -> QueryBlock:
    """Make a query block from the rows of whole queries.

    Parameters
    ----------
    pieces
        The rows, in order; with the columns that `layout.to_read(features)` names.
    layout
        Roles of the columns.
    features
        (n_selected,) positions of the features to take, in order.
    place
        Describes the place of a row, counted from the first row of `pieces`, for errors.
    missing
        Whether values of all features, or of each selected feature, may be missing.

    Returns
    -------
    A block with dense features: C-ordered from lists, F-ordered from columns.

    Raises
    ------
    DataError
        If an id is missing or a value is not allowed; the message says where.
    """
    roles = layout.roles
    qid = concat_ids(pieces, roles.qid, layout.qid_is_text, place)
    check_no_null(qid, roles.qid, place)
    starts = run_starts(qid)
    query_ptr = np.append(starts, len(qid))
    query_ids = qid.take(pa.array(starts))
    relevance = np.full(len(qid), np.nan)
    if roles.relevance is not None:
        relevance = concat_numbers(pieces, roles.relevance)
        check_relevance(relevance, place)
    doc_ids = None
    if roles.docid is not None:
        ids = concat_ids(pieces, roles.docid, layout.doc_id_is_text, place)
        doc_ids = None if ids.null_count == len(ids) else ids
    weights = None
    if roles.weight is not None:
        per_row = concat_numbers(pieces, roles.weight)
        weights = weights_per_query(per_row, query_ptr, query_ids, place)
    return QueryBlock(
        features=feature_matrix(pieces, layout, features, qid, place, missing=missing),
        relevance=relevance,
        query_ptr=query_ptr,
        query_ids=query_ids,
        doc_ids=doc_ids,
        query_weights=weights,
    )


def concat_ids(
    pieces: Sequence[pa.Table], name: str, as_string: bool, place: Place = row_place
) -> pa.Array:
    """One column of ids from consecutive pieces of a table, as string or int64."""
    kind = pa.string() if as_string else pa.int64()
    found = []
    for start, piece in _with_starts(pieces):
        where = partial(_from_start, place, start)
        ids = as_ids(piece.column(name), name, as_string=as_string, place=where)
        found.append(ids.cast(kind))
    return pa.concat_arrays(found)


def _from_start(place: Place, start: int, row: int) -> str:
    return place(start + row)


def concat_numbers(pieces: Sequence[pa.Table], name: str) -> NDArray[np.float64]:
    """One column of numbers from consecutive pieces of a table; nulls become NaN."""
    return np.concatenate([arrow_numbers(p.column(name)).astype(np.float64) for p in pieces])


def feature_matrix(
    pieces: Sequence[pa.Table],
    layout: Layout,
    features: NDArray[np.intp],
    qid: pa.Array,
    place: Place,
    *,
    missing: Nullable = False,
) -> NDArray[np.float32]:
    """(n_rows, len(features)) float32; C-ordered from lists, F-ordered from columns.

    The parameters are those of `rows_to_block`, and the query id of every row, for errors.
    """
    names = layout.feature_names
    if layout.width is None:
        matrix = np.empty((len(features), len(qid)), dtype=np.float32).T
    else:
        matrix = np.empty((len(qid), len(features)), dtype=np.float32)
    for start, piece in _with_starts(pieces):
        rows = slice(start, start + piece.num_rows)
        if layout.width is None:
            columns = [layout.columns[i] for i in features]
            origins = [layout.origins[i] for i in features] if layout.origins else ()
            invalid = fill_from_columns(
                piece, columns, matrix[rows], missing=missing, origins=origins
            )
        else:
            invalid = _fill_from_lists(piece, layout, features, matrix[rows], missing)
        if invalid is not None:
            row, column = divmod(invalid.position, len(features))
            row += start
            raise feature_error(place(row), qid[row], names[features[column]], invalid)
    return matrix


def _with_starts(pieces: Sequence[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    start = 0
    for piece in pieces:
        yield start, piece
        start += piece.num_rows


def fill_from_columns(
    piece: pa.Table,
    names: Sequence[str],
    out: NDArray[np.float32],
    *,
    missing: Nullable = False,
    origins: Sequence[float] = (),
) -> InvalidValue | None:
    """Copy columns of a table, less their origins, into a float32 matrix, up to an invalid value.

    Returns
    -------
    The invalid value, with its position in `out`, or None.
    """
    may_miss = np.broadcast_to(missing, len(names)).tolist()
    for j, name in enumerate(names):
        numbers = arrow_numbers(piece.column(name))
        if origins:
            numbers = less_origins(numbers, origins[j])
        values, invalid = as_float32(numbers, missing=may_miss[j])
        if invalid is not None:
            return invalid._replace(position=invalid.position * len(names) + j)
        out[:, j] = values
    return None


def _fill_from_lists(
    piece: pa.Table,
    layout: Layout,
    features: NDArray[np.intp],
    out: NDArray[np.float32],
    missing: Nullable,
) -> InvalidValue | None:
    start, width = 0, layout.width or 0
    if not len(features):
        return None
    for chunk in piece.column(layout.columns[0]).chunks:
        absent = chunk.is_null().to_numpy(zero_copy_only=False)
        # A list that is null has `width` values too, of which nothing is known.
        stored = chunk.values.slice(chunk.offset * width, len(chunk) * width)
        numbers = arrow_numbers(stored).reshape(len(chunk), width)[:, features]
        if absent.any():
            numbers = np.where(absent[:, None], np.nan, numbers)
        values, invalid = as_float32(numbers, missing=missing)
        if invalid is not None:
            return invalid._replace(position=start * len(features) + invalid.position)
        out[start : start + len(chunk)] = values
        start += len(chunk)
    return None
