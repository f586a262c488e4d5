"""Per-query moments and Gram rows of query-centred dense features.

Every sum over the documents of a query runs in document order. Features are centred within their
query, in float64, a few documents at a time: X itself is neither changed nor copied as a whole. A
feature that is constant within a query is therefore exactly zero there. All kernels take documents
as rows of a C-ordered array; F-ordered features are copied into C order, some whole queries at a
time (`in_c_order`), which changes no bit of a result.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel
from dranking.kernels.machine.instructions import fma
from dranking.kernels.sorting import smaller

Array = NDArray[np.float64]
Documents = NDArray[np.float32]

STRIP = 16
"""Number of documents that are centred at a time, a multiple of 4. With some hundred features, the
centred documents fit into the first-level cache."""

VECTOR = 16
"""Arrays of sums of products have a multiple of this number of columns, so that vectorised loops
leave no column over."""


class Queries(NamedTuple):
    """Row offsets (n_queries + 1,) of the queries, and the query weights (n_queries,)."""

    ptr: NDArray[np.int64]
    weights: Array


class Moments(NamedTuple):
    """Moments of every query, from one pass over X.

    Attributes
    ----------
    diagonal, products
        (n_queries, n_features) diagonal of A_q, and b_q, times the query weights.
    label_norms
        (n_queries,) y_q.y_q, times the query weights.
    means
        (n_queries, n_features) means of dense features; an array without rows for sparse features.
    totals
        (2, n_features) sums of the diagonal and of the products over the queries, in order.
    """

    diagonal: Array
    products: Array
    label_norms: Array
    means: Array
    totals: Array


class GramRowsOut(NamedTuple):
    """The arrays into which Gram rows of some features are written.

    Attributes
    ----------
    slots
        (J,) position in `rows` to which the row of each feature is written.
    rows
        (capacity, n_queries, n_features); the slots are overwritten.
    totals
        (J, n_features) sums to which the rows are added, query by query.
    """

    slots: NDArray[np.int64]
    rows: Array
    totals: Array


@kernel
def query_mean(documents: Documents, start: int, end: int, mean: Array) -> None:
    """Overwrite `mean` (n_features,) with the mean of the documents start to end."""
    n, whole = len(mean), end - (end - start) % 4
    for i in range(n):
        mean[i] = 0.0
    for d in range(start, whole, 4):
        x0, x1, x2, x3 = documents[d], documents[d + 1], documents[d + 2], documents[d + 3]
        for i in range(n):
            mean[i] = (((mean[i] + x0[i]) + x1[i]) + x2[i]) + x3[i]
    for d in range(whole, end):
        for i in range(n):
            mean[i] += documents[d, i]
    for i in range(n):
        mean[i] /= end - start


@kernel
def add_moments(
    documents: Documents, start: int, end: int, labels: Array, mean: Array, sums: Array
) -> None:
    """Add `z_d^2` to `sums[0]` and `labels[d - start] z_d` to `sums[1]`, where z_d = x_d - mean.

    The documents start to end are added in order, four at a time; `sums` is (2, n_features).
    """
    n, whole = len(mean), end - (end - start) % 4
    squares, products = sums[0], sums[1]
    for d in range(start, whole, 4):
        x0, x1, x2, x3 = documents[d], documents[d + 1], documents[d + 2], documents[d + 3]
        l0, l1 = labels[d - start], labels[d - start + 1]
        l2, l3 = labels[d - start + 2], labels[d - start + 3]
        for i in range(n):
            z0, z1, z2, z3 = x0[i] - mean[i], x1[i] - mean[i], x2[i] - mean[i], x3[i] - mean[i]
            squares[i] = fma(z3, z3, fma(z2, z2, fma(z1, z1, fma(z0, z0, squares[i]))))
            products[i] = fma(l3, z3, fma(l2, z2, fma(l1, z1, fma(l0, z0, products[i]))))
    for d in range(whole, end):
        label, x = labels[d - start], documents[d]
        for i in range(n):
            z = x[i] - mean[i]
            squares[i] = fma(z, z, squares[i])
            products[i] = fma(label, z, products[i])


@kernel
def dense_moments(documents: Documents, relevance: Array, queries: Queries, out: Moments) -> None:
    """Overwrite all of `out` but the totals with the moments of every query. One read of X.

    `relevance` is (n_documents,) without NaN.
    """
    n = documents.shape[1]
    labels, sums = np.empty(len(documents)), np.empty((2, n))
    for q in range(len(queries.weights)):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        centre, norm, rest = 0.0, 0.0, 0.0
        for d in range(start, end):
            centre += relevance[d]
        centre /= end - start
        for d in range(start, end):
            label = relevance[d] - centre
            labels[d - start] = label
            norm += label * label
            rest += label
        # The mean of labels far from zero is rounded by more than the labels may differ.
        out.label_norms[q] = weight * max(norm - rest * rest / (end - start), 0.0)
        mean = out.means[q]
        query_mean(documents, start, end, mean)
        sums[:] = 0.0
        add_moments(documents, start, end, labels, mean, sums)
        for i in range(n):
            out.diagonal[q, i] = sums[0, i] * weight
            out.products[q, i] = sums[1, i] * weight


@kernel
def centre_strip(documents: Documents, start: int, end: int, mean: Array, strip: Array) -> None:
    """Overwrite `strip[:end - start]` with the documents start to end minus their mean."""
    for d in range(start, end):
        for i in range(len(mean)):
            strip[d - start, i] = documents[d, i] - mean[i]


@kernel
def take_columns(strip: Array, size: int, columns: NDArray[np.int64], weights: Array) -> None:
    """Overwrite `weights` (at least J, STRIP) with J columns of a strip of `size` documents.

    The entries behind the documents become zeros.
    """
    for j in range(len(columns)):
        for d in range(STRIP):
            weights[j, d] = strip[d, columns[j]] if d < size else 0.0


@kernel
def add_products(weights: Array, strip: Array, size: int, sums: Array) -> None:
    """Add `weights[:, :size] @ strip[:size]` to `sums` (J, n_columns), documents in order.

    J is even, n_columns is a multiple of `VECTOR`, and the weights of documents from `size` to the
    next multiple of 4 are zeros. The loops take two rows of weights and four documents at a time,
    so that every number that is loaded is used several times.
    """
    n = sums.shape[1]
    for j in range(0, len(sums), 2):
        v, w, first, second = weights[j], weights[j + 1], sums[j], sums[j + 1]
        for d in range(0, size, 4):
            v0, v1, v2, v3 = v[d], v[d + 1], v[d + 2], v[d + 3]
            w0, w1, w2, w3 = w[d], w[d + 1], w[d + 2], w[d + 3]
            z0, z1, z2, z3 = strip[d], strip[d + 1], strip[d + 2], strip[d + 3]
            for i in range(n):
                a, b, c, e = z0[i], z1[i], z2[i], z3[i]
                first[i] = fma(v3, e, fma(v2, c, fma(v1, b, fma(v0, a, first[i]))))
                second[i] = fma(w3, e, fma(w2, c, fma(w1, b, fma(w0, a, second[i]))))


@kernel
def dense_gram_rows(
    documents: Documents,
    wanted_documents: Documents,
    wanted: NDArray[np.int64],
    queries: Queries,
    means: Array,
    first_query: int,
    out: GramRowsOut,
) -> None:
    """Gram rows of J wanted features for consecutive queries of a block. One read of X.

    Parameters
    ----------
    documents
        (n_documents, n_features) of the queries.
    wanted_documents
        (n_documents, J) the wanted features of the same documents, if `documents` does not contain
        these features; otherwise an array without rows. The results have the same bits either way.
    wanted
        (J,) columns of the wanted features: in `wanted_documents` if it has rows, else in
        `documents`.
    queries, means
        Row offsets and weights of these queries, and their means as in `Moments`.
    first_query
        Position in `out.rows` of the first of these queries.
    """
    n, n_wanted = documents.shape[1], len(wanted)
    elsewhere = len(wanted_documents) > 0
    n_padded, n_even = n + -n % VECTOR, n_wanted + n_wanted % 2
    strip, wanted_strip = np.zeros((STRIP, n_padded)), np.zeros((STRIP, wanted_documents.shape[1]))
    mean, wanted_mean = np.empty(n), np.empty(wanted_documents.shape[1])
    weights, sums = np.zeros((n_even, STRIP)), np.empty((n_even, n_padded))
    for q in range(len(queries.weights)):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        sums[:] = 0.0
        for i in range(n):
            mean[i] = means[q, i]
        if elsewhere:
            query_mean(wanted_documents, start, end, wanted_mean)
        for first in range(start, end, STRIP):
            last = smaller(first + STRIP, end)
            centre_strip(documents, first, last, mean, strip)
            if elsewhere:
                centre_strip(wanted_documents, first, last, wanted_mean, wanted_strip)
                take_columns(wanted_strip, last - first, wanted, weights)
            else:
                take_columns(strip, last - first, wanted, weights)
            add_products(weights, strip, last - first, sums)
        for j in range(n_wanted):
            row, total = out.rows[out.slots[j], first_query + q], out.totals[j]
            for i in range(n):
                row[i] = sums[j, i] * weight
                total[i] += row[i]


def gram_rows(
    features: NDArray[np.float32],
    query_ptr: NDArray[np.int64],
    query_weights: Array,
    means: Array,
    wanted: NDArray[np.int64],
    slots: NDArray[np.int64],
    rows: Array,
    columns: NDArray[np.float32] | None = None,
) -> Array:
    """Compute rows `wanted` of every A_q into `rows[slots, :, :]`; one read of X.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, C- or F-ordered.
    query_ptr
        (n_queries + 1,) int64 row offsets.
    query_weights
        (n_queries,) float64.
    means
        As in the `Moments` of these queries.
    wanted
        (J,) int64 feature indices, distinct.
    slots
        (J,) int64 position in `rows` to which the row of each feature is written.
    rows
        (capacity, n_queries, n_features) float64; the slots are overwritten.
    columns
        (J, n_documents) values of the wanted features, if `features` holds only some of all
        features; None if `wanted` are columns of `features`.

    Returns
    -------
    (J, n_features) float64 sums of the rows over the queries, in order.
    """
    out = GramRowsOut(frozen(slots), rows, np.zeros((len(wanted), features.shape[1])))
    columns = np.empty((0, 0), np.float32) if columns is None else columns
    here = np.arange(len(wanted)) if len(columns) else wanted
    for documents, queries, first, part in in_c_order(features, query_ptr, query_weights):
        wanted_documents = frozen(np.ascontiguousarray(columns[:, part].T))
        own = frozen(means[first : first + len(queries.weights)])
        dense_gram_rows(documents, wanted_documents, frozen(here), queries, own, first, out)
    return out.totals


def in_c_order(
    features: NDArray[np.float32], query_ptr: NDArray[np.int64], query_weights: Array
) -> Iterator[tuple[NDArray[np.float32], Queries, int, slice]]:
    """Parts of a block in C order: documents, queries, index of the first query, and rows.

    A block in C order is one part. Any other block is copied, some thousand documents at a time.
    """
    n_queries = len(query_ptr) - 1
    whole = features.flags.c_contiguous
    for first, last in [(0, n_queries)] if whole else strips_of_queries(query_ptr):
        rows = slice(query_ptr[first], query_ptr[last])
        queries = Queries(
            frozen(query_ptr[first : last + 1] - query_ptr[first]),
            frozen(query_weights[first:last]),
        )
        yield frozen(np.ascontiguousarray(features[rows])), queries, first, rows


def strips_of_queries(
    query_ptr: NDArray[np.int64], n_documents: int = 1_024
) -> list[tuple[int, int]]:
    """Ranges of whole queries with about `n_documents` documents each."""
    strips, first = [], 0
    for last in range(1, len(query_ptr)):
        if query_ptr[last] - query_ptr[first] >= n_documents or last == len(query_ptr) - 1:
            strips.append((first, last))
            first = last
    return strips
