"""Columns that lie far from zero compared with their differences within queries.

Scores matter up to a constant of each query where a loss depends on differences of scores, or where
rows are centred within their query. A column that lies far from zero, as a time stamp or a number
of the query does, would spend the digits of scores and of sums over documents on that constant.
Such a column is *far*. It counts from its median in each query, where most documents are, whatever
documents lie apart or have no value. Queries are never divided, so their medians do not depend on
blocks.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dranking.kernels.machine.compile import frozen, kernel, part
from dranking.rankrls.kernels.gram.dense import in_c_order
from dranking.rankrls.kernels.gram.sparse import Csr, csr_of

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FAR = 16.0
"""A document lies near a point if its |x| is at least so many times its distance from the point.
Where scores count from zero, the distance has then lost four binary digits or more."""

VERY_FAR = 1024.0
"""`FAR` where each query has one vote: ten binary digits would be lost. For fewer, a shift would
change the last bits of results for little."""


class Far(NamedTuple):
    """The far columns of a block, and the points from which they count.

    Attributes
    ----------
    columns
        (n_far,) the far columns, in ascending order.
    moving
        (n_moving,) the far columns that are not constant within every query.
    medians
        (n_queries, n_moving) float32 medians of these in each query; a `csr_array` if X is one.
    """

    columns: Ints
    moving: Ints
    medians: Any


NOTHING_FAR = Far(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.float32))
"""Of a block without far columns."""


def far_columns(features: Any, query_ptr: Ints) -> Far:
    """The far columns of a block of queries, from one read of X.

    Distances are those from the median of the first, the middle and the last document of the query,
    which a single document that lies apart does not move. A column is far if the sum of |x| is more
    than `FAR` times the sum of the distances; or if more documents lie near that point, though not
    on it, than lie apart from it; or if, with `VERY_FAR` in place of `FAR`, the
    queries in which more documents lie near than apart outnumber those in which fewer do. By
    documents alone, one query of thousands would outvote all others.

    A column is far in all queries of a block, or in none. If it is far in at most half of the
    queries in which it varies, and for a minority of the documents, it counts from zero, and scores
    of these lose the digits of its offset: up to 24 binary ones, the digits of float32.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, C- or F-ordered, or a `csr_array`.
    query_ptr
        (n_queries + 1,) row offsets.
    """
    sizes = np.zeros((6, features.shape[1]))
    dense = isinstance(features, np.ndarray)
    if dense:
        weights = np.ones(len(query_ptr) - 1)
        for documents, queries, _, _ in in_c_order(features, query_ptr, weights):
            add_sizes(documents, queries.ptr, sizes)
    else:
        points = csr_of(_medians_of_three(features, query_ptr))
        add_sizes_of_entries(csr_of(features), frozen(query_ptr), points, sizes)
    total, distance, n_near, n_apart, queries_near, queries_apart = sizes
    is_far = (total > FAR * distance) | (n_near > n_apart) | (queries_near > queries_apart)
    moving = np.flatnonzero(is_far & (distance > 0.0))
    medians_of = _medians if dense else _medians_of_entries
    return Far(np.flatnonzero(is_far), moving, medians_of(features[:, moving], query_ptr))


def _medians(columns: NDArray[np.float32], query_ptr: Ints) -> NDArray[np.float32]:
    """(n_queries, n_columns) median of each column in each query, the lower one of two."""
    medians = np.empty((len(query_ptr) - 1, columns.shape[1]), dtype=np.float32)
    if not columns.shape[1]:
        return medians
    for q in range(len(medians)):
        own = columns[query_ptr[q] : query_ptr[q + 1]]
        middle = (len(own) - 1) // 2
        medians[q] = np.partition(own, middle, axis=0)[middle]
    return medians


def _medians_of_entries(columns: Any, query_ptr: Ints) -> Any:
    """`_medians` of a `csr_array`, as a `csr_array`."""
    shape = (len(query_ptr) - 1, columns.shape[1])
    kept = columns.data != 0.0
    if not kept.any():
        return sparse.csr_array(shape, dtype=np.float32)
    query = np.repeat(np.arange(shape[0]), np.diff(columns.indptr[query_ptr]))[kept]
    column, values = columns.indices[kept], columns.data[kept]
    order = np.lexsort((values, column, query))
    query, column, values = query[order], column[order], values[order]
    begins = (query[1:] != query[:-1]) | (column[1:] != column[:-1])
    starts = np.flatnonzero(np.concatenate(([True], begins)))
    # Zeros, which have no entry, lie between the negative and the positive entries.
    n_documents = np.diff(query_ptr)[query[starts]]
    n_zeros = n_documents - np.diff(np.append(starts, len(values)))
    n_below = np.add.reduceat((values < 0.0).astype(np.int64), starts)
    middle = (n_documents - 1) // 2
    is_above = middle >= n_below + n_zeros
    places = starts + middle - np.where(is_above, n_zeros, 0)
    there = is_above | (middle < n_below)
    own = starts[there]
    return sparse.csr_array((values[places[there]], (query[own], column[own])), shape=shape)


def _medians_of_three(features: Any, query_ptr: Ints) -> Any:
    """(n_queries, n_features) median of the first, the middle and the last document, in CSR."""
    starts, ends = query_ptr[:-1], query_ptr[1:]
    first, middle, last = (features[rows] for rows in (starts, (starts + ends) // 2, ends - 1))
    return sparse.csr_array(
        first.minimum(middle).maximum(first.maximum(middle).minimum(last)), dtype=np.float32
    )


@kernel
def add_sizes(documents: NDArray[np.float32], query_ptr: Ints, sizes: Array) -> None:
    """Add to `sizes` (6, n_features) what makes columns far.

    For each column: the sum of |x|, the sum of distances from the median of the first, the middle
    and the last document, the number of documents that lie near that point but not on it, and the
    number of documents that lie apart from it; then the number of queries in which, by `VERY_FAR`,
    more documents lie near than apart, and the number of queries in which fewer do.
    """
    n = documents.shape[1]
    point, near, apart = np.empty(n), np.empty(n), np.empty(n)
    for q in range(len(query_ptr) - 1):
        start, end = query_ptr[q], query_ptr[q + 1]
        first, middle, last = documents[start], documents[(start + end) // 2], documents[end - 1]
        for i in range(n):
            least, most, other = first[i], middle[i], last[i]
            if least > most:
                least, most = most, least
            point[i] = least if other < least else most if other > most else other
            near[i] = apart[i] = 0.0
        for d in range(start, end):
            for i in range(n):
                value = documents[d, i]
                count_document(i, abs(value), abs(value - point[i]), near, apart, sizes)
        for i in range(n):
            count_query(i, near, apart, sizes)


@kernel
def add_sizes_of_entries(x: Csr, query_ptr: Ints, points: Csr, sizes: Array) -> None:
    """`add_sizes` of documents in CSR form, with the points as (n_queries, n_features) in CSR."""
    n = sizes.shape[1]
    point, n_missing = np.zeros(n), np.zeros(n, dtype=np.int64)
    near, apart = np.zeros(n), np.zeros(n)
    for q in range(len(query_ptr) - 1):
        first, last = x.indptr[query_ptr[q]], x.indptr[query_ptr[q + 1]]
        for p in range(points.indptr[q], points.indptr[q + 1]):
            point[points.indices[p]] = points.data[p]
            n_missing[points.indices[p]] = query_ptr[q + 1] - query_ptr[q]
        for p in range(first, last):
            i = x.indices[p]
            value = x.data[p]
            count_document(i, abs(value), abs(value - point[i]), near, apart, sizes)
            n_missing[i] -= 1
        for p in range(points.indptr[q], points.indptr[q + 1]):
            i = points.indices[p]
            if point[i] != 0.0:
                sizes[1, i] += n_missing[i] * abs(point[i])
                sizes[3, i] += n_missing[i]
                apart[i] += n_missing[i]
            point[i] = 0.0
            count_query(i, near, apart, sizes)
        for p in range(first, last):
            count_query(x.indices[p], near, apart, sizes)


@part
def count_document(
    i: int, size: float, distance: float, near: Array, apart: Array, sizes: Array
) -> None:
    """Add a document, by its |x| and its distance in column i, to `sizes` and to its query."""
    sizes[0, i] += size
    sizes[1, i] += distance
    sizes[2, i] += 1.0 if 0.0 < FAR * distance <= size else 0.0
    sizes[3, i] += 1.0 if FAR * distance > size else 0.0
    near[i] += 1.0 if 0.0 < VERY_FAR * distance <= size else 0.0
    apart[i] += 1.0 if VERY_FAR * distance > size else 0.0


@part
def count_query(i: int, near: Array, apart: Array, sizes: Array) -> None:
    """Add the vote of a query on column i to `sizes`, and set the counts of the column to 0."""
    sizes[4, i] += 1.0 if near[i] > apart[i] else 0.0
    sizes[5, i] += 1.0 if near[i] < apart[i] else 0.0
    near[i] = apart[i] = 0.0
