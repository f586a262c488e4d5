"""Per-query moments and Gram rows of query-centred dense features.

Every sum over the documents of a query runs in document order and every feature is centred within
its query, in float64, while it passes through a small strip; X itself is never changed or copied.
A feature that is constant within a query is therefore exactly zero there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import borrowed, fma, prefetch
from dranking.kernels.machine.panels import WIDTH, add_panel, bring_near, padded

Array = NDArray[np.float64]


class Dense(NamedTuple):
    """Features (n_documents, n_features) float32, or their transpose if `by_feature`; C-ordered."""

    values: NDArray[np.float32]
    by_feature: bool


class Queries(NamedTuple):
    """Row offsets (n_queries + 1,) of the queries, and their weights (n_queries,)."""

    ptr: NDArray[np.int64]
    weights: Array


class Moments(NamedTuple):
    """What one pass over X finds of every query.

    Attributes
    ----------
    diagonal, products
        (n_queries, n_features) diagonal of A_q and b_q, weighted.
    label_norms
        (n_queries,) y_q.y_q, weighted.
    means
        (n_queries, n_features) means of dense features; without rows where they are sparse.
    totals
        (2, n_features) sums of the diagonal and of the products over the queries, in order.
    """

    diagonal: Array
    products: Array
    label_norms: Array
    means: Array
    totals: Array


STRIP = 16
"""Documents centred at a time: some hundred features of them stay near."""

GROUP = 4
"""Documents that moments take at a time."""

LINE = 16
"""Float32 numbers of a line of the cache."""


@kernel
def bring_documents(features: Dense, start: int, end: int) -> None:
    """Start to fetch documents from memory that will be read soon, while there is other work."""
    values = features.values
    if not features.by_feature:
        for d in range(start, min(end, len(values))):
            for i in range(0, values.shape[1], LINE):
                prefetch(values[d], i)


@kernel
def add_documents(values: NDArray[np.float32], start: int, end: int, total: Array) -> None:
    """Overwrite `total` (n_features,) with the sum of the rows start to end, in order."""
    n = len(total)
    whole = end - (end - start) % 4
    total[:] = 0.0
    for d in range(start, whole, 4):
        first, second, third, fourth = values[d], values[d + 1], values[d + 2], values[d + 3]
        for i in range(n):
            total[i] = (((total[i] + first[i]) + second[i]) + third[i]) + fourth[i]
    for d in range(whole, end):
        for i in range(n):
            total[i] += values[d, i]


@kernel
def query_means(features: Dense, start: int, end: int, mean: Array) -> None:
    """Overwrite `mean` (n_features,) with the feature means of documents start to end."""
    n = len(mean)
    values = features.values
    if features.by_feature:
        whole = n - n % 4
        for i in range(0, whole, 4):  # four sums side by side: one alone waits for every addition
            x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
            t0 = t1 = t2 = t3 = np.float64(0.0)
            for d in range(start, end):
                t0 += x0[d]
                t1 += x1[d]
                t2 += x2[d]
                t3 += x3[d]
            mean[i], mean[i + 1], mean[i + 2], mean[i + 3] = t0, t1, t2, t3
        for i in range(whole, n):
            mean[i] = 0.0
            for d in range(start, end):
                mean[i] += values[i, d]
    else:
        add_documents(values, start, end, mean)
    for i in range(n):
        mean[i] /= end - start


@kernel
def centre_strip(features: Dense, start: int, end: int, mean: Array, strip: Array) -> None:
    """Overwrite `strip[:end - start]` with centred documents start to end, a document a row.

    Those a strip further are brought near meanwhile.
    """
    n = len(mean)
    values = features.values
    if features.by_feature:
        whole = n - n % 4
        for i in range(0, whole, 4):  # whole parts of cache lines are written
            x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
            m0, m1, m2, m3 = mean[i], mean[i + 1], mean[i + 2], mean[i + 3]
            for d in range(start, end):
                row = strip[d - start]
                row[i] = x0[d] - m0
                row[i + 1] = x1[d] - m1
                row[i + 2] = x2[d] - m2
                row[i + 3] = x3[d] - m3
        for i in range(whole, n):
            for d in range(start, end):
                strip[d - start, i] = values[i, d] - mean[i]
        return
    for d in range(start, end):
        bring_documents(features, d + STRIP, d + STRIP + 1)
        for i in range(n):
            strip[d - start, i] = values[d, i] - mean[i]


@kernel
def take_columns(strip: Array, wanted: NDArray[np.int64], centred: Array) -> None:
    """Overwrite `centred` (J, size) with as many documents of the features `wanted` of a strip."""
    for j in range(len(wanted)):
        for d in range(centred.shape[1]):
            centred[j, d] = strip[d, wanted[j]]


@kernel
def centre_columns(columns: NDArray[np.float32], start: int, means: Array, centred: Array) -> None:
    """Overwrite `centred` (J, size) with as many documents of the columns (J, n_documents)."""
    for j in range(len(columns)):
        for d in range(centred.shape[1]):
            centred[j, d] = columns[j, start + d] - means[j]


@kernel
def add_moments(
    documents: NDArray[Any], mean: Array, labels: Array, squares: Array, product: Array
) -> None:
    """Add `sum_d z_d^2` to `squares` and `sum_d labels[d] z_d` to `product`, z_d = x_d - mean.

    Documents (size, n_features) in order, four at a time.
    """
    n, size = len(mean), len(documents)
    whole = size - size % 4
    for d in range(0, whole, 4):
        a, b, c, e = labels[d], labels[d + 1], labels[d + 2], labels[d + 3]
        first, second = documents[d], documents[d + 1]
        third, fourth = documents[d + 2], documents[d + 3]
        for i in range(n):
            w, x = first[i] - mean[i], second[i] - mean[i]
            y, z = third[i] - mean[i], fourth[i] - mean[i]
            squares[i] = fma(z, z, fma(y, y, fma(x, x, fma(w, w, squares[i]))))
            product[i] = fma(e, z, fma(c, y, fma(b, x, fma(a, w, product[i]))))
    for d in range(whole, size):
        a, first = labels[d], documents[d]
        for i in range(n):
            z = first[i] - mean[i]
            squares[i] = fma(z, z, squares[i])
            product[i] = fma(a, z, product[i])


@kernel
def dense_moments(features: Dense, relevance: Array, queries: Queries, out: Moments) -> None:
    """Overwrite `out` with the moments of every query. One read of X.

    `relevance` is (n_documents,) without NaN.
    """
    features, queries, out = borrowed(features), borrowed(queries), borrowed(out)
    n = out.diagonal.shape[1]
    strip, labels, zeros = np.empty((STRIP, n)), np.empty(STRIP), np.zeros(n)
    step = STRIP if features.by_feature else GROUP
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        mean = out.means[q]
        query_means(features, start, end, mean)
        centre = 0.0
        for d in range(start, end):
            centre += relevance[d]
        centre /= end - start
        squares, product, norm = out.diagonal[q], out.products[q], 0.0
        squares[:] = 0.0
        product[:] = 0.0
        for left in range(start, end, step):
            size = min(step, end - left)
            for d in range(size):
                labels[d] = relevance[left + d] - centre
                norm += labels[d] * labels[d]
            if features.by_feature:
                centre_strip(features, left, left + size, mean, strip)
                add_moments(strip[:size], zeros, labels, squares, product)
            else:
                bring_documents(features, left + end - start, left + end - start + size)
                add_moments(features.values[left : left + size], mean, labels, squares, product)
        for i in range(n):
            squares[i] *= weight
            product[i] *= weight
        out.label_norms[q] = weight * norm


@kernel
def add_products(weights: Array, strip: Array, size: int, sums: Array) -> None:
    """Add `weights[:, :size] @ strip[:size]` to `sums`, documents in order, panel by panel."""
    weights, strip, sums = borrowed(weights), borrowed(strip), borrowed(sums)
    for column in range(0, sums.shape[1], WIDTH):
        for j in range(0, len(sums), 2):
            add_panel(weights[j], weights[j + 1], strip, size, sums[j : j + 2], column)


@kernel
def centre_first_documents(features: Dense, queries: Queries, centred: NDArray[np.float32]) -> None:
    """Overwrite `centred` (n_documents, n_features) with the first documents, as many.

    They are centred within their queries, of which the last may be cut, and multiplied by the roots
    of the query weights.
    """
    n_documents, n = centred.shape
    strip, mean = np.empty((STRIP, n)), np.empty(n)
    for q in range(len(queries.weights)):
        start, end = queries.ptr[q], min(queries.ptr[q + 1], n_documents)
        if start >= end:
            break
        root = np.sqrt(queries.weights[q])
        query_means(features, start, end, mean)
        for first in range(start, end, STRIP):
            last = min(first + STRIP, end)
            centre_strip(features, first, last, mean, strip)
            for d in range(first, last):
                for i in range(n):
                    centred[d, i] = root * strip[d - first, i]


@kernel
def dense_gram_rows(
    features: Dense,
    queries: Queries,
    means: Array,
    wanted: NDArray[np.int64],
    columns: NDArray[np.float32],
    slots: NDArray[np.int64],
    rows: Array,
    totals: Array,
) -> None:
    """Rows `wanted` of every A_q, and their sums over the queries. One read of X.

    Overwrites `rows[slots[j], q, :]` (capacity, n_queries, n_features) with `A_q[wanted[j], :]`,
    and `totals[j]` (len(wanted), n_features) with the sum over queries in order. `means` are those
    that `dense_moments` found. Where X lacks wanted features, `columns` (len(wanted), n_documents)
    are these; else it has no rows. That changes no bit.
    """
    features, queries = borrowed(features), borrowed(queries)
    rows, totals, slots = borrowed(rows), borrowed(totals), borrowed(slots)
    n, n_wanted = totals.shape[1], len(wanted)
    # Panels are of two rows, and of columns up to a round number.
    sums = np.empty((n_wanted + n_wanted % 2, padded(n)))
    strip, centred = np.zeros((STRIP, sums.shape[1])), np.zeros((len(sums), STRIP))
    column_means = np.empty(len(columns))
    totals[:] = 0.0
    for q in range(len(queries.ptr) - 1):
        start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
        query_means(Dense(columns, True), start, end, column_means)
        sums[:] = 0.0
        n_strips = -(-(end - start) // STRIP)
        # With each strip some rows are brought near that will be written: all at once would wait.
        share = -(-n_wanted // n_strips)
        for number in range(n_strips):
            left = start + number * STRIP
            size = min(STRIP, end - left)
            bring_near(rows, slots[number * share : (number + 1) * share], q)
            centre_strip(features, left, left + size, means[q], strip)
            if len(columns) > 0:
                centre_columns(columns, left, column_means, centred[:, :size])
            else:
                take_columns(strip, wanted, centred[:, :size])
            add_products(centred, strip, size, sums)
        for j in range(n_wanted):
            row, total = rows[slots[j], q], totals[j]
            for i in range(n):
                row[i] = sums[j, i] * weight
                total[i] += row[i]
