"""Sparse weights: what goes in comes out, whatever moves and is released on the way."""

import mmap
import sys
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numba import config, njit
from numba.core.registry import cpu_target
from scipy import sparse

from dranking.kernels import lanes as moved
from dranking.kernels import machine, sparse_weights
from dranking.kernels.bilinear import as_csr
from dranking.kernels.compile import kernel
from dranking.kernels.lanes import compress, expand, lanes
from dranking.kernels.machine import deposit, extract, give_back
from dranking.kernels.sparse_row_growth import grow
from dranking.kernels.sparse_rows import compact, find, has_room, room_for
from dranking.kernels.sparse_weights import SPARE, SparseWeights
from dranking.kernels.strip_vector import room_for_difference, subtract


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


def add(weights, row, columns, value=1.0):
    """Store a value in each column of a row that is not there yet."""
    while True:  # as in a step: what makes room may take some from this row
        table = weights.table
        entries, strips = (room_for(p, row, len(columns)) for p in (table.pool, table.strip_pool))
        if has_room(table, entries, strips):
            break
        weights.make_room(entries, strips)
    new = [column for column in columns if find(weights.table, row, column) < 0]
    ones = sparse.csr_array(
        (np.ones(len(columns), np.float32), columns, [0, len(columns), len(columns)]),
        shape=(2, weights.shape[1]),
    )
    vector = room_for_difference(as_csr(ones), weights.shape[1])
    subtract(weights.table.place, as_csr(ones), 0, 1, vector)
    grow(weights.table, row, vector, np.empty_like(vector.numbers))
    for column in new:
        start = weights.table.pool.start[row]
        weights.table.values[start + find(weights.table, row, column)] += value


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
    found = weights.to_csr().tocoo()
    places = zip(*(c.tolist() for c in found.coords), strict=True)
    assert dict(zip(places, found.data.tolist(), strict=True)) == wanted
    for (row, column), value in wanted.items():
        rank = find(weights.table, row, column)
        assert rank == sum(r == row and c < column for r, c in wanted)
        assert weights.table.values[weights.table.pool.start[row] + rank] == value


@pytest.mark.parametrize("n_columns", [300, 5_000])
def test_rows_of_hundreds_grow_in_their_midst(n_columns):
    """New entries of a strip may be anywhere among those of more than one word of a bitmap."""
    rng = np.random.default_rng(0)
    weights, wanted = SparseWeights(sparse.csr_array((2, n_columns)), np.float32), {}
    for value in range(1, 41):
        row, columns = value % 2, np.sort(rng.choice(n_columns, rng.integers(1, 60), False))
        wanted = {(row, c): float(value) for c in columns.tolist()} | wanted
        add(weights, row, columns.tolist(), value)
    found = weights.to_csr().tocoo()
    places = zip(*(c.tolist() for c in found.coords), strict=True)
    assert dict(zip(places, found.data.tolist(), strict=True)) == wanted


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


ROOMS = ("kept", "kept_strips")


def assert_consistent(weights):
    """What is counted is there, rows do not overlap, behind the pools some elements are free."""
    t = weights.table
    for row in range(weights.shape[0]):
        first, n_strips = t.strip_pool.start[row], t.strip_pool.used[row]
        columns = t.strips[first : first + n_strips].view(np.uint64)
        counts = np.bitwise_count(columns).astype(int)
        assert counts[:-1].all()
        assert columns[-1] == 0
        before = np.cumsum(counts) - counts
        assert t.entries_before[first : first + n_strips].tolist() == before.tolist()
        assert counts.sum() == t.pool.used[row] <= t.pool.capacity[row]
        strips = np.bitwise_count(t.bands[row].view(np.uint64)).astype(int)
        assert strips.sum() + 1 == n_strips <= t.strip_pool.capacity[row]
        assert t.strips_before[row].tolist() == (np.cumsum(strips) - strips).tolist()
    for pool, *arrays in (t.pool, t.values), (t.strip_pool, t.strips, t.entries_before):
        extents = sorted((s, s + c) for s, c in zip(pool.start, pool.capacity, strict=True) if c)
        assert all(end <= start for (_, end), (start, _) in pairwise(extents))
        assert extents[-1][1] <= pool.end[0] <= pool.limit[0]
        assert all(pool.limit[0] + SPARE <= len(array) for array in arrays)


@pytest.mark.parametrize("reserved", [1, 4])
@pytest.mark.parametrize("n_columns", [64, 4_096, 8_192, 9_000])
def test_pools_move_piece_by_piece(monkeypatch, n_columns, reserved):
    """Until rows are full, and no room of a bitmap is too short."""
    monkeypatch.setattr(sparse_weights, "PIECE", 700)
    monkeypatch.setattr(sparse_weights, "RESERVED", reserved)
    rng = np.random.default_rng(n_columns)
    weights = SparseWeights(sparse.csr_array((3, n_columns)), np.float32)
    rooms = {name: np.full(len(getattr(weights.table, name)) + 9, 77) for name in ROOMS}
    weights._table = weights.table._replace(**{name: r[:-9] for name, r in rooms.items()})
    moved_to = [weights.table.values]
    wanted = np.zeros(weights.shape)
    for part in np.array_split(rng.permutation(n_columns), 12):
        for row in range(3):
            add(weights, row, np.sort(part).tolist(), row + 1)
            wanted[row, part] = row + 1
            assert_consistent(weights)
            if weights.table.values is not moved_to[-1]:
                moved_to.append(weights.table.values)
    assert len(moved_to) > 2
    np.testing.assert_array_equal(weights.to_csr().toarray(), wanted)
    for room in rooms.values():
        assert (room[-9:] == 77).all()


def test_where_there_is_no_memory_nothing_changes():
    matrix = sparse.random_array((9, 500), density=0.3, format="csr", rng=np.random.default_rng(0))
    weights = SparseWeights(matrix, np.float64)
    size = weights.nbytes
    for n_entries, n_strips in ((2**50, 0), (10_000, 2**50)):
        with pytest.raises(MemoryError):
            weights.make_room(n_entries, n_strips)
        assert weights.nbytes == size
        np.testing.assert_array_equal(weights.to_csr().toarray(), matrix.toarray())


def test_a_system_that_reserves_nothing_gives_what_is_needed(monkeypatch):
    asked = []

    def empty(n, dtype):
        asked.append(n)
        if len(asked) == 1:
            raise MemoryError
        return np.zeros(n, dtype)

    monkeypatch.setattr(sparse_weights.np, "empty", empty)
    assert len(sparse_weights.reserve(100, np.float32)) == 100 + SPARE
    assert asked == [400 + SPARE, 100 + SPARE]


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_a_matrix_without_rows_or_columns(shape):
    weights = SparseWeights(sparse.csr_array(shape), np.float32)
    weights.make_room(10, 10)
    weights.release()
    weights.trim()
    assert weights.to_csr().shape == shape


def test_memory_is_given_back_in_whole_pages():
    n = 40 * mmap.PAGESIZE // 4
    values = np.ones(n, dtype=np.float32)
    give_back(values[100:-100])
    give_back(values[:5])
    assert (values[:100] == 1.0).all()
    assert (values[-100:] == 1.0).all()
    assert sys.platform != "linux" or np.count_nonzero(values == 0.0) >= n // 40 * 38


def without(feature):
    """A mark for what needs compiled kernels on a machine with a feature."""
    there = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    is_there = config.DISABLE_JIT == 0 and (feature is None or f"+{feature}" in there)
    return pytest.mark.skipif(not is_there, reason=f"not compiled, or not for {feature}")


def moves(by):
    """`expand` and `compress` by some instructions, or (None) as they are in Python.

    Compiled anew and not kept on disk: what they are depends on what `instructions` says.
    """
    if by is None:
        return expand, compress

    @njit
    def expanded(values, source, target, kept):
        moved._expand(values, source, target, kept)

    @njit
    def compressed(values, source, target):
        return moved._compress(values, source, target)

    return expanded, compressed


@kernel
def width_in_kernels(values):
    return lanes(values)


@pytest.mark.parametrize(
    "by",
    [
        None,
        pytest.param("", marks=without(None)),
        pytest.param("avx2", marks=without("avx2")),
        pytest.param("avx512f", marks=without("avx512f")),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_vectors_are_moved_as_loops_move_them(monkeypatch, dtype, by):
    monkeypatch.setattr(moved, "instructions", lambda: by)
    expanded, compressed = moves(by)
    rng = np.random.default_rng(0)
    for source, target, kept in rng.integers(0, [30, 30, 2**20], (200, 3)).tolist():
        values = (rng.integers(0, 3, 60) * rng.normal(size=60) * 1e6).astype(dtype)
        width, before = 64 // values.itemsize, values.copy()
        bits = [(kept >> i) & 1 for i in range(width)]
        read = iter(values[source:].tolist())
        wanted = [next(read) if bit else 0.0 for bit in bits]
        expanded(values, source, target, kept)
        assert values[target : target + width].tolist() == wanted
        before[target : target + width] = values[target : target + width]
        np.testing.assert_array_equal(values, before)
        if dtype == np.int64:
            continue  # only numbers are compressed, those that are not zero
        part = values[source : source + width].tolist()
        wanted = [value for value in part if value != 0.0]
        nonzero = sum(1 << i for i, value in enumerate(part) if value != 0.0)
        assert compressed(values, source, target) == nonzero
        assert width_in_kernels(values) == width
        before[target : target + len(wanted)] = wanted
        void = slice(target + len(wanted), target + width)
        before[void] = values[void]
        np.testing.assert_array_equal(values, before)


@kernel
def deposited(bits, places):
    return deposit(bits, places)


@kernel
def extracted(bits, places):
    return extract(bits, places)


@without(None)
def test_bits_are_moved_with_and_without_an_instruction(monkeypatch):
    monkeypatch.setattr(machine, "deposits_fast", lambda: False)
    deposited_slowly = kernel(machine._overload_deposit(None, None))
    extracted_slowly = kernel(machine._overload_extract(None, None))
    pairs = np.random.default_rng(0).integers(-(2**63), 2**63, (200, 2)).tolist()
    for bits, places in [*pairs, (-1, -1), (0, -1), (-1, 0), (1, -(2**63)), (-(2**63), -1)]:
        ones = [i for i in range(64) if (places >> i) & 1]
        wanted = sum(1 << place for n, place in enumerate(ones) if (bits >> n) & 1)
        for of in (deposited, deposited_slowly, deposit):
            assert of(bits, places) % 2**64 == wanted
        wanted = sum(1 << n for n, place in enumerate(ones) if (bits >> place) & 1)
        for of in (extracted, extracted_slowly, extract):
            assert of(bits, places) % 2**64 == wanted
