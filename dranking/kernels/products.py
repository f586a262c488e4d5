"""X w and X' g in float64, for float32 features in either layout or CSR; sums in a fixed order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.gram.dense import Dense
from dranking.kernels.machine.compile import frozen, kernel

Array = NDArray[np.float64]


def times(features: Any, weights: Array) -> Array:
    """X w.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, C- or F-ordered, or a `csr_array`.
    weights
        (n_features,) float64.
    """
    if not isinstance(features, np.ndarray):
        product: Array = features @ weights
        return product
    out = np.zeros(features.shape[0])
    dense_times(as_dense(features), weights, out)
    return out


def transposed_times(features: Any, weights: Array) -> Array:
    """X' g for `weights` (n_documents,) float64; (n_features,) float64."""
    if not isinstance(features, np.ndarray):
        product: Array = features.T @ weights
        return product
    dense = as_dense(features)
    # The transpose of what is stored one way is what is stored the other way.
    out = np.zeros(features.shape[1])
    dense_times(Dense(dense.values, not dense.by_feature), weights, out)
    return out


def as_dense(features: NDArray[np.float32]) -> Dense:
    """Features as kernels take them; what is in neither order is copied."""
    by_feature = features.flags.f_contiguous and not features.flags.c_contiguous
    return Dense(frozen(np.ascontiguousarray(features.T if by_feature else features)), by_feature)


@kernel
def dense_times(features: Dense, weights: Array, out: Array) -> None:
    """Add X w to `out`; the stored rows go four at a time."""
    values = features.values
    if features.by_feature:
        n = len(values)
        whole = n - n % 4
        for i in range(0, whole, 4):
            a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
            for j in range(len(out)):
                out[j] = (((out[j] + a * x0[j]) + b * x1[j]) + c * x2[j]) + d * x3[j]
        for i in range(whole, n):
            for j in range(len(out)):
                out[j] += weights[i] * values[i, j]
        return
    n = values.shape[1]
    whole = n - n % 4
    for j in range(len(out)):
        row = values[j]
        t0 = t1 = t2 = t3 = 0.0  # four sums side by side: one alone waits for every addition
        for i in range(0, whole, 4):
            t0 += weights[i] * row[i]
            t1 += weights[i + 1] * row[i + 1]
            t2 += weights[i + 2] * row[i + 2]
            t3 += weights[i + 3] * row[i + 3]
        for i in range(whole, n):
            t0 += weights[i] * row[i]
        out[j] += (t0 + t1) + (t2 + t3)
