"""Centred rows and their sums of products in double-double arithmetic, with 32 digits.

A number is the unevaluated sum of two float64, of which the second is at most half a unit in the
last place of the first: an array of pairs has the two parts along its first axis. Sums and products
lose at most some units of `UNIT` (Dekker, A floating-point technique for extending the available
precision, 1971; Hida, Li and Bailey, Library for double-double and quad-double arithmetic, 2007).
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import frozen, kernel, part
from dranking.kernels.machine.instructions import fma

Array = NDArray[np.float64]
Pair = tuple[float, float]

UNIT = 2.0**-104
"""Relative rounding error of an operation on pairs."""


@part
def ordered_sum(a: float, b: float) -> Pair:
    """A + b as a pair, where |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


@part
def add(a: Pair, b: Pair) -> Pair:
    """Sum of two pairs, rounded by a share of the larger of both."""
    total = a[0] + b[0]
    part = total - a[0]
    rest = (a[0] - (total - part)) + (b[0] - part)
    return ordered_sum(total, rest + (a[1] + b[1]))


@part
def multiply(a: Pair, b: Pair) -> Pair:
    """Product of two pairs."""
    product = a[0] * b[0]
    rest = fma(a[0], b[0], -product)
    return ordered_sum(product, fma(a[1], b[0], fma(a[0], b[1], rest)))


@part
def subtract_product(a: Pair, b: Pair, c: Pair) -> Pair:
    """A - b c."""
    product = multiply(b, c)
    return add(a, (-product[0], -product[1]))


@part
def divide(a: Pair, b: Pair) -> Pair:
    """Quotient of two pairs."""
    first = a[0] / b[0]
    rest = subtract_product(a, b, (first, 0.0))
    second = rest[0] / b[0]
    rest = subtract_product(rest, b, (second, 0.0))
    return add(ordered_sum(first, second), (rest[0] / b[0], 0.0))


@part
def square_root(a: Pair) -> Pair:
    """Square root of a pair above 0."""
    root = np.sqrt(a[0])
    rest = add(a, (-root * root, -fma(root, root, -root * root)))
    return ordered_sum(root, rest[0] / (2.0 * root))


def centred_pairs(rows: Array, query_ptr: NDArray[np.int64], query_weights: Array) -> Array:
    """(2, m, n) pairs: rows minus the mean of their query, times the root of the query's weight.

    Parameters
    ----------
    rows
        (m, n) float64.
    query_ptr
        (n_queries + 1,) row offsets.
    query_weights
        (n_queries,) at least 0.
    """
    pairs = np.zeros((2, *rows.shape))
    _centre(
        frozen(np.ascontiguousarray(rows)), frozen(query_ptr), frozen(np.sqrt(query_weights)), pairs
    )
    return pairs


@kernel
def _centre(rows: Array, query_ptr: NDArray[np.int64], roots: Array, pairs: Array) -> None:
    mean = np.empty((2, rows.shape[1]))
    for q in range(len(roots)):
        start, end, size = query_ptr[q], query_ptr[q + 1], (roots[q], 0.0)
        number = (float(end - start), 0.0)
        for j in range(rows.shape[1]):
            mean[0, j] = mean[1, j] = 0.0
        for d in range(start, end):
            for j in range(rows.shape[1]):
                mean[0, j], mean[1, j] = add((mean[0, j], mean[1, j]), (rows[d, j], 0.0))
        for j in range(rows.shape[1]):
            mean[0, j], mean[1, j] = divide((mean[0, j], mean[1, j]), number)
        for d in range(start, end):
            for j in range(rows.shape[1]):
                centred = add((rows[d, j], 0.0), (-mean[0, j], -mean[1, j]))
                pairs[0, d, j], pairs[1, d, j] = multiply(centred, size)


def sums_of_products(pairs: Array) -> Array:
    """(2, n, n) pairs: the sums over rows (2, m, n) of products of columns; symmetric."""
    n = pairs.shape[2]
    sums = np.zeros((2, n, n))
    _add_products(frozen(pairs), sums)
    for symmetric in sums:
        symmetric += np.tril(symmetric, -1).T
    return sums


@kernel
def _add_products(pairs: Array, sums: Array) -> None:
    """Add products to the lower triangle of `sums`, row after row."""
    high, low = pairs[0], pairs[1]
    for d in range(high.shape[0]):
        for i in range(high.shape[1]):
            if high[d, i] != 0.0:
                x = (high[d, i], low[d, i])
                for j in range(i + 1):
                    product = multiply(x, (high[d, j], low[d, j]))
                    total = add((sums[0, i, j], sums[1, i, j]), product)
                    sums[0, i, j], sums[1, i, j] = total


def sum_of_pairs(a: Array, b: Array) -> Array:
    """(2, m, n) sum of two matrices of pairs."""
    total = np.empty(a.shape)
    _add(frozen(a), frozen(b), total)
    return total


@kernel
def _add(a: Array, b: Array, total: Array) -> None:
    for i in range(a.shape[1]):
        for j in range(a.shape[2]):
            total[0, i, j], total[1, i, j] = add((a[0, i, j], a[1, i, j]), (b[0, i, j], b[1, i, j]))


def product_of_pairs(matrix: Array, vector: Array) -> Array:
    """(2, m) product of a matrix (2, m, n) and a vector (2, n) of pairs."""
    product = np.zeros((2, matrix.shape[1]))
    _multiply(frozen(np.ascontiguousarray(matrix)), frozen(np.ascontiguousarray(vector)), product)
    return product


@kernel
def _multiply(matrix: Array, vector: Array, product: Array) -> None:
    for i in range(matrix.shape[1]):
        total = (0.0, 0.0)
        for j in range(matrix.shape[2]):
            factor = (-matrix[0, i, j], -matrix[1, i, j])
            total = subtract_product(total, factor, (vector[0, j], vector[1, j]))
        product[0, i], product[1, i] = total
