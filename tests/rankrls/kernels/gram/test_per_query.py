"""Moments and Gram rows against sums over centred documents, written out."""

from fractions import Fraction
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from dranking.rankrls.kernels.gram import dense
from dranking.rankrls.kernels.gram import sparse as of_csr
from dranking.rankrls.kernels.gram.dense import strips_of_queries
from dranking.rankrls.kernels.gram.per_query import block_gram, moments
from dranking.rankrls.kernels.gram.sparse_totals import moment_totals, row_totals
from tests.kernels.compiled import COMPILED
from tests.reference.greedy import centred_queries

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "CSR": sparse.csr_array,
}

LONG = [32, 33, 64, 130] if COMPILED else [17, 32]
"""Sizes of queries that take several strips, the last of them whole or not."""

MOST = 9 if COMPILED else 4
"""Most features; plain Python takes seconds for more, and its indices are of the same kinds."""


def problem(rng, sizes, n_features, zeros=0.5):
    query_ptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    X = rng.normal(size=(query_ptr[-1], n_features)).astype(np.float32)
    X[rng.random(X.shape) < zeros] = 0.0
    y = rng.integers(0, 3, query_ptr[-1]).astype(np.float64)
    return X, y, query_ptr, rng.integers(0, 4, len(sizes)) / 2.0


def all_rows(X, query_ptr, weights, wanted):
    """Gram rows (wanted, queries, features), and their totals, fetched together."""
    rows = np.full((len(wanted), len(query_ptr) - 1, X.shape[1]), np.nan)
    slots = np.arange(len(wanted), dtype=np.int64)
    totals = fetch(X, query_ptr, weights, np.array(wanted, dtype=np.int64), slots, rows)
    return rows, totals


def fetch(X, query_ptr, weights, wanted, slots, rows):
    """Write Gram rows into their slots, and return their totals."""
    if sparse.issparse(X):
        return of_csr.gram_rows(X, query_ptr, weights, wanted, slots, rows)
    means = moments(X, np.zeros(X.shape[0]), query_ptr, weights).means
    return dense.gram_rows(X, query_ptr, weights, means, wanted, slots, rows)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 9) | st.sampled_from(LONG), max_size=6 if COMPILED else 3))
    return problem(rng, sizes, draw(st.integers(1, MOST)), draw(st.sampled_from([0.0, 0.5, 0.95])))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=problems())
def test_moments_and_rows_equal_sums_over_centred_documents(layout, data):
    X, y, query_ptr, weights = data
    features = LAYOUTS[layout](X)
    found = moments(features, y, query_ptr, weights)
    rows, totals = all_rows(features, query_ptr, weights, range(X.shape[1]))
    total = np.zeros((X.shape[1], X.shape[1]))
    for q, (X_q, y_q, weight) in enumerate(centred_queries(X, y, query_ptr, weights)):
        A_q = weight * X_q.T @ X_q
        total += A_q
        close = {"rtol": 1e-12, "atol": 1e-12 * (1.0 + A_q.max())}
        np.testing.assert_allclose(rows[:, q], A_q, **close)
        np.testing.assert_allclose(found.diagonal[q], np.diag(A_q), **close)
        if layout != "CSR":
            expected = X[query_ptr[q] : query_ptr[q + 1]].mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(found.means[q], expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.products[q], weight * X_q.T @ y_q, **close)
        np.testing.assert_allclose(found.label_norms[q], weight * y_q @ y_q, **close)
    np.testing.assert_allclose(totals, total, rtol=1e-12, atol=1e-11)


@given(data=problems())
def test_c_and_f_order_agree_in_every_bit(data):
    X, y, query_ptr, weights = data
    for left, right in zip(
        moments(np.ascontiguousarray(X), y, query_ptr, weights),
        moments(np.asfortranarray(X), y, query_ptr, weights),
        strict=True,
    ):
        np.testing.assert_array_equal(left, right)
    wanted = range(X.shape[1])
    for left, right in zip(
        all_rows(np.ascontiguousarray(X), query_ptr, weights, wanted),
        all_rows(np.asfortranarray(X), query_ptr, weights, wanted),
        strict=True,
    ):
        np.testing.assert_array_equal(left, right)


@given(data=problems())
def test_dense_gram_matrices_are_symmetric_in_every_bit(data):
    X, _, query_ptr, weights = data
    rows, totals = all_rows(X, query_ptr, weights, range(X.shape[1]))
    np.testing.assert_array_equal(rows, rows.transpose(2, 1, 0))
    np.testing.assert_array_equal(totals, totals.T)


@pytest.mark.parametrize("layout", ["C", "F"])
@given(data=problems(), draw=st.data())
def test_rows_of_features_from_elsewhere_have_the_same_bits(layout, data, draw):
    X, y, query_ptr, weights = data
    n = X.shape[1]
    rows, totals = all_rows(X, query_ptr, weights, range(n))
    first = draw.draw(st.integers(0, n - 1))
    part = slice(first, draw.draw(st.integers(first + 1, n)))
    features = LAYOUTS[layout](X[:, part])
    means = moments(features, y, query_ptr, weights).means
    wanted = np.random.default_rng(n).permutation(n)
    found = np.full((n, len(weights), features.shape[1]), np.nan)
    columns = np.ascontiguousarray(X[:, wanted].T)
    sums = dense.gram_rows(features, query_ptr, weights, means, wanted, wanted, found, columns)
    np.testing.assert_array_equal(found, rows[:, :, part])
    np.testing.assert_array_equal(sums, totals[wanted, part])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_has_the_same_bits_however_many_are_fetched_with_it(layout):
    n, sizes = (16, [3, 70, 1, 128, 17]) if COMPILED else (4, [3, 1, 33])
    X, _, query_ptr, weights = problem(np.random.default_rng(5), sizes, n)
    features = LAYOUTS[layout](X)
    alone = [all_rows(features, query_ptr, weights, [i]) for i in range(n)]
    for size in range(1, n + 1):
        for start in range(0, n, size):
            wanted = list(range(start, min(start + size, n)))[::-1]
            rows, totals = all_rows(features, query_ptr, weights, wanted)
            for place, feature in enumerate(wanted):
                np.testing.assert_array_equal(rows[place], alone[feature][0][0])
                np.testing.assert_array_equal(totals[place], alone[feature][1][0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_go_to_their_slots_and_nowhere_else(layout):
    X, _, query_ptr, weights = problem(np.random.default_rng(6), [4, 5], 3)
    features = LAYOUTS[layout](X)
    rows = np.full((5, 2, 3), 7.0)
    wanted, slots = np.array([2, 0]), np.array([4, 1])
    totals = fetch(features, query_ptr, weights, wanted, slots, rows)
    assert (rows[[0, 2, 3]] == 7.0).all()
    np.testing.assert_array_equal(rows[4].sum(axis=0), totals[0])
    np.testing.assert_array_equal(rows[1].sum(axis=0), totals[1])


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    value=st.floats(-(2.0**100), 2.0**100, width=32), size=st.integers(1, 200 if COMPILED else 40)
)
def test_a_feature_constant_in_a_query_is_exactly_zero_there(layout, value, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size, 2)).astype(np.float32)
    X[:, 0] = value
    features, query_ptr = LAYOUTS[layout](X), np.array([0, size])
    y, weights = rng.normal(size=size), np.ones(1)
    found = moments(features, y, query_ptr, weights)
    rows, totals = all_rows(features, query_ptr, weights, [0, 1])
    assert found.diagonal[0, 0] == found.products[0, 0] == 0.0
    assert not rows[0, 0].any()
    assert not rows[0, :, 0].any()
    assert not totals[0].any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_duplicated_features_have_equal_bits(layout):
    X, y, query_ptr, weights = problem(np.random.default_rng(8), [9, 33, 66], 5)
    features = LAYOUTS[layout](np.hstack([X, X]))
    found = moments(features, y, query_ptr, weights)
    rows, totals = all_rows(features, query_ptr, weights, range(10))
    for values in (found.diagonal, found.products, rows, totals):
        np.testing.assert_array_equal(values[..., :5], values[..., 5:])
    np.testing.assert_array_equal(rows[:5], rows[5:])
    np.testing.assert_array_equal(totals[:5], totals[5:])


@pytest.mark.parametrize(
    ("layout", "mean", "tolerance"),
    [("C", 1e3, 1e-14), ("C", 1e5, 1e-14), ("CSR", 1e3, 1e-12), ("CSR", 1e5, 1e-10)],
)
def test_a_mean_far_above_the_spread_costs_few_digits(layout, mean, tolerance):
    rng = np.random.default_rng(9)
    X = (mean + rng.normal(size=(60, 4))).astype(np.float32)
    y = rng.normal(size=60)
    query_ptr, weights = np.array([0, 25, 60]), np.ones(2)
    features = LAYOUTS[layout](X)
    rows, _ = all_rows(features, query_ptr, weights, range(4))
    found = moments(features, y, query_ptr, weights)
    # The values are float32 and so exact in the wider type, whose rounding is out of the question.
    wide, labels = X.astype(np.longdouble), y.astype(np.longdouble)
    for q, part in enumerate((slice(0, 25), slice(25, 60))):
        X_q = wide[part] - wide[part].mean(axis=0)
        A_q = X_q.T @ X_q
        assert np.abs(rows[:, q] - A_q).max() < tolerance * A_q.max()
        assert np.abs(found.diagonal[q] - np.diag(A_q)).max() < tolerance * A_q.max()
        b_q = X_q.T @ (labels[part] - labels[part].mean())
        assert np.abs(found.products[q] - b_q).max() < tolerance * A_q.max()


@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=problems())
def test_block_gram_equals_the_sums_over_queries(layout, data):
    X, y, query_ptr, weights = data
    A, b, norm = block_gram(LAYOUTS[layout](X), y, query_ptr, weights)
    queries = centred_queries(X, y, query_ptr, weights)
    expected = [
        sum((w * X_q.T @ X_q for X_q, _, w in queries), start=np.zeros_like(A)),
        sum((w * X_q.T @ y_q for X_q, y_q, w in queries), start=np.zeros_like(b)),
        sum(w * y_q @ y_q for _, y_q, w in queries),
    ]
    for left, right in zip((A, b, norm), expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-11)
    np.testing.assert_array_equal(A, A.T)


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 100))
def test_strips_cover_all_queries_in_order(sizes, n_documents):
    query_ptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    strips = strips_of_queries(query_ptr, n_documents)
    assert [q for first, last in strips for q in range(first, last)] == list(range(len(sizes)))
    for first, last in strips[:-1]:
        assert query_ptr[last] - query_ptr[first] >= n_documents
        assert query_ptr[last - 1] - query_ptr[first] < n_documents


@pytest.mark.parametrize("layout", LAYOUTS)
def test_read_only_features_are_read(layout):
    X, y, query_ptr, weights = problem(np.random.default_rng(3), [5, 6], 4)
    features = LAYOUTS[layout](X)
    before = moments(features, y, query_ptr, weights)
    for array in (features.data, y, query_ptr, weights):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    if isinstance(features, np.ndarray):
        features.flags.writeable = False
    for left, right in zip(before, moments(features, y, query_ptr, weights), strict=True):
        np.testing.assert_array_equal(left, right)


def centred_fractions(values):
    exact = np.array([[Fraction(value) for value in row] for row in values.tolist()], dtype=object)
    return exact - exact.sum(axis=0) / Fraction(len(exact))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zeros", [0, 1])
def test_columns_far_from_zero_lose_no_digits(layout, zeros):
    """Columns near 3e7, of which all but the last may have zeros, against exact fractions.

    Products of two columns are off by roundings of the centred columns, not of the columns.
    """
    rng = np.random.default_rng(0)
    X = (3e7 + 4.0 * rng.integers(0, 3, (12, 4))).astype(np.float32)
    X[:, 0] = 2.0**20 * rng.random(12).astype(np.float32)
    X[:zeros, :3] = 0.0
    y, weights = rng.integers(0, 4, 12).astype(np.float64), np.array([0.75])
    centred = centred_fractions(np.column_stack((X, y)).astype(np.float64))
    exact = (Fraction(0.75) * centred.T @ centred).astype(np.float64)
    size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    ptr, features, every = np.array([0, 12]), LAYOUTS[layout](X), np.arange(4)
    rows, _ = all_rows(features, ptr, weights, every)
    found = moments(features, y, ptr, weights)
    gram, products, _ = block_gram(features, y, ptr, weights)
    results = [(rows[:, 0], found.products[0]), (gram, products)]
    if layout == "CSR":
        products = moment_totals(features, y, ptr, weights)[1]
        results.append((row_totals(features, ptr, weights, every), products))
    for gram, products in results:
        assert (np.abs(gram - exact[:4, :4]) <= 1e-14 * size[:4, :4]).all()
        assert (np.abs(products - exact[:4, 4]) <= 1e-14 * size[:4, 4]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(5))
def test_labels_far_from_zero_keep_the_digits_of_their_differences(layout, seed):
    """Labels of 3,830 that differ by 1e-8: their mean is rounded by a share of 1e-5 of that."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 40, 12)
    ptr = np.concatenate(([0], np.cumsum(sizes)))
    y, weights = 3830.0 + 1e-8 * rng.normal(size=ptr[-1]), np.ones(12)
    X = LAYOUTS[layout](rng.normal(size=(ptr[-1], 3)).astype(np.float32))
    expected = []
    for start, end in pairwise(ptr):
        own = [Fraction(float(v)) for v in y[start:end]]
        mean = sum(own) / len(own)
        expected.append(float(sum((v - mean) ** 2 for v in own)))
    np.testing.assert_allclose(moments(X, y, ptr, weights).label_norms, expected, rtol=1e-12)
    if layout == "CSR":
        assert moment_totals(X, y, ptr, weights)[2] == pytest.approx(sum(expected), rel=1e-12)
