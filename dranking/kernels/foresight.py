"""A forward selection by what all queries together say, which foretells that of the criterion.

With many queries, leaving one out changes little: the candidate with the smallest leave-query-out
error is mostly the one with the smallest error of the fit to all, and that follows from A and b
alone. S is the ordered list of features eliminated so far, f the next one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.compile import kernel

Array = NDArray[np.float64]


class Totals(NamedTuple):
    """A + lambda I and b after eliminating S.

    Attributes
    ----------
    basis
        (size, n_features): row j is that of A + lambda I at the j-th feature of S after
        eliminating those before it, over the root of its pivot.
    left
        (n_features,) diagonal of A + lambda I, at least lambda.
    products
        (n_features,) b.
    """

    basis: Array
    left: Array
    products: Array


@kernel
def eliminate_total(totals: Totals, t: int, f: int, row: Array, regularization: float) -> None:
    """Eliminate f as well, t features being eliminated before; `row` (n_features,) is A[f, :]."""
    basis, left, products = totals.basis, totals.left, totals.products
    new = basis[t]
    new[:] = row
    new[f] += regularization
    for j in range(t):
        factor, before = basis[j, f], basis[j]
        for i in range(len(new)):
            new[i] -= factor * before[i]
    scale = 1.0 / np.sqrt(max(new[f], regularization))
    product = products[f] * scale
    for i in range(len(new)):
        new[i] *= scale
        left[i] = max(left[i] - new[i] * new[i], regularization)
        products[i] -= new[i] * product


@kernel
def add_sampled_row(sample: NDArray[np.float32], f: int, row: NDArray[np.float32]) -> None:
    """Add the products of feature f of a sample with all features to `row` (n_features,).

    `sample` is (n_documents, n_features), centred within queries.
    """
    for d in range(len(sample)):
        value, document = sample[d, f], sample[d]
        for i in range(len(row)):
            row[i] += value * document[i]
