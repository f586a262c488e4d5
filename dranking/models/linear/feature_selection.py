"""Selected columns, in scikit-learn's way: a ranker that selects features is also a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import check_array

from dranking.data.block_source import check_features_there
from dranking.data.column_forms import forms_of
from dranking.data.dataset import Dataset
from dranking.data.tables.any_table import as_table, is_dask, is_dask_frame, is_table
from dranking.errors import DataError, UsageError
from dranking.ingestion.collections.scores import frame_columns
from dranking.models.linear.estimator import LinearRanker


class SelectingRanker(TransformerMixin, LinearRanker):  # type: ignore[misc]
    """Base class of the rankers that select features, as scikit-learn's selectors do.

    Attributes
    ----------
    selected_ : list of int
        0-based feature indices in selection order.
    """

    selected_: list[int]

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """The selected features, in the order of the training data's columns.

        Parameters
        ----------
        indices
            Whether to return positions instead of a mask.

        Returns
        -------
        (n_features_in_,) bool, or (n_selected,) positions in ascending order.
        """
        self._check_fitted()
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.selected_] = True
        return np.flatnonzero(mask) if indices else mask

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the selected features, in the order of the training data's columns.

        Parameters
        ----------
        input_features
            Names of all features; None means the names of the training data.
        """
        self._check_fitted()
        names = self.feature_names_ if input_features is None else input_features
        if len(names) != self.n_features_in_:
            raise UsageError(f"{len(names)} names are given for {self.n_features_in_} features.")
        selected: NDArray[Any] = np.array(names, dtype=object)[self.get_support()]
        return selected

    def transform(self, X: Any) -> Any:
        """The selected columns, in the order of the training data's columns.

        Parameters
        ----------
        X
            An array, `scipy.sparse` matrix or dask array of all columns of the training data; or a
            table or dask DataFrame, whose columns are found by name and may include others.

        Returns
        -------
        The columns in the form of `X`; lazy, with the partitions of `X`, for Dask collections; a
        pyarrow table for tables that are no DataFrames.

        Raises
        ------
        DataError
            If columns are missing.
        ValueError
            If an array in memory has NaN or infinite values, as in scikit-learn's selectors.
        UsageError
            If `X` is a data set, or forms of features were selected.
        """
        columns = self.get_support(indices=True)
        if isinstance(X, Dataset):
            raise UsageError("transform takes arrays and tables; a data set reads by columns.")
        if forms_of(self._transforms) is not None:
            raise UsageError("forms of features were selected; transform returns columns as given.")
        if is_table(X) or is_dask_frame(X):
            return _named_columns(X, [self.feature_names_[i] for i in columns])
        X = X if is_dask(X) else check_array(X, accept_sparse="csr", dtype=None, estimator=self)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {X.shape[-1] if X.ndim else 0} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
            )
        return X[:, columns]


def _named_columns(X: Any, names: Sequence[str]) -> Any:
    """Columns of a table, or of a pandas or dask DataFrame, by name."""
    if not hasattr(X, "iloc"):
        table = as_table(X)
        check_features_there(names, table.column_names)
        return table.select(names)
    check_features_there(names, set(map(str, X.columns)))
    return frame_columns(X, names)
