"""Sparse weights: what goes in comes out, whatever moves and is released on the way."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from dranking.kernels.sparse_rows import New, compact, find, has_room, insert, room_for
from dranking.kernels.sparse_weights import SparseWeights


@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(1, 9), st.sampled_from([1, 63, 64, 65, 4_096, 9_000])),
    density=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
)
def test_there_and_back(seed, shape, density):
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array(shape, density=density, format="csr", rng=rng)
    order = rng.permutation(shape[1]).astype(np.int32)
    back = SparseWeights(matrix, np.float64, order).to_csr()
    assert back.has_sorted_indices
    assert (back.indptr == matrix.indptr).all()
    np.testing.assert_array_equal(back.toarray(), matrix.toarray())


def add(weights, row, columns):
    """Store a one in each column of a row that is not there yet."""
    while True:  # as in a step: what makes room may take some from this row
        table = weights.table
        entries, strips = (room_for(p, row, len(columns)) for p in (table.pool, table.strip_pool))
        if has_room(table, entries, strips):
            break
        weights.make_room(entries, strips)
    ranks = [find(weights.table, row, column) for column in columns]
    new = [(column, ~rank, 1.0) for column, rank in zip(columns, ranks, strict=True) if rank < 0]
    of_dtype = zip(zip(*new, strict=True), (np.int32, np.int64, np.float64), strict=True)
    if new:
        arrays = [np.array(values, dtype=dtype) for values, dtype in of_dtype]
        arrays = New(*arrays, np.empty(len(new), dtype=np.int64))
        insert(weights.table, row, arrays, len(new))


CHANGES = st.tuples(
    st.integers(0, 3),
    st.lists(st.integers(0, 9_999), min_size=1, max_size=30, unique=True),
    st.sampled_from(["add", "zero", "compact"]),
)


@given(changes=st.lists(CHANGES, max_size=40))
def test_entries_are_where_a_dictionary_has_them(changes):
    weights = SparseWeights(sparse.csr_array((4, 10_000)), np.float64)
    wanted: dict[tuple[int, int], float] = {}
    for row, columns, change in changes:
        if change == "add":
            add(weights, row, sorted(columns))
            wanted |= {(row, c): wanted.get((row, c), 1.0) for c in columns}
        elif change == "zero":
            for column in sorted(c for r, c in wanted if r == row)[::2]:
                start = weights.table.pool.start[row]
                weights.table.values[start + find(weights.table, row, column)] = 0.0
                wanted[row, column] = 0.0
        else:
            compact(weights.table, row)
            wanted = {k: v for k, v in wanted.items() if v or k[0] != row}
    weights.trim()
    found = weights.to_csr().tocoo()
    places = zip(*(c.tolist() for c in found.coords), strict=True)
    assert dict(zip(places, found.data.tolist(), strict=True)) == wanted
    for (row, column), value in wanted.items():
        rank = find(weights.table, row, column)
        assert rank == sum(r == row and c < column for r, c in wanted)
        assert weights.table.values[weights.table.pool.start[row] + rank] == value


def test_holes_are_closed():
    """Rows that outgrow their slots one after the other do not leave the pools full of holes."""
    weights = SparseWeights(sparse.csr_array((50, 2_000)), np.float32)
    for first in range(0, 1_800, 30):
        for row in range(50):
            add(weights, row, list(range(first, first + 30, 3)))
    assert weights.n_stored == 30_000
    assert weights.to_csr().sum() == pytest.approx(30_000)
    assert weights.nbytes <= 20 * 30_000
    weights.trim()
    assert weights.nbytes <= 8 * 30_000
    assert weights.to_csr().sum() == pytest.approx(30_000)
