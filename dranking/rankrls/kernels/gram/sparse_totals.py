"""Moments and Gram rows of CSR features, summed over queries, without arrays per query."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel
from dranking.rankrls.kernels.gram.dense import Queries
from dranking.rankrls.kernels.gram.sparse import (
    Csr,
    Present,
    csr_of,
    find_present,
    forget_present,
    nothing_present,
)
from dranking.rankrls.kernels.gram.sparse_query import (
    NOT_ASKED,
    Fit,
    arrays_for_queries,
    centre_labels,
    centre_members,
    find_members,
    multiply,
    sort_entries,
)

Array = NDArray[np.float64]


@kernel
def sparse_moment_totals(
    x: Csr, relevance: Array, queries: Queries, diagonal: Array, products: Array
) -> float:
    """Sum the diagonal of A, and b, over some queries; return y.y.

    Parameters
    ----------
    relevance
        (n_documents,) without NaN.
    diagonal, products
        (n_features,) overwritten with the sums.
    """
    present = nothing_present(len(diagonal))
    product, labels, norm = np.zeros(len(diagonal)), np.empty(len(relevance)), 0.0
    diagonal[:] = 0.0
    products[:] = 0.0
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        n_present = find_present(x, x.indptr[start], x.indptr[end], end - start, present)
        own, rest = centre_labels(relevance, start, end, labels)
        norm += weight * own
        for d in range(start, end):
            for e in range(x.indptr[d], x.indptr[d + 1]):
                i = x.indices[e]
                product[i] += labels[d - start] * (x.data[e] - present.shift[i])
        for o in range(n_present):
            i = present.features[o]
            if present.squares[i] > 0.0:
                diagonal[i] += weight * present.squares[i]
                left = rest * (present.mean[i] - present.shift[i])
                products[i] += weight * (product[i] - left)
            product[i] = 0.0
        forget_present(present, n_present)
    return norm


@kernel
def has_member(x: Csr, first: int, last: int, role: NDArray[np.int64]) -> bool:
    """Whether a selected feature has an entry among the entries first to last."""
    for e in range(first, last):
        if role[x.indices[e]] < NOT_ASKED:
            return True
    return False


@kernel
def sparse_row_totals(x: Csr, queries: Queries, fit: Fit, totals: Array) -> None:
    """Overwrite `totals` (J, n_features) with the rows of the J selected features of the fit.

    The sums are over some queries. Of the fit, only roles and selected features are read.
    """
    query = arrays_for_queries(x, queries, fit)
    totals[:] = 0.0
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        if not has_member(x, x.indptr[start], x.indptr[end], fit.role):
            continue
        n_present = sort_entries(x, start, end, query.entries)
        p = find_members(n_present, end - start, fit, query)
        centre_members(p, end - start, query)
        for a in range(p):
            products, total = query.products[a, :n_present], totals[query.members[a]]
            multiply(query.entries, query.columns[a], query.rest[a], weight, products)
            for o in range(n_present):
                if query.entries.squares[o] > 0.0:
                    total[query.entries.features[o]] += products[o]


class Varying(NamedTuple):
    """The features that vary within one query, and their centred products.

    Attributes
    ----------
    features
        (n_features,) the first p entries are the features that vary.
    place
        (n_features,) position of a feature among the features that vary, or -1.
    row
        (n_features,) workspace: the first p entries are a document's centred values of these
        features.
    products
        (at least p, at least p) A_q at these features, without the query weight.
    """

    features: NDArray[np.int64]
    place: NDArray[np.int64]
    row: Array
    products: Array


@kernel
def multiply_varying(
    x: Csr, start: int, end: int, p: int, present: Present, varying: Varying
) -> None:
    """Overwrite the products of the p features that vary among documents start to end."""
    features, place, products = varying.features[:p], varying.place, varying.products
    row, zero, rest = varying.row[:p], np.empty(p), np.zeros(p)
    mean, shift = present.mean, present.shift
    products[:p, :p] = 0.0
    for a in range(p):
        zero[a] = -mean[features[a]]
    for d in range(start, end):
        row[:] = zero
        for e in range(x.indptr[d], x.indptr[d + 1]):
            a = place[x.indices[e]]
            if a >= 0:
                row[a] += x.data[e]
        rest += row
        for e in range(x.indptr[d], x.indptr[d + 1]):
            a = place[x.indices[e]]
            if a >= 0:
                out, value = products[a], x.data[e] - shift[features[a]]
                for b in range(p):
                    out[b] += value * row[b]
    for a in range(p):  # `rest` times the rest of the mean centres the other factor, see `sparse`
        i = features[a]
        products[a, :p] -= (mean[i] - shift[i]) * rest


@kernel
def sparse_gram_total(x: Csr, queries: Queries, gram: Array) -> None:
    """Overwrite `gram` (n_features, n_features) with A of some queries, symmetric in every bit."""
    n = len(gram)
    present = nothing_present(n)
    n_values = 0
    for q in range(len(queries.ptr) - 1):
        n_values = max(n_values, x.indptr[queries.ptr[q + 1]] - x.indptr[queries.ptr[q]])
    most = min(n_values, n)
    varying = Varying(
        np.empty(n, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
        np.empty(n),
        np.empty((most, most)),
    )
    gram[:] = 0.0
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        n_present = find_present(x, x.indptr[start], x.indptr[end], end - start, present)
        p = 0
        for o in range(n_present):
            i = present.features[o]
            if present.squares[i] > 0.0:
                varying.features[p] = i
                varying.place[i] = p
                p += 1
        multiply_varying(x, start, end, p, present, varying)
        for a in range(p):
            i = varying.features[a]
            varying.place[i] = -1
            out, products = gram[i], varying.products[a]
            for b in range(p):
                if varying.features[b] <= i:
                    out[varying.features[b]] += weight * products[b]
        forget_present(present, n_present)
    for i in range(n):
        for j in range(i):
            gram[j, i] = gram[i, j]


def moment_totals(
    features: Any,
    relevance: Array,
    query_ptr: NDArray[np.int64],
    query_weights: Array,
) -> tuple[Array, Array, float]:
    """Sums of `per_query.moments` over the queries of CSR features, without arrays per query.

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
