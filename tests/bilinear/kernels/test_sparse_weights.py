"""Sparse weights: what goes in comes out, whatever moves and is released on the way."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from dranking.bilinear.kernels.sparse_rows import (
    compact,
    enter_row,
    find,
    give_room,
    has_room,
    room_for,
)
from dranking.bilinear.kernels.sparse_weights import SparseWeights
from tests.kernels.compiled import COMPILED


@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(1, 9), st.sampled_from([1, 63, 64, 65, 4_096, 65_536, 65_537])),
    density=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
)
def test_there_and_back(seed, shape, density):
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array(shape, density=density, format="csr", rng=rng, dtype=np.float32)
    order = rng.permutation(shape[1]).astype(np.int32)
    back = SparseWeights(matrix, order).to_csr()
    assert back.has_sorted_indices
    assert (back.indptr == matrix.indptr).all()
    np.testing.assert_array_equal(back.toarray(), matrix.toarray())


def places(weights, row, columns):
    """Where columns are in a row, or -1, as a visit finds them among notes of other visits."""
    positions = np.full(weights.shape[1], (4 << 32) | 3)
    for visit, other in ((5, (row + 1) % weights.shape[0]), (6, row)):
        enter_row(weights.table, other, visit, positions)
    return [int(find(column, 6, positions)) for column in columns]


def add(weights, row, columns, value=1.0):
    """Store a value in each column of a row that is not there yet."""
    while True:  # as in a step: what makes room may take some from this row
        slots = room_for(weights.table, row, len(columns))
        if has_room(weights.table, slots):
            break
        weights.make_room(slots)
    table = weights.table
    give_room(table, row, len(columns))
    assert table.used[row] + len(columns) < table.capacity[row]
    for column, place in zip(columns, places(weights, row, columns), strict=True):
        if place < 0:
            slot = table.start[row] + table.used[row]
            table.columns[slot], table.values[slot] = column, value
            table.used[row] += 1


CHANGES = st.tuples(
    st.integers(0, 3),
    st.one_of(
        st.lists(st.integers(0, 9_999), min_size=1, max_size=30, unique=True),
        st.lists(st.integers(60, 200), min_size=1, max_size=90, unique=True),
    ),
    st.sampled_from(["add", "zero", "compact"]),
)


@given(changes=st.lists(CHANGES, max_size=40))
def test_entries_are_where_a_dictionary_has_them(changes):
    weights = SparseWeights(sparse.csr_array((4, 10_000)))
    wanted: dict[tuple[int, int], float] = {}
    for row, columns, change in changes:
        if change == "add":
            add(weights, row, sorted(columns))
            wanted |= {(row, c): wanted.get((row, c), 1.0) for c in columns}
        elif change == "zero":
            zeroed = sorted(c for r, c in wanted if r == row)[::2]
            for place in places(weights, row, zeroed):
                weights.table.values[weights.table.start[row] + place] = 0.0
            wanted |= {(row, column): 0.0 for column in zeroed}
        else:
            compact(weights.table, row)
            wanted = {k: v for k, v in wanted.items() if v or k[0] != row}
    found = weights.to_csr().tocoo()
    coords = zip(*(c.tolist() for c in found.coords), strict=True)
    assert dict(zip(coords, found.data.tolist(), strict=True)) == wanted
    for row in range(4):
        there = places(weights, row, range(10_000))
        assert {c for c in range(10_000) if there[c] >= 0} == {c for r, c in wanted if r == row}
        for column in (c for r, c in wanted if r == row):
            slot = weights.table.start[row] + there[column]
            assert weights.table.columns[slot] == column
            assert weights.table.values[slot] == wanted[row, column]


def test_holes_are_closed():
    """Rows that outgrow their slots one after the other do not leave the pools full of holes."""
    n_rows = 50 if COMPILED else 5
    weights, n = SparseWeights(sparse.csr_array((n_rows, 2_000))), 600 * n_rows
    for first in range(0, 1_800, 30):
        for row in range(n_rows):
            add(weights, row, list(range(first, first + 30, 3)))
    assert weights.n_stored == n
    assert weights.to_csr().sum() == pytest.approx(n)
    assert weights.nbytes <= 20 * n
    weights.trim()
    assert weights.nbytes == 6 * (n + 1) + 24 * n_rows + 4 * 2_000 + 8
    assert weights.to_csr().sum() == pytest.approx(n)


def assert_consistent(weights):
    """Rows do not overlap, and the pools are longer than the slots given to rows."""
    t = weights.table
    order = np.lexsort((t.capacity, t.start))
    assert (t.used <= t.capacity).all()
    for row, following in pairwise(order):
        assert t.start[row] + t.capacity[row] <= t.start[following]
    assert t.start[order[-1]] + t.capacity[order[-1]] <= t.end[0]
    assert t.end[0] < min(len(t.columns), len(t.values))


@pytest.mark.parametrize("n_columns", [64, *([4_096, 9_000] if COMPILED else [500])])
def test_rows_move_and_pools_grow_until_rows_are_full(n_columns):
    rng = np.random.default_rng(n_columns)
    weights = SparseWeights(sparse.csr_array((3, n_columns)))
    sizes = {len(weights.table.values)}
    wanted = np.zeros(weights.shape)
    for part in np.array_split(rng.permutation(n_columns), 12):
        for row in range(3):
            add(weights, row, np.sort(part).tolist(), row + 1)
            wanted[row, part] = row + 1
            assert_consistent(weights)
            sizes.add(len(weights.table.values))
    assert len(sizes) > 2
    np.testing.assert_array_equal(weights.to_csr().toarray(), wanted)


def test_where_there_is_no_memory_nothing_changes():
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((9, 500), density=0.3, format="csr", rng=rng, dtype=np.float32)
    weights = SparseWeights(matrix)
    size = weights.nbytes
    with pytest.raises(MemoryError):
        weights.make_room(2**50)
    assert weights.nbytes == size
    np.testing.assert_array_equal(weights.to_csr().toarray(), matrix.toarray())


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_a_matrix_without_rows_or_columns(shape):
    weights = SparseWeights(sparse.csr_array(shape))
    weights.make_room(10)
    weights.release()
    weights.trim()
    assert weights.to_csr().shape == shape
