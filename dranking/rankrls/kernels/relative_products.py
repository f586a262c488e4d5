"""Products of features in float64 whose far columns count from their medians in each query.

All other columns are read as they are, with the bits that they have where no column is far. Shifted
columns are made for one product, some thousand documents or one block of sparse documents at a
time. Where the median of a query is not 0, at least half of its documents have an entry: sparse
features have at most twice as many shifted entries as entries in far columns.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.kernels.machine.compile import frozen, kernel
from dranking.kernels.products import times, transposed_times
from dranking.rankrls.kernels.far_columns import Far
from dranking.rankrls.kernels.gram.dense import strips_of_queries
from dranking.rankrls.kernels.gram.sparse import Csr, csr_of

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Shifted(NamedTuple):
    """Row offsets, column indices and values in float64 of the columns that move."""

    indptr: Ints
    indices: NDArray[np.int32]
    data: Array


def relative_times(features: Any, query_ptr: Ints, far: Far, weights: Array) -> Array:
    """X w, up to a constant of each query.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, C- or F-ordered, or a `csr_array`.
    query_ptr
        (n_queries + 1,) row offsets.
    far
        The far columns, by `dranking.rankrls.kernels.far_columns.far_columns`.
    weights
        (n_features,) float64.

    Returns
    -------
    (n_documents,) float64.
    """
    if not len(far.columns):
        return times(features, weights)
    others = weights.copy()
    others[far.columns] = 0.0
    scores = times(features, others)
    for rows, columns in _shifted_columns(features, query_ptr, far):
        scores[rows] += times(columns, weights[far.moving])
    return scores


def relative_features(features: Any, query_ptr: Ints, far: Far) -> Any:
    """The features themselves if no column is far; else in float64, with far columns shifted.

    (n_documents, n_features), C-ordered if they are shifted, or a `csr_array` if X is one. Use it
    for few documents, or for many products with the same documents.
    """
    if not len(far.columns):
        return features
    if not isinstance(features, np.ndarray):
        return _with_shifted_entries(features, query_ptr, far)
    rows = features.astype(np.float64, order="C")
    rows[:, far.columns] = 0.0
    for own, columns in _shifted_columns(features, query_ptr, far):
        rows[own, far.moving] = columns
    return rows


def relative_transposed_times(features: Any, query_ptr: Ints, far: Far, slopes: Array) -> Array:
    """X' g for slopes g (n_documents,) whose sum is 0 in each query; (n_features,) float64."""
    products = transposed_times(features, slopes)
    products[far.columns] = 0.0
    for rows, columns in _shifted_columns(features, query_ptr, far):
        products[far.moving] += transposed_times(columns, slopes[rows])
    return products


def largest_distances(features: Any, query_ptr: Ints, far: Far) -> Array:
    """(n_features,) largest |x|, and for far columns the largest distance from the medians."""
    largest = largest_sizes(features)
    largest[far.columns] = 0.0
    for _, columns in _shifted_columns(features, query_ptr, far):
        largest[far.moving] = np.maximum(largest[far.moving], largest_sizes(columns))
    return largest


def largest_sizes(columns: Any) -> Array:
    """(n_columns,) largest |x| of each column; 0 without documents."""
    if not columns.shape[0]:
        return np.zeros(columns.shape[1])
    largest = abs(columns).max(axis=0)
    values = largest if isinstance(largest, np.ndarray) else largest.toarray()
    return np.array(values, dtype=np.float64).ravel()


def shifted_strips(features: Any, query_ptr: Ints, far: Far) -> Iterator[tuple[slice, Any, Ints]]:
    """Queries of each strip, their rows in float64, and their sizes; far columns are shifted.

    The shift changes no row that is centred within its query.
    """
    if not isinstance(features, np.ndarray) and len(far.columns):
        features = _with_shifted_entries(features, query_ptr, far)
    for first, last in strips_of_queries(query_ptr):
        own, ptr = slice(first, last), query_ptr[first : last + 1]
        rows, sizes = features[ptr[0] : ptr[-1]].astype(np.float64), np.diff(ptr)
        if isinstance(rows, np.ndarray) and len(far.columns):
            moved = rows[:, far.moving] - np.repeat(far.medians[own], sizes, axis=0)
            rows[:, far.columns] = 0.0
            rows[:, far.moving] = moved
        yield own, rows, sizes


def _with_shifted_entries(features: Any, query_ptr: Ints, far: Far) -> Any:
    """A `csr_array` in float64 whose far columns are shifted."""
    is_far = np.zeros(features.shape[1], dtype=np.bool_)
    is_far[far.columns] = True
    others = features.astype(np.float64)
    others.data[is_far[others.indices]] = 0.0
    if not len(far.moving):
        return others
    moved = _shifted_entries(features, query_ptr, far)
    where = (moved.data, far.moving[moved.indices], moved.indptr)
    return others + sparse.csr_array(where, shape=others.shape)


def _shifted_columns(features: Any, query_ptr: Ints, far: Far) -> Iterator[tuple[slice, Any]]:
    """Rows of X, and (n_rows, n_moving) float64 of the columns that move; all rows if sparse."""
    if not len(far.moving):
        return
    if not isinstance(features, np.ndarray):
        yield slice(0, features.shape[0]), _shifted_entries(features, query_ptr, far)
        return
    for first, last in strips_of_queries(query_ptr):
        rows, sizes = slice(query_ptr[first], query_ptr[last]), np.diff(query_ptr[first : last + 1])
        columns = np.take(features[rows], far.moving, axis=1).astype(np.float64)
        yield rows, columns - np.repeat(far.medians[first:last], sizes, axis=0)


def _shifted_entries(features: Any, query_ptr: Ints, far: Far) -> Any:
    """(n_documents, n_moving) the columns of a `csr_array` that move, less their medians."""
    m, n_moving = features.shape[0], len(far.moving)
    position = np.full(features.shape[1], -1, dtype=np.int64)
    position[far.moving] = np.arange(n_moving)
    x, medians = csr_of(features), csr_of(far.medians)
    most = 2 * min(len(x.data), m * n_moving)
    indptr, indices, values = np.zeros(m + 1, np.int64), np.empty(most, np.int32), np.empty(most)
    shift_entries(x, frozen(query_ptr), frozen(position), medians, Shifted(indptr, indices, values))
    n_entries = indptr[-1]
    return sparse.csr_array((values[:n_entries], indices[:n_entries], indptr), (m, n_moving))


@kernel
def shift_entries(x: Csr, query_ptr: Ints, position: Ints, medians: Csr, out: Shifted) -> None:
    """Overwrite `out` with the columns of X at a position >= 0, less their medians.

    Entries of documents that lie on the median are left out, and documents without an entry get the
    opposite of the median. `medians` is (n_queries, n_moving), and `out.indptr` begins with 0.
    """
    point, last_seen = np.zeros(len(position)), np.full(len(position), -1, dtype=np.int64)
    n_entries = 0
    for q in range(len(query_ptr) - 1):
        first, last = medians.indptr[q], medians.indptr[q + 1]
        for p in range(first, last):
            point[medians.indices[p]] = medians.data[p]
        for d in range(query_ptr[q], query_ptr[q + 1]):
            for p in range(x.indptr[d], x.indptr[d + 1]):
                k = position[x.indices[p]]
                if k < 0:
                    continue
                last_seen[k] = d
                if x.data[p] != point[k]:
                    out.indices[n_entries] = k
                    out.data[n_entries] = x.data[p] - point[k]
                    n_entries += 1
            for p in range(first, last):
                k = medians.indices[p]
                if last_seen[k] != d:
                    out.indices[n_entries] = k
                    out.data[n_entries] = -point[k]
                    n_entries += 1
            out.indptr[d + 1] = n_entries
        for p in range(first, last):
            point[medians.indices[p]] = 0.0
