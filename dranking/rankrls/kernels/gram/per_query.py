"""Per-query moments and Gram matrices of features in any form: C-ordered, F-ordered or CSR.

The Gram rows of some features are functions of `dense` and of `sparse`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel
from dranking.rankrls.kernels.gram.dense import (
    Moments,
    Queries,
    dense_moments,
    in_c_order,
    strips_of_queries,
)
from dranking.rankrls.kernels.gram.sparse import csr_of, sparse_moments
from dranking.rankrls.kernels.gram.sparse_totals import moment_totals, sparse_gram_total

Array = NDArray[np.float64]
Strips = Iterable[tuple[slice, Any, NDArray[np.int64]]]
"""Queries of each strip of a block, their rows in float64, and their sizes."""


def moments(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
) -> Moments:
    """Diagonal of A_q, b_q and y_q.y_q of every query, times the query weights.

    `dranking/rankrls/greedy/THEORY.md` has the symbols.

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
        for documents, queries, first, rows in in_c_order(features, query_ptr, query_weights):
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


def gram_product(strips: Strips, query_weights: Array, vector: Array) -> Array:
    """A v without forming A: X'(X v) with the centred, weighted rows X of the block.

    Parameters
    ----------
    strips
        The block by `dranking.rankrls.kernels.relative_products.shifted_strips`.
    query_weights
        As in `moments`.
    vector
        (n_features,) float64.
    """
    product = np.zeros(len(vector))
    for own, rows, sizes in strips:
        centred = _centred((rows @ vector)[:, None], sizes)[:, 0]
        product += rows.T @ (centred * np.repeat(query_weights[own], sizes))
    return product


def residual_sums(
    strips: Strips, relevance: Array, query_ptr: NDArray[np.int64], query_weights: Array, w: Array
) -> tuple[Array, Array]:
    """X'(y - X w), and the squared norms of y - X w and of |y| + |X| |w|.

    X and y are centred and weighted, but X in the last norm is not centred; residuals are off by a
    rounding of that norm.

    Parameters
    ----------
    strips
        The block by `dranking.rankrls.kernels.relative_products.shifted_strips`.
    relevance, query_ptr, query_weights
        As in `moments`.
    w
        (n_features,) float64.
    """
    products, squares = np.zeros(len(w)), np.zeros(2)
    for own, rows, sizes in strips:
        labels = relevance[query_ptr[own.start] : query_ptr[own.stop], None]
        # Labels far from zero would leave few digits to the scores that are subtracted from them.
        labels = _centred(labels, sizes)[:, 0]
        weights = np.repeat(query_weights[own], sizes)
        residuals = _centred((labels - rows @ w)[:, None], sizes)[:, 0]
        products += rows.T @ (residuals * weights)
        squares += (
            weights @ np.square(residuals),
            weights @ np.square(np.abs(labels) + np.abs(rows) @ np.abs(w)),
        )
    return products, squares


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
    documents = features[:number].astype(np.float64, order="C")
    if not len(documents):
        return documents.astype(np.float32)
    sizes = np.diff(np.minimum(query_ptr, len(documents)))
    roots = np.sqrt(np.repeat(query_weights, sizes))[:, None]
    with np.errstate(over="ignore"):
        return (_centred(documents, sizes[sizes > 0]) * roots).astype(np.float32)


def centred_strips(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
    n_documents: int = 1_024,
) -> Iterator[tuple[Array, Array, NDArray[np.int64]]]:
    """Strips of whole queries, centred in float64, times the square roots of query weights.

    Parameters
    ----------
    features, relevance, query_ptr, query_weights
        As in `moments`; strips of CSR features are made dense.
    n_documents
        Number of documents of a strip, about.

    Yields
    ------
    rows
        (n_documents, n_features).
    labels
        (n_documents,).
    ptr
        (n_queries + 1,) offsets of the strip's queries.
    """
    for first, last in strips_of_queries(query_ptr, n_documents):
        rows = slice(query_ptr[first], query_ptr[last])
        ptr = query_ptr[first : last + 1] - query_ptr[first]
        sizes = np.diff(ptr)
        part = features[rows].astype(np.float64)
        part = part if isinstance(part, np.ndarray) else part.toarray()
        root = np.sqrt(np.repeat(query_weights[first:last], sizes))
        centred = _centred(part, sizes) * root[:, None]
        labels = _centred(relevance[rows][:, None], sizes)[:, 0] * root
        yield centred, labels, ptr


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
