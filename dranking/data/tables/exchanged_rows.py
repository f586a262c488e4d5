"""Rows of flat tables in one form, whatever the columns of the files: what tasks exchange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dranking.data.roles import DOC_ID, FEATURES, QID, RELEVANCE, WEIGHT, Roles
from dranking.data.tables.columns import Layout
from dranking.data.tables.ids import Place, check_no_null
from dranking.data.tables.numeric_values import check_relevance
from dranking.data.tables.rows_to_block import concat_ids, concat_numbers, feature_matrix

ROW = "row"
"""Column of exchanged rows: the number of the row in its source."""


def exchanged_layout(layout: Layout) -> Layout:
    """Layout of what `exchanged_rows` returns, given the layout of its input."""
    roles = layout.roles
    return Layout(
        roles=Roles(
            qid=QID,
            docid=None if roles.docid is None else DOC_ID,
            relevance=None if roles.relevance is None else RELEVANCE,
            weight=None if roles.weight is None else WEIGHT,
        ),
        columns=(FEATURES,),
        width=len(layout.feature_names),
        qid_is_text=layout.qid_is_text,
        doc_id_is_text=layout.doc_id_is_text,
    )


def exchanged_rows(
    pieces: Sequence[pa.Table],
    layout: Layout,
    first_row: int,
    place: Place,
    *,
    missing: bool = False,
) -> pa.Table:
    """Rows with ids as int64 or string, numbers as float64, and float32 features in lists.

    Parameters
    ----------
    pieces
        Consecutive rows, with the columns of the layout.
    layout
        Roles of the columns.
    first_row
        Number of the first row.
    place
        Describes the place of a row, counted from the first row of `pieces`, for errors.
    missing
        Whether feature values may be missing; they are NaN then.

    Returns
    -------
    A table of the layout `exchanged_layout(layout)`, with the column `ROW`.

    Raises
    ------
    DataError
        If an id is missing or a value is not allowed; the message says where.
    """
    roles, n_features = layout.roles, len(layout.feature_names)
    qid = concat_ids(pieces, roles.qid, layout.qid_is_text, place)
    check_no_null(qid, roles.qid, place)
    columns = {QID: qid}
    if roles.docid is not None:
        columns[DOC_ID] = concat_ids(pieces, roles.docid, layout.doc_id_is_text, place)
    if roles.relevance is not None:
        relevance = concat_numbers(pieces, roles.relevance)
        check_relevance(relevance, place)
        columns[RELEVANCE] = pa.array(relevance)
    if roles.weight is not None:
        columns[WEIGHT] = pa.array(concat_numbers(pieces, roles.weight))
    every = np.arange(n_features)
    matrix = feature_matrix(pieces, layout, every, qid, place, missing=missing)
    values = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    columns[FEATURES] = pa.FixedSizeListArray.from_arrays(values, n_features)
    columns[ROW] = pa.array(np.arange(first_row, first_row + len(qid)))
    return pa.table(columns)
