"""Scores and selected columns of Dask collections: lazy, with the partitions of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.tables.any_table import is_dask_frame
from dranking.ingestion.collections.query_tables import QueryValues

SCORE = "score"
"""Name of a series of scores."""

ScoreRows = Callable[[Any], NDArray[np.float64]]
ScoreRowsOfQueries = Callable[[Any, Any, Any], NDArray[np.float64]]


def lazy_scores(X: Any, score: ScoreRows, columns: Any) -> Any:
    """Scores of the rows of a Dask collection, computed partition by partition.

    Parameters
    ----------
    X
        A dask DataFrame, or a dask array (n_documents, n_features).
    score
        Function of the rows of a partition, restricted to `columns`, to (n_rows,) float64. It is
        not called without rows.
    columns
        Names of columns of a DataFrame, or positions of columns of an array, in order; no others
        are read.

    Returns
    -------
    A dask Series with the index of `X`, or a dask array (n_documents,) with the chunks of `X`;
    float64.
    """
    if is_dask_frame(X):
        import pandas as pd

        meta = pd.Series([], dtype=np.float64, name=SCORE)
        rows = _read_together(frame_columns(X, columns))
        return rows.map_partitions(_scored_series, score, meta=meta)
    rows = X[:, columns].rechunk({1: -1})
    return rows.map_blocks(_scored, score, dtype=np.float64, drop_axis=1, meta=np.empty(0))


def lazy_scores_by_query(
    X: Any, qid: str, score: ScoreRowsOfQueries, columns: Any, values: Any
) -> Any:
    """Scores of the rows of a dask DataFrame, whose queries have values of their own.

    Any task may get any rows: Dask computes other partitions than a DataFrame has where it merges
    small pieces of parquet, which depends on the columns of the whole expression.

    Parameters
    ----------
    X, columns
        As in `lazy_scores`.
    qid
        Name of the column of query ids, or of the index.
    score
        Function of the rows of a partition, restricted to `columns`, their query ids, and `values`,
        to (n_rows,) float64. It is not called without rows.
    values
        Delayed `QueryValues` of all queries.

    Returns
    -------
    As `lazy_scores`.
    """
    import pandas as pd

    meta = pd.Series([], dtype=np.float64, name=SCORE)
    rows = _read_together(_with_ids(X, qid, columns))
    return rows.map_partitions(_scored_frame, values, qid, columns, score, meta=meta)


def lazy_scores_by_partition(
    X: Any,
    qid: str,
    rows: Sequence[tuple[Any, Any]],
    score: ScoreRowsOfQueries,
    columns: Any,
    values: Sequence[Any],
) -> Any:
    """Scores of the rows of a DataFrame or an array, each partition with the values of its queries.

    Scores of a DataFrame do not depend on the DataFrame in Dask's graph; to join both, Dask aligns
    them by known divisions.

    Parameters
    ----------
    rows
        Delayed chunks of rows of an array, with their query ids; see `Partitions.rows`.
    values
        Delayed `QueryValues` of the queries of each partition.
    """
    from dask import delayed

    if is_dask_frame(X):
        import dask.dataframe as dd
        import pandas as pd

        scored = delayed(_scored_frame, pure=False)
        with as_stated():
            pieces = _with_ids(X, qid, columns).to_delayed()
        meta = pd.Series([], dtype=np.float64, name=SCORE)
        series = [
            # Dask forgets the futures that a delayed keyword argument is made of.
            scored(piece, each, qid, columns, score)
            for piece, each in zip(pieces, values, strict=True)
        ]
        return dd.from_delayed(series, meta=meta, divisions=X.divisions, verify_meta=False)
    import dask.array as da

    scored = delayed(_scored_chunk, pure=False)
    chunks = [
        da.from_delayed(scored(*pair, each, columns, score), (n,), dtype=np.float64)
        for pair, each, n in zip(rows, values, X.chunks[0], strict=True)
    ]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def as_stated() -> AbstractContextManager[Any]:
    """A context in which Dask computes the partitions that a DataFrame states, and merges none."""
    import dask

    context: AbstractContextManager[Any] = dask.config.set({"optimization.tune.active": False})
    return context


def _with_ids(X: Any, qid: str, columns: Any) -> Any:
    """Columns of a frame and the column of query ids, unless the index holds them."""
    return frame_columns(X, [*columns, qid] if qid in map(str, X.columns) else columns)


def _read_together(frame: Any) -> Any:
    """The frame behind a step that tells Dask which columns are needed.

    Dask reads a source once for all steps of an expression whose needed columns it knows. It does
    not know those of a function of partitions whose result has other columns, and would read the
    source once more for this function alone, with other merged partitions.
    """
    return frame.map_partitions(_same, meta=frame._meta)


def _same(rows: Any) -> Any:
    return rows


def frame_columns(X: Any, names: Sequence[str]) -> Any:
    """Columns of a pandas or dask DataFrame, found by the text of their names."""
    by_name = {str(name): name for name in X.columns}
    return X[[by_name[name] for name in names]]


def _scored(rows: Any, score: ScoreRows) -> NDArray[np.float64]:
    return score(rows) if rows.shape[0] else np.empty(0)


def _scored_series(rows: Any, score: ScoreRows) -> Any:
    import pandas as pd

    return pd.Series(_scored(rows, score), index=rows.index, name=SCORE)


def _scored_frame(
    rows: Any, values: QueryValues, qid: str, columns: Any, score: ScoreRowsOfQueries
) -> Any:
    """The scores of a partition; query ids are a column, or the index."""
    import pandas as pd

    held = [name for name in rows.columns if str(name) == qid]
    ids = rows[held[0]] if held else rows.index
    scores = score(frame_columns(rows, columns), ids, values) if len(rows) else np.empty(0)
    return pd.Series(scores, index=rows.index, name=SCORE)


def _scored_chunk(
    rows: Any, ids: Any, values: QueryValues, columns: Any, score: ScoreRowsOfQueries
) -> NDArray[np.float64]:
    return score(rows[:, columns], ids, values) if rows.shape[0] else np.empty(0)
