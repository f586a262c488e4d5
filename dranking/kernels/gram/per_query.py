"""Per-query moments and Gram rows: all that RankRLS and its greedy selection read of X.

Kernels take dense documents in C order. F-ordered features are copied into C order, some whole
queries at a time. The copy changes no bit of a result.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.gram.dense import (
    GramRowsOut,
    Moments,
    Queries,
    centre_first_documents,
    dense_gram_rows,
    dense_moments,
)
from dranking.kernels.gram.sparse import csr_of, sparse_gram_rows, sparse_moments
from dranking.kernels.gram.sparse_query import Fit
from dranking.kernels.gram.sparse_totals import (
    sparse_gram_total,
    sparse_moment_totals,
    sparse_row_totals,
)
from dranking.kernels.machine.compile import frozen, kernel

Array = NDArray[np.float64]


def moments(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
) -> Moments:
    """Diagonal of A_q, b_q and y_q.y_q of every query, times the query weights.

    `dranking/rankers/greedy/THEORY.md` has the symbols.

    Parameters
    ----------
    features
        (n_documents, n_features) float32, C- or F-ordered, or a `csr_array`.
    relevance
        (n_documents,) float64 without NaN.
    query_ptr
        (n_queries + 1,) int64 row offsets.
    query_weights
        (n_queries,) float64.
    """
    n_queries, n = len(query_ptr) - 1, features.shape[1]
    dense = isinstance(features, np.ndarray)
    means = np.empty((n_queries, n)) if dense else np.empty((0, n))
    diagonal, products = np.empty((n_queries, n)), np.empty((n_queries, n))
    out = Moments(diagonal, products, np.empty(n_queries), means, np.empty((2, n)))
    if dense:
        for documents, queries, first, rows in _in_c_order(features, query_ptr, query_weights):
            own = slice(first, first + len(queries.weights))
            part = Moments(
                diagonal[own], products[own], out.label_norms[own], means[own], out.totals
            )
            dense_moments(documents, frozen(relevance[rows]), queries, part)
    else:
        queries = Queries(frozen(query_ptr), frozen(query_weights))
        sparse_moments(csr_of(features), frozen(relevance), queries, out)
    add_up(frozen(diagonal), frozen(products), out.totals)
    return out


@kernel
def add_up(diagonal: Array, products: Array, totals: Array) -> None:
    """Overwrite the totals of `Moments` (NumPy would sum a single column in another order)."""
    totals[:] = 0.0
    for q in range(len(diagonal)):
        for i in range(diagonal.shape[1]):
            totals[0, i] += diagonal[q, i]
            totals[1, i] += products[q, i]


def moment_totals(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
) -> tuple[Array, Array, float]:
    """Sums of `moments` over the queries of CSR features, without arrays per query.

    Returns
    -------
    diagonal, products
        (n_features,) float64 diagonal of A, and b.
    label_norm
        y.y.
    """
    diagonal, products = np.empty(features.shape[1]), np.empty(features.shape[1])
    queries = Queries(frozen(query_ptr), frozen(query_weights))
    label_norm = sparse_moment_totals(
        csr_of(features), frozen(relevance), queries, diagonal, products
    )
    return diagonal, products, label_norm


def row_totals(
    features: Any,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
    wanted: NDArray[np.int64],
) -> Array:
    """(J, n_features) sums of the rows `wanted` of every A_q of CSR features.

    The sums equal the sums that `gram_rows` returns, but no array per query is made.
    """
    totals = np.empty((len(wanted), features.shape[1]))
    queries = Queries(frozen(query_ptr), frozen(query_weights))
    role = np.zeros(features.shape[1], dtype=np.int64)
    role[wanted] = -2 - np.arange(len(wanted))
    no_gram, no_products = frozen(np.empty((0, 0))), frozen(np.empty(0))
    fit = Fit(frozen(role), frozen(wanted), no_gram, no_products, 0.0)
    sparse_row_totals(csr_of(features), queries, fit, totals)
    return totals


def gram_rows(
    features: Any,
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
        (n_documents, n_features) float32, C- or F-ordered, or a `csr_array`.
    query_ptr, query_weights
        As in `moments`.
    means
        As in the `Moments` of these queries.
    wanted
        (J,) int64 feature indices, distinct.
    slots
        (J,) int64 position in `rows` to which the row of each feature is written.
    rows
        (capacity, n_queries, n_features) float64; the slots are overwritten.
    columns
        (J, n_documents) values of the wanted features, if `features` is dense and holds only some
        of all features; None if `wanted` are columns of `features`.

    Returns
    -------
    (J, n_features) float64 sums of the rows over the queries, in order.
    """
    out = GramRowsOut(frozen(slots), rows, np.zeros((len(wanted), features.shape[1])))
    if isinstance(features, np.ndarray):
        columns = np.empty((0, 0), np.float32) if columns is None else columns
        here = np.arange(len(wanted)) if len(columns) else wanted
        for documents, queries, first, part in _in_c_order(features, query_ptr, query_weights):
            wanted_documents = frozen(np.ascontiguousarray(columns[:, part].T))
            own = frozen(means[first : first + len(queries.weights)])
            dense_gram_rows(documents, wanted_documents, frozen(here), queries, own, first, out)
    else:
        queries = Queries(frozen(query_ptr), frozen(query_weights))
        sparse_gram_rows(csr_of(features), queries, frozen(wanted), out)
    return out.totals


def block_gram(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
) -> tuple[Array, Array, float]:
    """A, b and y.y summed over the block's queries; A is the whole Gram matrix.

    Dense features are taken in strips of whole queries of some thousand documents, centred in
    float64. For CSR features, the work is proportional to the number of pairs of features that
    occur in a query.

    Parameters
    ----------
    features, relevance, query_ptr, query_weights
        As in `moments`.

    Returns
    -------
    gram
        (n_features, n_features) float64, symmetric.
    products
        (n_features,) float64.
    label_norm
        y.y.
    """
    n_features = features.shape[1]
    if not isinstance(features, np.ndarray):
        total = np.empty((n_features, n_features))
        sparse_gram_total(
            csr_of(features), Queries(frozen(query_ptr), frozen(query_weights)), total
        )
        return total, *moment_totals(features, relevance, query_ptr, query_weights)[1:]
    gram, products, norm = np.zeros((n_features, n_features)), np.zeros(n_features), 0.0
    for centred, labels, _ in centred_strips(features, relevance, query_ptr, query_weights):
        gram += centred.T @ centred
        products += centred.T @ labels
        norm += float(labels @ labels)
    return gram, products, norm


def gram_product(
    features: Any, query_ptr: NDArray[np.int64], query_weights: Array, vector: Array
) -> Array:
    """A v without forming A: X'(X v) with the centred, weighted rows X of the block.

    Parameters
    ----------
    features, query_ptr, query_weights
        As in `moments`.
    vector
        (n_features,) float64.
    """
    sizes = np.diff(query_ptr)
    product = np.zeros(len(vector))
    for first, last in strips_of_queries(query_ptr):
        rows = features[query_ptr[first] : query_ptr[last]]
        scores = rows.astype(np.float64) @ vector
        centred = _centred(scores[:, None], sizes[first:last])[:, 0]
        product += rows.T.astype(np.float64) @ (
            centred * np.repeat(query_weights[first:last], sizes[first:last])
        )
    return product


def centre_first(
    features: NDArray[np.float32], query_ptr: NDArray[np.int64], query_weights: Array, number: int
) -> NDArray[np.float32]:
    """Centre the first documents of a block and multiply by the square roots of query weights.

    Parameters
    ----------
    features, query_ptr, query_weights
        As in `moments`; dense.
    number
        Number of documents; all documents if the block has fewer. The last query may be cut; it is
        then centred by the mean of its documents before the cut.

    Returns
    -------
    (number, n_features) float32.
    """
    documents = frozen(np.ascontiguousarray(features[:number]))
    centred = np.empty(documents.shape, np.float32)
    centre_first_documents(documents, Queries(frozen(query_ptr), frozen(query_weights)), centred)
    return centred


def centred_strips(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
    basis: Array | None = None,
) -> Iterator[tuple[Array, Array, NDArray[np.int64]]]:
    """Strips of whole queries, centred in float64, times the square roots of query weights.

    Parameters
    ----------
    features, relevance, query_ptr, query_weights
        As in `moments`; CSR features need a basis.
    basis
        (n_features, n_columns) float64 matrix by which the features are multiplied first.

    Yields
    ------
    rows
        (n_documents, n_features), or (n_documents, n_columns) with a basis.
    labels
        (n_documents,).
    ptr
        (n_queries + 1,) offsets of the strip's queries.
    """
    for first, last in strips_of_queries(query_ptr):
        rows = slice(query_ptr[first], query_ptr[last])
        ptr = query_ptr[first : last + 1] - query_ptr[first]
        sizes = np.diff(ptr)
        part = features[rows].astype(np.float64)
        part = part if basis is None else part @ basis
        root = np.sqrt(np.repeat(query_weights[first:last], sizes))
        centred = _centred(part, sizes) * root[:, None]
        labels = _centred(relevance[rows][:, None], sizes)[:, 0] * root
        yield centred, labels, ptr


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


def _centred(values: Array, sizes: NDArray[np.int64]) -> Array:
    """Rows minus the mean of their query.

    The mean is subtracted twice: the first mean is rounded, and in a column that lies far from zero
    its rounding error may be much larger than the spread of the column.
    """
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    for _ in range(2):
        means = np.add.reduceat(values, starts, axis=0) / sizes[:, None]
        values = values - np.repeat(means, sizes, axis=0)
    return values


def _in_c_order(
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
