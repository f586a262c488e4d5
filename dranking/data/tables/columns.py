"""Flat tables of ranking data: which column is what, and their rows as query blocks.

One row per document: columns for query id, relevance, document id and weight, and either one
column of numbers per feature or one column of fixed-size lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.tables.feature_names import check_feature_names, default_feature_names
from dranking.data.tables.ids import Place, as_ids, check_no_null, is_text
from dranking.data.tables.numeric_values import (
    Flaw,
    arrow_numbers,
    as_float32,
    check_relevance,
    feature_error,
    is_number,
    weights_per_query,
)
from dranking.data.tables.query_rows import run_starts
from dranking.errors import DataError, UsageError
from dranking.files.json_files import parse_json

QID, DOC_ID, RELEVANCE, WEIGHT, FEATURES = "qid", "docid", "relevance", "weight", "features"
RESERVED = (QID, DOC_ID, RELEVANCE, WEIGHT)
"""Columns that are never taken for a feature, unless a feature is explicitly named so."""


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are not features; None where there is none."""

    qid: str = QID
    relevance: str | None = RELEVANCE
    doc_id: str | None = DOC_ID
    weight: str | None = WEIGHT

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns there are."""
        roles = (self.qid, self.doc_id, self.relevance, self.weight)
        return tuple(name for name in roles if name is not None)


@dataclass(frozen=True)
class Layout:
    """Where a flat table has what.

    Attributes
    ----------
    roles
        Columns that are not features.
    columns
        One column per feature; or, if `width` is not None, the one column of lists.
    width
        Length of the lists.
    qid_is_text, doc_id_is_text
        Whether ids are strings, or integers some of which are beyond int64.
    """

    roles: Roles
    columns: tuple[str, ...]
    width: int | None = None
    qid_is_text: bool = False
    doc_id_is_text: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature."""
        return self.columns if self.width is None else default_feature_names(self.width)

    def to_read(self, features: NDArray[np.intp]) -> list[str]:
        """The columns that a block with these features needs."""
        if self.width is not None:
            return [*self.roles.names, *(self.columns if len(features) else ())]
        return [*self.roles.names, *dict.fromkeys(self.columns[i] for i in features)]


def find_layout(
    schema: pa.Schema, roles: Roles, features: Sequence[str] | None, where: str
) -> Layout:
    """Find out which column of a flat table is what.

    Parameters
    ----------
    schema
        Of the table.
    roles
        Names to look for. Document ids and weights under their usual names may be absent.
    features
        Names of the feature columns in the order wanted, or of the one column of lists. None
        means a column of lists named ``features``, else every column of numbers that has no other
        role and is not the index of a pandas frame.
    where
        What the table is, for messages.

    Raises
    ------
    DataError
        If columns are missing, named twice, or of a wrong type.
    UsageError
        If `features` names a column twice or one that has another role.
    """
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise DataError(f"{where}: columns occur more than once: {_listed(repeated)}.")
    roles = _present(schema, roles, where)
    _check_role_types(schema, roles, where)
    if features is None:
        chosen = _guess_features(schema, roles, where)
    else:
        chosen = tuple(features)
        _check_named_features(schema, chosen, roles, where)
    check_feature_names(chosen)
    width = None
    if len(chosen) == 1 and pa.types.is_fixed_size_list(schema.field(chosen[0]).type):
        width = schema.field(chosen[0]).type.list_size
    doc_id = roles.doc_id
    return Layout(
        roles=roles,
        columns=chosen,
        width=width,
        qid_is_text=is_text(value_type(schema, roles.qid)),
        doc_id_is_text=doc_id is not None and is_text(value_type(schema, doc_id)),
    )


def rows_to_block(
    pieces: Sequence[pa.Table],
    layout: Layout,
    features: NDArray[np.intp],
    place: Place,
) -> QueryBlock:
    """Make a query block of rows of whole queries.

    Parameters
    ----------
    pieces
        The rows, in order; with the columns that `layout.to_read(features)` names.
    layout
        Which column is what.
    features
        Positions of the features wanted, in order.
    place
        Says where a row, counted from the first of `pieces`, is.

    Raises
    ------
    DataError
        If an id is missing or a value is not allowed, saying where.
    """
    roles = layout.roles
    qid = concat_ids(pieces, roles.qid, layout.qid_is_text)
    check_no_null(qid, roles.qid, place)
    starts = run_starts(qid)
    query_ptr = np.append(starts, len(qid))
    query_ids = qid.take(pa.array(starts))
    relevance = np.full(len(qid), np.nan)
    if roles.relevance is not None:
        relevance = _concat_numbers(pieces, roles.relevance)
        check_relevance(relevance, place)
    doc_ids = None
    if roles.doc_id is not None:
        ids = concat_ids(pieces, roles.doc_id, layout.doc_id_is_text)
        doc_ids = None if ids.null_count == len(ids) else ids
    weights = None
    if roles.weight is not None:
        per_row = _concat_numbers(pieces, roles.weight)
        weights = weights_per_query(per_row, query_ptr, query_ids, place)
    return QueryBlock(
        features=_features(pieces, layout, features, qid, place),
        relevance=relevance,
        query_ptr=query_ptr,
        query_ids=query_ids,
        doc_ids=doc_ids,
        query_weights=weights,
    )


def concat_ids(pieces: Sequence[pa.Table], name: str, as_string: bool) -> pa.Array:
    """A column of ids of consecutive pieces of a table, as string or int64."""
    kind = pa.string() if as_string else pa.int64()
    columns = (as_ids(piece.column(name), name, as_string=as_string) for piece in pieces)
    return pa.concat_arrays([ids.cast(kind) for ids in columns])


def value_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Type of a column's values, behind a dictionary (pandas' categories) too."""
    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _concat_numbers(pieces: Sequence[pa.Table], name: str) -> NDArray[np.float64]:
    return np.concatenate([arrow_numbers(p.column(name)).astype(np.float64) for p in pieces])


def _features(
    pieces: Sequence[pa.Table],
    layout: Layout,
    features: NDArray[np.intp],
    qid: pa.Array,
    place: Place,
) -> NDArray[np.float32]:
    """(n, len(features)) float32; C-ordered from lists, F-ordered from columns."""
    names = layout.feature_names
    if layout.width is None:
        matrix = np.empty((len(features), len(qid)), dtype=np.float32).T
    else:
        matrix = np.empty((len(qid), len(features)), dtype=np.float32)
    for start, piece in _with_starts(pieces):
        rows = slice(start, start + piece.num_rows)
        if layout.width is None:
            flaw = fill_from_columns(piece, [layout.columns[i] for i in features], matrix[rows])
        else:
            flaw = _fill_from_lists(piece, layout, features, matrix[rows])
        if flaw is not None:
            row, column = divmod(flaw.position, len(features))
            row += start
            raise feature_error(place(row), qid[row], names[features[column]], flaw)
    return matrix


def _with_starts(pieces: Sequence[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    start = 0
    for piece in pieces:
        yield start, piece
        start += piece.num_rows


def fill_from_columns(
    piece: pa.Table, names: Sequence[str], out: NDArray[np.float32]
) -> Flaw | None:
    """Copy columns of a table to those of a float32 matrix; the first flaw found ends it."""
    for j, name in enumerate(names):
        values, flaw = as_float32(arrow_numbers(piece.column(name)))
        if flaw is not None:
            return Flaw(flaw.position * len(names) + j, flaw.problem)
        out[:, j] = values
    return None


def _fill_from_lists(
    piece: pa.Table, layout: Layout, features: NDArray[np.intp], out: NDArray[np.float32]
) -> Flaw | None:
    start = 0
    if not len(features):
        return None
    for chunk in piece.column(layout.columns[0]).chunks:
        if chunk.null_count:
            row = start + int(np.argmax(chunk.is_null().to_numpy(zero_copy_only=False)))
            return Flaw(row * len(features), "is missing (NaN or null)")
        numbers = arrow_numbers(chunk.flatten()).reshape(len(chunk), layout.width or 0)
        values, flaw = as_float32(numbers[:, features])
        if flaw is not None:
            return Flaw(start * len(features) + flaw.position, flaw.problem)
        out[start : start + len(chunk)] = values
        start += len(chunk)
    return None


def _present(schema: pa.Schema, roles: Roles, where: str) -> Roles:
    """The roles without optional columns that are absent."""
    doc_id, weight = roles.doc_id, roles.weight
    if doc_id == DOC_ID and DOC_ID not in schema.names:
        doc_id = None
    if weight == WEIGHT and WEIGHT not in schema.names:
        weight = None
    found = Roles(roles.qid, roles.relevance, doc_id, weight)
    _check_there(schema, found.names, where)
    return found


def _check_there(schema: pa.Schema, names: Sequence[str], where: str) -> None:
    absent = [name for name in names if name not in schema.names]
    if absent:
        hint = ""
        if RELEVANCE in absent:
            hint = " For unlabelled data make relevance a column of nulls."
        raise DataError(
            f"{where}: there is no column {_listed(absent)}. "
            f"The columns are {_listed(schema.names)}.{hint}"
        )


def _check_role_types(schema: pa.Schema, roles: Roles, where: str) -> None:
    for name in (roles.qid, roles.doc_id):
        if name is None:
            continue
        kind = value_type(schema, name)
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (numeric or is_text(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where}: column {name!r} is {kind}; ids are integers or strings.")
    for name in (roles.relevance, roles.weight):
        if name is None:
            continue
        kind = schema.field(name).type
        if not (is_number(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where}: column {name!r} is {kind}; it must hold numbers.")


def _guess_features(schema: pa.Schema, roles: Roles, where: str) -> tuple[str, ...]:
    taken = {*RESERVED, *roles.names, *_pandas_index(schema)}
    numbers = tuple(f.name for f in schema if f.name not in taken and is_number(f.type))
    if FEATURES in schema.names and pa.types.is_fixed_size_list(schema.field(FEATURES).type):
        if numbers:
            raise DataError(
                f"{where}: has the list column {FEATURES!r} and columns of numbers "
                f"({_listed(numbers)}); name those that are the features with feature_columns=."
            )
        _check_feature_type(schema, FEATURES, where)
        return (FEATURES,)
    if not numbers:
        raise DataError(
            f"{where}: there is no feature column: no column of numbers beside {_listed(taken)}, "
            f"and no fixed-size-list column {FEATURES!r}. The columns are "
            f"{', '.join(f'{f.name} ({f.type})' for f in schema)}."
        )
    return numbers


def _check_named_features(
    schema: pa.Schema, chosen: tuple[str, ...], roles: Roles, where: str
) -> None:
    if not chosen:
        raise UsageError("no feature column is named.")
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    taken = [name for name in chosen if name in roles.names]
    if repeated or taken:
        raise UsageError(
            f"feature columns must be named once and have no other role; not so: "
            f"{_listed(repeated + taken)}."
        )
    _check_there(schema, chosen, where)
    for name in chosen:
        is_list = pa.types.is_fixed_size_list(schema.field(name).type)
        if is_list and len(chosen) > 1:
            raise UsageError(
                f"{where}: column {name!r} holds lists; a list column must be the only one."
            )
        _check_feature_type(schema, name, where)


def _check_feature_type(schema: pa.Schema, name: str, where: str) -> None:
    kind = schema.field(name).type
    value = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
    if not is_number(value):
        raise DataError(
            f"{where}: column {name!r} is {kind}; features are numbers or fixed-size lists of them."
        )


def _pandas_index(schema: pa.Schema) -> list[str]:
    """Columns that pandas stored only to restore the index of a frame."""
    try:
        index = parse_json((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in index if isinstance(name, str)]
    except (KeyError, ValueError, TypeError):
        return []


def _listed(names: Sequence[str] | set[str]) -> str:
    ordered = sorted(names) if isinstance(names, set) else list(names)
    shown = ", ".join(repr(name) for name in ordered[:20])
    return f"{shown}, ... ({len(ordered)} in all)" if len(ordered) > 20 else shown
