"""Far columns and their medians against plain loops."""

from itertools import pairwise
from statistics import median_low

import numpy as np
import pytest
from scipy import sparse

from dranking.rankrls.kernels.far_columns import FAR, VERY_FAR, far_columns

LAYOUTS = [np.ascontiguousarray, np.asfortranarray, sparse.csr_array]
SIZES = [4, 1, 9, 2, *[60] * 20, 6, 7, 8]
QUERY_PTR = np.concatenate(([0], np.cumsum(SIZES)))
NEVER_FAR, CONSTANT, MOVING = [0, 4, 5, 6, 11], [2, 3, 7], [1, 8, 9, 10]


def columns(seed):
    """Columns of `NEVER_FAR`, of `CONSTANT` in each query, and of `MOVING` ones.

    Near zero; a time stamp; constant in each query, and with zeros; far in one query; zeros; mostly
    zeros; constant; a time stamp that the first document of each query has not; one that a fifth of
    the documents have not; one with a huge first document; and a flag of most documents.
    """
    rng = np.random.default_rng(seed)
    m = sum(SIZES)
    X = rng.normal(size=(m, 12)).astype(np.float32)
    X[:, 1] = 1.7e9 + rng.integers(0, 10**7, m)
    X[:, 2] = np.repeat(rng.lognormal(14.0, 3.0, len(SIZES)), SIZES)
    X[:, 3] = np.repeat(rng.integers(0, 2, len(SIZES)) * 1e6, SIZES)
    X[: SIZES[0], 4] += 3.0
    X[:, 5] = 0.0
    X[:, 6] *= rng.random(m) < 0.1
    X[:, 7] = -7.0
    X[:, 8:11] = X[:, [1]]
    X[QUERY_PTR[:-1], 8] = 0.0
    X[rng.random(m) < 0.2, 9] = 0.0
    X[0, 10] = 1e15
    X[:, 11] = rng.random(m) < 0.9
    return X


def queries(column):
    return [column[start:end] for start, end in pairwise(QUERY_PTR)]


def plain_far(column):
    """Whether a column is far, and whether it moves."""
    size = distance = 0.0
    near = apart = votes = 0
    for own in queries(column.astype(float).tolist()):
        point = sorted([own[0], own[len(own) // 2], own[-1]])[1]
        for x in own:
            size, distance = size + abs(x), distance + abs(x - point)
        off = [(abs(x), abs(x - point)) for x in own]
        near += sum(0.0 < d <= s / FAR for s, d in off)
        apart += sum(d > s / FAR for s, d in off)
        # The balance of a query counts as one vote.
        balance = sum((d > 0.0) - 2 * (d > s / VERY_FAR) for s, d in off)
        votes += (balance > 0) - (balance < 0)
    return size > FAR * distance or near > apart or votes > 0, distance > 0.0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_columns_that_are_far_by_plain_loops(layout, seed):
    X = columns(seed)
    found = far_columns(layout(X), QUERY_PTR)
    expected = [i for i in range(X.shape[1]) if plain_far(X[:, i])[0]]
    assert found.columns.tolist() == expected
    assert found.moving.tolist() == [i for i in expected if plain_far(X[:, i])[1]]
    assert set(CONSTANT) <= set(expected) - set(found.moving)
    assert set(MOVING) <= set(found.moving)
    assert not set(NEVER_FAR) & set(expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_medians_are_those_of_plain_loops(layout):
    X = columns(0)
    found = far_columns(layout(X), QUERY_PTR)
    medians = found.medians.toarray() if layout is sparse.csr_array else found.medians
    expected = [[median_low(own) for own in queries(X[:, i])] for i in found.moving]
    np.testing.assert_array_equal(medians.T, expected)


@pytest.mark.parametrize("seed", range(20))
def test_medians_of_entries_of_any_sign(seed):
    """Zeros, which have no entry, lie between negative and positive numbers."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, 40)
    ptr = np.concatenate(([0], np.cumsum(sizes)))
    X = rng.integers(-2, 3, (ptr[-1], 6)).astype(np.float32)
    near = 2.0**20 + rng.integers(0, 99, X.shape)
    X = np.where(rng.random(X.shape) < 0.7, near * rng.choice([-1, 1], 6), X).astype(np.float32)
    found = far_columns(sparse.csr_array(X), ptr)
    assert len(found.moving)
    expected = [[median_low(X[start:end, i]) for i in found.moving] for start, end in pairwise(ptr)]
    np.testing.assert_array_equal(found.medians.toarray(), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_medians_do_not_depend_on_blocks(layout):
    X = layout(columns(1))
    whole = far_columns(X, QUERY_PTR)
    for first, last in [(0, 6), (6, 15), (15, 27)]:
        ptr = QUERY_PTR[first : last + 1]
        part = far_columns(X[ptr[0] : ptr[-1]], ptr - ptr[0])
        there, here = np.isin(whole.moving, part.moving), np.isin(part.moving, whole.moving)
        assert here.sum() >= 3
        expected, found = whole.medians[first:last], part.medians
        if layout is sparse.csr_array:
            expected, found = expected.toarray(), found.toarray()
        np.testing.assert_array_equal(found[:, here], expected[:, there])


def test_stored_zeros_are_zeros():
    values, places = np.float32([0.0, 0.0, 5.0, 5.0, 0.0]), [0, 0, 1, 1, 2]
    X = sparse.csr_array((values, places, [0, 1, 1, 1, 2, 3, 4, 5]), shape=(7, 3))
    assert far_columns(X, np.array([0, 3, 5, 7])).columns.tolist() == []
    assert far_columns(X[3:5], np.array([0, 1, 2])).columns.tolist() == [1]
