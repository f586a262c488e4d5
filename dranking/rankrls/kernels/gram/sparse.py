"""Per-query moments and Gram rows of query-centred CSR features; the work follows the nonzeros.

A product of two features is the sum over the entries of one feature, which is *shifted*, times the
other feature, which is centred. A feature with an entry in every document of a query is shifted by
its mean: far from zero, as years or prices are, its products would otherwise lose the digits by
which its mean exceeds its spread. A feature that is zero in some of l documents is not shifted. Its
norm is at most (1 + l)^(1/2) times its centred norm, so that nothing is lost.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel
from dranking.rankrls.kernels.gram.dense import GramRowsOut, Moments, Queries

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
    mean, shift, squares, counts
        Mean over the documents of the query; what is subtracted from entries, which is the mean or
        0; centred sum of squares; and number of entries of each feature. 0 for features that do
        not occur.
    features
        The features that occur, in the order of their first entries.
    """

    mean: Array
    shift: Array
    squares: Array
    counts: NDArray[np.int64]
    features: NDArray[np.int64]


@kernel
def nothing_present(n_features: int) -> Present:
    """The arrays of a query without entries."""
    mean, shift, squares = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
    counts, features = np.zeros(n_features, np.int64), np.zeros(n_features, np.int64)
    return Present(mean, shift, squares, counts, features)


@kernel
def shift_of(mean: float, n_entries: int, size: int) -> float:
    """The number to subtract from the entries of a feature in a query of `size` documents."""
    return mean if n_entries == size else 0.0


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
        present.shift[i] = shift_of(mean[i], counts[i], size)
    return n_present


@kernel
def forget_present(present: Present, n_present: int) -> None:
    """Set the arrays of `present` back to zero."""
    for p in range(n_present):
        i = present.features[p]
        present.mean[i] = 0.0
        present.shift[i] = 0.0
        present.squares[i] = 0.0
        present.counts[i] = 0


@kernel
def sparse_moments(x: Csr, relevance: Array, queries: Queries, out: Moments) -> None:
    """Overwrite `out` with the moments of every query; `relevance` (n_documents,) without NaN."""
    present = nothing_present(out.diagonal.shape[1])
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
                i = x.indices[p]
                product[i] += label * (x.data[p] - present.shift[i])
        for p in range(n_present):
            i = present.features[p]
            # `rest` is the sum of the centred labels, which would be zero without rounding.
            # Subtracting `rest` times the rest of the mean centres the feature too.
            left = rest * (present.mean[i] - present.shift[i])
            product[i] = weight * (product[i] - left) if present.squares[i] > 0.0 else 0.0
            out.diagonal[q, i] = weight * present.squares[i]
        out.label_norms[q] = weight * max(norm - rest * rest / (end - start), 0.0)
        forget_present(present, n_present)


@kernel
def add_query_products(
    x: Csr, start: int, end: int, position: NDArray[np.int64], present: Present, out: Array
) -> Array:
    """Add `x_c' X` of documents start to end to `out` (J, n_features) for J centred columns.

    The entries of X are shifted. Returns (J,) the sums of the centred columns, which would be zero
    without rounding. The caller subtracts each sum times the rest of the mean of the other feature.

    Parameters
    ----------
    position
        (n_features,) number of the feature among the J columns, or -1.
    """
    n_rows, mean = len(out), present.mean
    shifted = np.empty(len(present.mean))
    centred, rest, zero = np.empty(n_rows), np.zeros(n_rows), np.empty(n_rows)
    for i in range(len(position)):
        if position[i] >= 0:
            zero[position[i]] = -mean[i]
    for d in range(start, end):
        centred[:] = zero
        first = x.indptr[d]
        for p in range(first, x.indptr[d + 1]):
            i = x.indices[p]
            shifted[p - first] = x.data[p] - present.shift[i]
            if position[i] >= 0:
                centred[position[i]] = x.data[p] - mean[i]
        for j in range(n_rows):
            rest[j] += centred[j]
            if centred[j] != 0.0:
                for p in range(first, x.indptr[d + 1]):
                    out[j, x.indices[p]] += centred[j] * shifted[p - first]
    return rest


@kernel
def sparse_gram_rows(x: Csr, queries: Queries, wanted: NDArray[np.int64], out: GramRowsOut) -> None:
    """Compute the Gram rows of the wanted features (J,) for every query of a block."""
    n = out.totals.shape[1]
    present = nothing_present(n)
    position = np.full(n, -1, dtype=np.int64)
    for j in range(len(wanted)):
        position[wanted[j]] = j
    products = np.zeros((len(wanted), n))
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        n_present = find_present(x, x.indptr[start], x.indptr[end], end - start, present)
        rest = add_query_products(x, start, end, position, present, products)
        for j in range(len(wanted)):
            row, total = out.rows[out.slots[j], q], out.totals[j]
            row[:] = 0.0
            for p in range(n_present):
                i = present.features[p]
                if present.squares[i] > 0.0:
                    left = rest[j] * (present.mean[i] - present.shift[i])
                    row[i] = weight * (products[j, i] - left)
                    total[i] += row[i]
                products[j, i] = 0.0
        forget_present(present, n_present)


def gram_rows(
    features: Any,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
    wanted: NDArray[np.int64],
    slots: NDArray[np.int64],
    rows: Array,
) -> Array:
    """Like `dranking.rankrls.kernels.gram.dense.gram_rows`, for a `csr_array`, without means."""
    out = GramRowsOut(frozen(slots), rows, np.zeros((len(wanted), features.shape[1])))
    queries = Queries(frozen(query_ptr), frozen(query_weights))
    sparse_gram_rows(csr_of(features), queries, frozen(wanted), out)
    return out.totals
