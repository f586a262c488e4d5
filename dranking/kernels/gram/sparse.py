"""Per-query moments and Gram rows of query-centred CSR features; the work follows the nonzeros."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.gram.dense import GramRowsOut, Moments, Queries
from dranking.kernels.machine.compile import frozen, kernel

Array = NDArray[np.float64]


class Csr(NamedTuple):
    """Row offsets, column indices (sorted in a row) and values of a CSR matrix."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]


def csr_of(features: Any) -> Csr:
    """The arrays of a `csr_array`, each in the only dtype for which kernels are compiled."""
    return Csr(
        frozen(features.indptr.astype(np.int64, copy=False)),
        frozen(features.indices.astype(np.int32, copy=False)),
        frozen(features.data),
    )


class Present(NamedTuple):
    """The features that occur in one query; all arrays are (n_features,).

    Attributes
    ----------
    mean, squares, counts
        Mean over the documents of the query, centred sum of squares, and number of entries of each
        feature; 0 for features that do not occur.
    features
        The features that occur, in the order of their first entries.
    """

    mean: Array
    squares: Array
    counts: NDArray[np.int64]
    features: NDArray[np.int64]


@kernel
def find_present(x: Csr, first: int, last: int, size: int, present: Present) -> int:
    """Fill `present` from entries first to last: all entries of a query of `size` documents.

    `squares` becomes the sum of squares of the centred feature, which is exactly zero for a
    constant feature. Returns the number of features that occur.
    """
    mean, squares, counts = present.mean, present.squares, present.counts
    n_present = 0
    for p in range(first, last):
        i = x.indices[p]
        if counts[i] == 0:
            present.features[n_present] = i
            n_present += 1
        counts[i] += 1
        mean[i] += x.data[p]
    for p in range(n_present):
        mean[present.features[p]] /= size
    for p in range(first, last):
        i = x.indices[p]
        difference = x.data[p] - mean[i]
        squares[i] += difference * difference
    for p in range(n_present):
        i = present.features[p]
        squares[i] += (size - counts[i]) * mean[i] * mean[i]
    return n_present


@kernel
def forget_present(present: Present, n_present: int) -> None:
    """Set the arrays of `present` back to zero."""
    for p in range(n_present):
        i = present.features[p]
        present.mean[i] = 0.0
        present.squares[i] = 0.0
        present.counts[i] = 0


@kernel
def sparse_moments(x: Csr, relevance: Array, queries: Queries, out: Moments) -> None:
    """Overwrite `out` with the moments of every query; `relevance` (n_documents,) without NaN."""
    n = out.diagonal.shape[1]
    counters = np.zeros((2, n), dtype=np.int64)
    present = Present(np.zeros(n), np.zeros(n), counters[0], counters[1])
    out.diagonal[:] = 0.0
    out.products[:] = 0.0
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        n_present = find_present(x, x.indptr[start], x.indptr[end], end - start, present)
        centre = 0.0
        for d in range(start, end):
            centre += relevance[d]
        centre /= end - start
        product, norm, rest = out.products[q], 0.0, 0.0
        for d in range(start, end):
            label = relevance[d] - centre
            norm += label * label
            rest += label
            for p in range(x.indptr[d], x.indptr[d + 1]):
                product[x.indices[p]] += label * x.data[p]
        for p in range(n_present):
            i = present.features[p]
            # `rest` is the sum of the centred labels, which would be zero without rounding.
            # Subtracting `rest` times the mean of the feature centres the feature too.
            value = product[i] - rest * present.mean[i] if present.squares[i] > 0.0 else 0.0
            product[i] = weight * value
            out.diagonal[q, i] = weight * present.squares[i]
        out.label_norms[q] = weight * norm
        forget_present(present, n_present)


@kernel
def add_query_products(
    x: Csr, start: int, end: int, position: NDArray[np.int64], mean: Array, out: Array
) -> Array:
    """Add `x_c' X` of documents start to end to `out` (J, n_features) for J centred columns.

    Only one factor of a product can be centred without filling in zeros. Returns (J,) the sums of
    the centred columns, which would be zero without rounding. The caller subtracts each sum times
    the mean of the other feature.

    Parameters
    ----------
    position
        (n_features,) number of the feature among the J columns, or -1.
    """
    n_rows = len(out)
    centred, rest, zero = np.empty(n_rows), np.zeros(n_rows), np.empty(n_rows)
    for i in range(len(position)):
        if position[i] >= 0:
            zero[position[i]] = -mean[i]
    for d in range(start, end):
        centred[:] = zero
        for p in range(x.indptr[d], x.indptr[d + 1]):
            i = x.indices[p]
            if position[i] >= 0:
                centred[position[i]] = x.data[p] - mean[i]
        for j in range(n_rows):
            rest[j] += centred[j]
            if centred[j] != 0.0:
                for p in range(x.indptr[d], x.indptr[d + 1]):
                    out[j, x.indices[p]] += centred[j] * x.data[p]
    return rest


@kernel
def sparse_gram_rows(x: Csr, queries: Queries, wanted: NDArray[np.int64], out: GramRowsOut) -> None:
    """Compute the Gram rows of the wanted features (J,) for every query of a block."""
    n = out.totals.shape[1]
    counters = np.zeros((2, n), dtype=np.int64)
    present = Present(np.zeros(n), np.zeros(n), counters[0], counters[1])
    position = np.full(n, -1, dtype=np.int64)
    for j in range(len(wanted)):
        position[wanted[j]] = j
    products = np.zeros((len(wanted), n))
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        n_present = find_present(x, x.indptr[start], x.indptr[end], end - start, present)
        rest = add_query_products(x, start, end, position, present.mean, products)
        for j in range(len(wanted)):
            row, total = out.rows[out.slots[j], q], out.totals[j]
            row[:] = 0.0
            for p in range(n_present):
                i = present.features[p]
                if present.squares[i] > 0.0:
                    row[i] = weight * (products[j, i] - rest[j] * present.mean[i])
                    total[i] += row[i]
                products[j, i] = 0.0
        forget_present(present, n_present)
