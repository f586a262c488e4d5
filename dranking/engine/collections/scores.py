"""Scores and selected columns of Dask collections: lazy, with the partitions of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.engine.collections.one_expression import is_dask_frame

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
        return frame_columns(X, columns).map_partitions(_scored_series, score, meta=meta)
    rows = X[:, columns].rechunk({1: -1})
    return rows.map_blocks(_scored, score, dtype=np.float64, drop_axis=1, meta=np.empty(0))


def lazy_scores_by_query(
    X: Any,
    qid: Any,
    rows: Sequence[tuple[Any, Any]],
    score: ScoreRowsOfQueries,
    columns: Any,
    tables: Sequence[Any],
) -> Any:
    """Scores of the rows of a Dask collection, whose queries have values of their own.

    Parameters
    ----------
    X, columns
        As in `lazy_scores`.
    qid
        Query ids of a DataFrame: the name of a column or of the index, or a series of the frame.
    rows
        Delayed chunks of rows of an array, with their query ids; see `Partitions.rows`.
    score
        Function of the rows of a partition, restricted to `columns`, their query ids, and the
        partition's table, to (n_rows,) float64. It is not called without rows.
    tables
        Delayed pandas DataFrames, one for each partition: the index holds the ids of the queries of
        the partition.

    Returns
    -------
    As `lazy_scores`.
    """
    if is_dask_frame(X):
        import dask.dataframe as dd
        import pandas as pd

        meta = pd.Series([], dtype=np.float64, name=SCORE)
        values = dd.from_delayed(tables, meta=pd.DataFrame({"weight": [0.0]}), verify_meta=False)
        names, series = list(columns), []
        if not isinstance(qid, str):
            series = [qid]
        elif qid in map(str, X.columns):
            names.append(qid)
        return frame_columns(X, names).map_partitions(
            _scored_frame, values, *series, columns, score, meta=meta, align_dataframes=False
        )
    import dask.array as da
    from dask import delayed

    scored = delayed(_scored_chunk, pure=False)
    chunks = [
        da.from_delayed(scored(*pair, table, columns, score), (n,), dtype=np.float64)
        for pair, table, n in zip(rows, tables, X.chunks[0], strict=True)
    ]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def frame_columns(X: Any, names: Sequence[str]) -> Any:
    """Columns of a pandas or dask DataFrame, found by the text of their names."""
    by_name = {str(name): name for name in X.columns}
    return X[[by_name[name] for name in names]]


def _scored(rows: Any, score: ScoreRows) -> NDArray[np.float64]:
    return score(rows) if rows.shape[0] else np.empty(0)


def _scored_series(rows: Any, score: ScoreRows) -> Any:
    import pandas as pd

    return pd.Series(_scored(rows, score), index=rows.index, name=SCORE)


def _scored_frame(rows: Any, table: Any, *given: Any) -> Any:
    """The scores of a partition; query ids are a series, a column, or the index."""
    import pandas as pd

    *series, columns, score = given
    others = [name for name in rows.columns if str(name) not in columns]
    ids = series[0] if series else rows[others[0]] if others else rows.index
    scores = score(frame_columns(rows, columns), ids, table) if len(rows) else np.empty(0)
    return pd.Series(scores, index=rows.index, name=SCORE)


def _scored_chunk(
    rows: Any, ids: Any, table: Any, columns: Any, score: ScoreRowsOfQueries
) -> NDArray[np.float64]:
    return score(rows[:, columns], ids, table) if rows.shape[0] else np.empty(0)
