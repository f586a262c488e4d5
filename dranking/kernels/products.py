"""X w and X' g in float64, for float32 features in either order or CSR; sums in a fixed order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    Returns
    -------
    (n_documents,) float64.
    """
    return _product(features, weights, transposed=False)


def transposed_times(features: Any, weights: Array) -> Array:
    """X' g for `weights` (n_documents,) float64; (n_features,) float64."""
    return _product(features, weights, transposed=True)


def _product(features: Any, weights: Array, *, transposed: bool) -> Array:
    if not isinstance(features, np.ndarray):
        product: Array = (features.T if transposed else features) @ weights
        return product
    by_feature = features.flags.f_contiguous and not features.flags.c_contiguous
    rows = frozen(np.ascontiguousarray(features.T if by_feature else features))
    out = np.zeros(features.shape[1 if transposed else 0])
    if by_feature == transposed:
        add_row_products(rows, weights, out)
    else:
        add_scaled_rows(rows, weights, out)
    return out


@kernel
def add_scaled_rows(rows: NDArray[np.float32], weights: Array, out: Array) -> None:
    """Add `sum_i weights[i] rows[i]` to `out`, four rows at a time."""
    n = len(rows)
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        x0, x1, x2, x3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for j in range(len(out)):
            out[j] = (((out[j] + a * x0[j]) + b * x1[j]) + c * x2[j]) + d * x3[j]
    for i in range(whole, n):
        for j in range(len(out)):
            out[j] += weights[i] * rows[i, j]


@kernel
def add_row_products(rows: NDArray[np.float32], weights: Array, out: Array) -> None:
    """Add the product of every row with the weights to `out`."""
    n = rows.shape[1]
    whole = n - n % 4
    for j in range(len(out)):
        row = rows[j]
        t0 = t1 = t2 = t3 = 0.0  # four sums: each addition to one sum waits for the last
        for i in range(0, whole, 4):
            t0 += weights[i] * row[i]
            t1 += weights[i + 1] * row[i + 1]
            t2 += weights[i + 2] * row[i + 2]
            t3 += weights[i + 3] * row[i + 3]
        for i in range(whole, n):
            t0 += weights[i] * row[i]
        out[j] += (t0 + t1) + (t2 + t3)
