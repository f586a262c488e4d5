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


def frame_columns(X: Any, names: Sequence[str]) -> Any:
    """Columns of a pandas or dask DataFrame, found by the text of their names."""
    by_name = {str(name): name for name in X.columns}
    return X[[by_name[name] for name in names]]


def _scored(rows: Any, score: ScoreRows) -> NDArray[np.float64]:
    return score(rows) if rows.shape[0] else np.empty(0)


def _scored_series(rows: Any, score: ScoreRows) -> Any:
    import pandas as pd

    return pd.Series(_scored(rows, score), index=rows.index, name=SCORE)
