"""Feature minima, which replace missing values under ``null="minimum"``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import FeatureMatrix


class FeatureMinima:
    """Smallest value of each feature over all documents; NaN stands for a missing value.

    A feature that a document does not name counts as 0, as everywhere in LETOR text.
    """

    def __init__(self) -> None:
        self._least = np.empty(0, dtype=np.float32)  # NaN for a feature without a value so far
        self._n_rows = 0

    def update(self, features: FeatureMatrix) -> None:
        """Add (n_documents, n_features) float32, dense or CSR; n_features must not decrease."""
        n_rows, n_features = features.shape
        # Earlier rows did not name a new feature, so the feature was 0 in all of these rows.
        unseen = np.full(
            n_features - len(self._least), 0 if self._n_rows else np.nan, dtype=np.float32
        )
        least = np.concatenate((self._least, unseen))
        if isinstance(features, np.ndarray):
            least = np.fmin(least, np.fmin.reduce(features, axis=0))
        else:
            np.fmin.at(least, features.indices, features.data)
            stored = np.bincount(features.indices, minlength=n_features)
            least[stored < n_rows] = np.fmin(least[stored < n_rows], np.float32(0))
        self._least = least
        self._n_rows += n_rows

    def values(self, n_features: int) -> NDArray[np.float32]:
        """(n_features,) float32 minima; 0 for a feature without any value."""
        padded = np.zeros(n_features, dtype=np.float32)
        padded[: len(self._least)] = np.nan_to_num(self._least, nan=0.0)
        return padded


def fill_missing(features: FeatureMatrix, minima: NDArray[np.float32]) -> FeatureMatrix:
    """Replace missing values by the minima of their features.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, dense or CSR, NaN where missing; not changed.
    minima
        (n_features,) float32.

    Returns
    -------
    A copy with the minima instead of NaN; `features` itself if there is no NaN.
    """
    values = features if isinstance(features, np.ndarray) else features.data
    missing = np.isnan(values)
    if not missing.any():
        return features
    if isinstance(features, np.ndarray):
        return np.where(missing, minima, features)
    filled = features.copy()
    filled.data[missing] = minima[features.indices[missing]]
    filled.eliminate_zeros()
    return filled
