"""What the linear rankers share: scikit-learn's conventions, prediction, and the way to a model."""

from __future__ import annotations

import platform
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import dranking
from dranking.data.dataset import Dataset
from dranking.data.transforms import QueryMinMax, Standard
from dranking.engine.collections import as_dataset
from dranking.errors import UsageError
from dranking.rankers.linear import LinearModel, linear_scores


class LinearRanker(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators that end in one weight per feature.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        One weight for each column of the training data.
    n_features_in_ : int
        Columns of the training data.
    feature_names_ : tuple of str
        Their names.
    """

    coef_: NDArray[np.float64]
    n_features_in_: int
    feature_names_: tuple[str, ...]

    def predict(self, X: Any, *, executor: Any = None) -> NDArray[np.float64]:
        """Scores of documents, (n_documents,) float64; higher ranks first.

        Parameters
        ----------
        X
            A data set (columns by name), or an array of the training data's columns in order.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Raises
        ------
        DataError
            If the data does not fit the model.
        """
        self._check_fitted()
        if isinstance(X, Dataset):
            return self.to_model().predict(X, executor=executor)
        features = as_dataset(X, None, qid=np.zeros(np.shape(X)[0], dtype=np.int64))
        if features.n_features != self.n_features_in_:
            raise UsageError(
                f"X has {features.n_features} columns; {type(self).__name__} was fitted on "
                f"{self.n_features_in_}."
            )
        return np.concatenate(
            [
                linear_scores(features.block(b).features, self.coef_)
                for b in range(features.n_blocks)
            ]
        )

    def to_model(self) -> LinearModel:
        """The fitted ranker as a `LinearModel`: the features with a weight, by name."""
        self._check_fitted()
        used = np.flatnonzero(self.coef_)
        return LinearModel(
            feature_names=tuple(self.feature_names_[i] for i in used),
            weights=tuple(self.coef_[used].tolist()),
            transforms=tuple(t.restricted(used) for t in self._transforms),
            provenance={
                "ranker": type(self).__name__,
                "parameters": self.get_params(),
                **self._fit_facts(),
                "data": self._data_facts,
                "versions": {
                    "dranking": dranking.__version__,
                    "numpy": np.__version__,
                    "python": platform.python_version(),
                },
            },
        )

    def _fit_facts(self) -> dict[str, Any]:
        """What the fit found beside the weights, for the model's provenance."""
        return {}

    def _set_weights(self, dataset: Dataset, coef: NDArray[np.float64]) -> Self:
        self.coef_ = coef
        self.n_features_in_ = dataset.n_features
        self.feature_names_ = dataset.feature_names
        self._transforms: tuple[QueryMinMax | Standard, ...] = dataset.transforms
        self._data_facts = {
            "fingerprint": dataset.fingerprint,
            "n_documents": dataset.n_documents,
            "n_queries": dataset.n_queries,
            "n_features": dataset.n_features,
        }
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")


def check_positive(name: str, value: float) -> None:
    """Raise UsageError unless `value` is a finite number above 0."""
    if not (np.isfinite(value) and value > 0):
        raise UsageError(f"{name} is {value}; it must be a finite number above 0.")
