"""Products of far columns against exact rationals."""

from fractions import Fraction
from functools import cache
from itertools import pairwise
from statistics import median_low

import numpy as np
import pytest
from scipy import sparse

from dranking.kernels.products import times, transposed_times
from dranking.rankrls.kernels.far_columns import far_columns
from dranking.rankrls.kernels.relative_products import (
    largest_distances,
    relative_features,
    relative_times,
    relative_transposed_times,
    shifted_strips,
)
from tests.rankrls.kernels.test_far_columns import LAYOUTS, NEVER_FAR, QUERY_PTR, columns


def exact(X):
    return [[Fraction(float(x)) for x in row] for row in X]


@cache
def relative_rows(seed, far):
    """Rows of `columns(seed)`, in rationals, with far columns less their median in the query."""
    X = columns(seed)
    rows = exact(X)
    for start, end in pairwise(QUERY_PTR):
        points = {i: Fraction(float(median_low(X[start:end, i]))) for i in far}
        for row in rows[start:end]:
            for i, point in points.items():
                row[i] -= point
    return rows


@cache
def exact_products(seed, far):
    """The products of these rows with weights and with slopes, and the sums of their terms' sizes.

    First the weights and slopes themselves.
    """
    rows, rng = relative_rows(seed, far), np.random.default_rng(seed)
    weights, slopes = rng.normal(size=len(rows[0])), rng.normal(size=len(rows))
    w, g = exact([weights])[0], exact([slopes])[0]
    by_row = [[a * x for a, x in zip(w, row, strict=True)] for row in rows]
    columns = zip(*rows, strict=True)
    by_column = [[a * x for a, x in zip(g, column, strict=True)] for column in columns]
    sums = [([*map(sum, ts)], [sum(map(abs, t)) for t in ts]) for ts in (by_row, by_column)]
    return weights, slopes, *sums


def problem_of_one_huge_query(seed):
    """Normal columns and a time stamp, which most documents of a query of 8,192 have not.

    All documents of the queries beside it have one. The huge query is one of nine.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 12, 9)
    huge = rng.integers(9)
    sizes[huge] = 8_192
    ptr = np.concatenate(([0], np.cumsum(sizes)))
    X = rng.normal(size=(ptr[-1], 3)).astype(np.float32)
    X[:, 1] = 1.7e9 + 128.0 * rng.integers(0, 3, len(X))
    own = slice(ptr[huge], ptr[huge + 1])
    X[own, 1] *= rng.random(8_192) < 0.3
    others = np.delete(np.arange(len(X)), own)
    return X, ptr, others


def distance_from_exact(found, expected, terms):
    """Largest error, as a share of the sum of the sizes of the terms."""
    off = [abs(Fraction(float(f)) - e) for f, e in zip(found, expected, strict=True)]
    return max(float(o / t) if t else float(o) for o, t in zip(off, terms, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_products_have_all_digits_of_the_distances(layout, seed):
    X = columns(seed)
    far = far_columns(layout(X), QUERY_PTR)
    weights, slopes, of_rows, of_columns = exact_products(seed, tuple(far.columns.tolist()))
    found = relative_times(layout(X), QUERY_PTR, far, weights)
    assert distance_from_exact(found, *of_rows) < 1e-15
    found = relative_transposed_times(layout(X), QUERY_PTR, far, slopes)
    assert distance_from_exact(found, *of_columns) < 1e-13
    assert not found[[i for i in far.columns if not of_columns[1][i]]].any()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(4))
def test_one_huge_query_takes_no_digits_from_the_others(layout, seed):
    """Most documents, of one query, lack the time stamp by which all other queries differ."""
    X, ptr, others = problem_of_one_huge_query(seed)
    far, weights = far_columns(layout(X), ptr), np.random.default_rng(seed).normal(size=3)
    assert far.moving.tolist() == [1]
    found = relative_times(layout(X), ptr, far, weights)
    [w] = exact([weights])
    rows, query = exact(X[others]), np.searchsorted(ptr, others, side="right")
    for a, b in pairwise(range(len(others))):
        if query[a] == query[b]:
            parts = [v * (x - z) for v, x, z in zip(w, rows[a], rows[b], strict=True)]
            off = Fraction(found[others[a]]) - Fraction(found[others[b]]) - sum(parts)
            assert abs(off) <= 1e-14 * sum(map(abs, w)) * 256
    slopes = np.zeros(len(X))
    slopes[others] = np.random.default_rng(seed).integers(-9, 9, len(others))
    for q in np.unique(query):
        there = others[query == q]
        slopes[there[-1]] -= slopes[there].sum()
    found = relative_transposed_times(layout(X), ptr, far, slopes / 7.0)[1]
    terms = [Fraction(slopes[d]) * x[1] / 7 for d, x in zip(others, rows, strict=True)]
    assert float(found) == pytest.approx(float(sum(terms)), rel=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_features_are_themselves_or_have_the_distances(layout):
    X = columns(0)
    far = far_columns(layout(X), QUERY_PTR)
    rows = relative_features(layout(X), QUERY_PTR, far)
    expected = np.array(relative_rows(0, tuple(far.columns.tolist()))).astype(float)
    dense = rows.toarray() if layout is sparse.csr_array else rows
    np.testing.assert_array_equal(dense, expected)
    near = layout(X[:, NEVER_FAR])
    assert relative_features(near, QUERY_PTR, far_columns(near, QUERY_PTR)) is near


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strips_have_the_distances(layout):
    X = columns(0)
    far = far_columns(layout(X), QUERY_PTR)
    expected = np.array(relative_rows(0, tuple(far.columns.tolist()))).astype(float)
    n_queries = 0
    for own, rows, sizes in shifted_strips(layout(X), QUERY_PTR, far):
        assert (own.start, sizes.tolist()) == (n_queries, np.diff(QUERY_PTR)[own].tolist())
        n_queries = own.stop
        part = expected[QUERY_PTR[own.start] : QUERY_PTR[own.stop]]
        dense = rows.toarray() if layout is sparse.csr_array else rows
        np.testing.assert_array_equal(dense, part)
    assert n_queries == len(QUERY_PTR) - 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_largest_distances(layout):
    X = columns(2)
    far = far_columns(layout(X), QUERY_PTR)
    rows = relative_rows(2, tuple(far.columns.tolist()))
    expected = [float(max(abs(row[i]) for row in rows)) for i in range(X.shape[1])]
    np.testing.assert_array_equal(largest_distances(layout(X), QUERY_PTR, far), expected)
    none = layout(X)[:0]
    assert not largest_distances(none, QUERY_PTR[:1], far_columns(none, QUERY_PTR[:1])).any()


def test_sparse_columns_stay_sparse():
    """A thousand columns that are far in a few queries each."""
    rng = np.random.default_rng(0)
    n_queries, size, n = 200, 10, 1_000
    X = sparse.lil_array((n_queries * size, n), dtype=np.float32)
    for q in range(n_queries):
        for i in rng.integers(0, n, 10):
            present = rng.permutation(size)[: rng.integers(6, size + 1)]
            for d in present:
                X[q * size + d, i] = 1.7e9 + 1024.0 * rng.integers(0, 9)
    X, ptr = X.tocsr(), np.arange(0, n_queries * size + 1, size)
    far = far_columns(X, ptr)
    assert len(far.moving) > n / 4
    entries = sum(rows.nnz for _, rows, _ in shifted_strips(X, ptr, far))
    assert far.medians.nnz < entries <= 2 * X.nnz


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_bit_changes_where_no_column_is_far(layout):
    X, rng = layout(columns(0)[:, NEVER_FAR]), np.random.default_rng(1)
    far = far_columns(X, QUERY_PTR)
    weights, slopes = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])
    np.testing.assert_array_equal(relative_times(X, QUERY_PTR, far, weights), times(X, weights))
    np.testing.assert_array_equal(
        relative_transposed_times(X, QUERY_PTR, far, slopes), transposed_times(X, slopes)
    )
