"""The arguments of `fit` as partitions of features, grades and query ids of the same rows.

What a partition of a DataFrame holds may differ from one computation to the next: a shuffle orders
its rows anew each time, and Dask computes each expression for itself. Features, grades and query
ids of a DataFrame are therefore columns of one DataFrame. Arrays belong together by position, and
are taken if `known_arrays` shows that their rows are fixed. Equal lengths and divisions prove
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse

from dranking.data.roles import QID, RELEVANCE, Columns, Roles
from dranking.data.tables.alignment import aligned
from dranking.data.tables.any_table import is_dask, is_dask_frame
from dranking.data.tables.columns import find_layout
from dranking.data.tables.refused_columns import DASK_FRAME
from dranking.errors import DataError, UsageError
from dranking.ingestion.collections.known_arrays import check_known
from dranking.ingestion.collections.partitions import ChunkForm, make_part

_ARGUMENTS = {QID: "qid", RELEVANCE: "y"}

Compute = Callable[[Sequence[Any]], list[Any]]
"""Computes delayed values in one graph."""


@dataclass(frozen=True)
class Partitions:
    """A collection, as delayed `Part`s.

    Attributes
    ----------
    parts
        One delayed `Part` for each partition.
    roles
        Names of the columns of the parts that are not features.
    width
        Number of features of an array; None for a frame.
    is_sparse
        Whether the chunks of an array are sparse.
    rows
        Delayed chunks of whole rows of an array, with the query ids of each chunk; none of a frame.
    """

    parts: list[Any]
    roles: Roles
    width: int | None = None
    is_sparse: bool = False
    rows: Sequence[tuple[Any, Any]] = ()


def partitions_of(X: Any, y: Any, qid: Any, compute: Compute) -> Partitions:
    """The arguments of `fit` as partitions of the same rows.

    Parameters
    ----------
    X
        A dask DataFrame or dask array.
    y, qid
        Names of columns of a DataFrame; for an array, dask arrays or arrays in memory.
    compute
        Computes lengths of chunks, where they are needed and unknown.

    Raises
    ------
    UsageError
        If the collections may hold different rows, or a name is no column.
    DataError
        If lengths differ, or a persisted frame lacks partitions.
    """
    if not is_dask_frame(X):
        return _of_arrays(X, y, qid, compute)
    for name, value in (("y", y), ("qid", qid)):
        if not (value is None or isinstance(value, str)):
            raise UsageError(
                f"{name} stands beside a dask DataFrame, and nothing shows that both have the same "
                "rows in the same order. If you know that they have, make it a column, and name "
                "the columns: fit(ddf.assign(y=...), y='y', qid='qid')."
            )
    roles = Roles(qid=qid, relevance=y)
    frame = _with_index_as_column(X, roles.qid)
    _check_there(frame, roles)
    pieces = frame.to_delayed()
    _check_persisted(pieces)
    return Partitions(_parts(pieces, roles), roles)


def _check_persisted(pieces: Sequence[Any]) -> None:
    """Raise DataError if a frame needs partitions that Dask has not stored with their neighbours.

    When Dask persists a DataFrame that is read with fewer columns and has no further step, small
    files become one partition, and the DataFrame keeps its number of partitions (issue 12488).
    """
    from dask._task_spec import GraphNode

    graph = dict(pieces[0].dask)  # all pieces share it
    needed = {piece.key for piece in pieces}
    needed.update(*(task.dependencies for task in graph.values() if isinstance(task, GraphNode)))
    # Futures of the user are not in the graph either, and the cluster has them.
    stored = {_collection_name(key) for key in graph}
    missing = [key for key in needed - graph.keys() if _collection_name(key) in stored]
    if missing:
        raise DataError(
            f"the dask DataFrame was persisted, and Dask has not stored {len(missing)} of the "
            "partitions that it names: frame.compute() fails too (issue 12488 of Dask: persist() "
            "right after read_parquet with fewer columns). Put a step between the two: "
            "frame.map_partitions(lambda part: part).persist()."
        )


def _collection_name(key: Any) -> Any:
    """The name that the keys of all partitions of a collection begin with."""
    return key[0] if isinstance(key, tuple) else key


def _check_there(frame: Any, roles: Roles) -> None:
    """Raise DataError, before anything is computed, if a column of grades or ids is not there."""
    names = [str(name) for name in frame.columns]
    if not {roles.qid, roles.relevance} <= {*names, None}:
        schema = pa.schema([(name, pa.null()) for name in names])
        find_layout(schema, Columns(roles.qid, roles.relevance), DASK_FRAME)


def _with_index_as_column(frame: Any, qid: str) -> Any:
    """The frame, with its index as a column if the index holds the query ids."""
    return frame.reset_index() if frame.index.name == qid and qid not in frame.columns else frame


def _parts(
    X: Sequence[Any], roles: Roles, *labels: Sequence[Any], form: ChunkForm | None = None
) -> list[Any]:
    from dask import delayed

    make = delayed(partial(make_part, form=form), pure=False, traverse=False)
    return [make(number, roles, *row) for number, row in enumerate(zip(X, *labels, strict=True))]


def _of_arrays(X: Any, y: Any, qid: Any, compute: Compute) -> Partitions:
    """Partitions of a dask array of features, and arrays of grades and query ids."""
    y, qid = aligned(X, y=y, qid=qid).values()
    labels = {name: value for name, value in ((QID, qid), (RELEVANCE, y)) if value is not None}
    if any(isinstance(value, str) for value in labels.values()):
        raise UsageError("y or qid is the name of a column, but X is an array without columns.")
    check_known({"X": X, **{_ARGUMENTS[name]: value for name, value in labels.items()}})
    form = _form_of_chunks(X)
    rows = _Chunks.of(X.rechunk({1: -1}) if X.numblocks[1] > 1 else X)
    columns = {name: _Chunks.of(value) for name, value in labels.items() if is_dask(value)}
    together = (rows, *columns.values())
    is_known = all(each.lengths for each in together)
    is_zipped = not any(each.lengths for each in together) and len(columns) == len(labels)
    is_zipped = is_zipped and len({len(each.pieces) for each in together}) == 1
    if not (is_known or is_zipped):
        rows = rows.measured(compute)
        columns = {name: each.measured(compute) for name, each in columns.items()}
    no_grades: list[Any] = [None] * len(rows.pieces)
    pieces = {name: _pieces(name, value, columns, rows) for name, value in labels.items()}
    roles = Roles(QID, None, RELEVANCE if RELEVANCE in labels else None, None)
    parts = _parts(rows.pieces, roles, pieces.get(RELEVANCE, no_grades), pieces[QID], form=form)
    pairs = list(zip(rows.pieces, pieces[QID], strict=True))
    return Partitions(parts, roles, width=form.width, is_sparse=form.is_sparse, rows=pairs)


def _form_of_chunks(X: Any) -> ChunkForm:
    """The form of the chunks of a dask array; raises DataError if they cannot be features."""
    if X.ndim != 2:
        raise DataError(f"X has shape {X.shape}; it must be (n_documents, n_features).")
    if np.isnan(X.shape[1]):
        raise DataError("X does not know its number of columns; call X.compute_chunk_sizes().")
    if not X.shape[1]:
        raise DataError(f"X has shape {X.shape}: there is no feature.")
    is_sparse = sparse.issparse(X._meta)
    if not (is_sparse or isinstance(X._meta, np.ndarray)):
        raise DataError(
            f"the chunks of X are of type {type(X._meta).__name__}; make them NumPy arrays or "
            "scipy.sparse rows, with X.map_blocks(function, meta=an empty array of the new type)."
        )
    return ChunkForm(int(X.shape[1]), is_sparse)


class _Chunks(NamedTuple):
    """A dask array: its delayed chunks of rows, and their lengths, empty if unknown."""

    array: Any
    pieces: list[Any]
    lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, array: Any) -> _Chunks:
        # Optimised one by one, arrays would lose the steps that they have in common.
        pieces = list(np.ravel(array.to_delayed(optimize_graph=False)))
        is_known = not np.isnan(array.chunks[0]).any()
        return cls(array, pieces, tuple(array.chunks[0]) if is_known else ())

    def measured(self, compute: Compute) -> _Chunks:
        """The same chunks with their lengths."""
        from dask import delayed

        if self.lengths:
            return self
        lengths = compute([delayed(_n_rows)(piece) for piece in self.pieces])
        return self._replace(lengths=tuple(lengths))

    def cut(self, lengths: tuple[int, ...]) -> list[Any]:
        """Delayed chunks of other lengths; the array is one-dimensional."""
        array = self.array.copy()
        array._chunks = (self.lengths,)
        return list(array.rechunk((lengths,)).to_delayed(optimize_graph=False).ravel())


def _n_rows(chunk: Any) -> int:
    return int(chunk.shape[0])


def _pieces(name: str, value: Any, columns: Mapping[str, _Chunks], rows: _Chunks) -> list[Any]:
    """One piece of grades or query ids for each chunk of rows."""
    if name in columns:
        chunks = columns[name]
        if not chunks.lengths or chunks.lengths == rows.lengths:
            return chunks.pieces
        n_given = sum(chunks.lengths)
    else:
        n_given = len(value)
    n_rows = sum(rows.lengths)
    if n_given != n_rows:
        raise DataError(f"{_ARGUMENTS[name]} has {n_given} entries for {n_rows} rows of X.")
    if name in columns:
        return columns[name].cut(rows.lengths)
    ends = accumulate(rows.lengths)
    whole = value.iloc if hasattr(value, "iloc") else value
    return [whole[end - n : end] for n, end in zip(rows.lengths, ends, strict=True)]
