"""Panels of products against plain sums, in every bit; room in huge pages is room like any."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import prod

import numpy as np
import pytest

from dranking.engine.memory import release_memory
from dranking.kernels import pages
from dranking.kernels.compile import kernel
from dranking.kernels.pages import HUGE_PAGE, SLAB, give_back_slabs, room, side_by_side
from dranking.kernels.panels import NARROW_WIDTH, WIDTH, add_panel, eliminate_panel, padded
from dranking.rankers.gram import block_moments, room_for_rows, with_fresh_rows
from tests.rankers.problems import random_problem


@kernel
def added(left, right, strip, size, sums, column):
    add_panel(left, right, strip, size, sums, column)


@pytest.mark.parametrize("add", [added, add_panel], ids=["compiled", "python"])
@pytest.mark.parametrize("size", [0, 1, 3, 8])
def test_panels_are_sums_in_order_rounded_once_a_product(add, size):
    rng = np.random.default_rng(size)
    weights, strip = rng.normal(size=(2, 8)), rng.normal(size=(8, 3 * WIDTH))
    sums = rng.normal(size=(2, 3 * WIDTH))
    wanted = sums.copy()
    for row in range(2):
        for i in range(WIDTH, 2 * WIDTH):
            for d in range(size):
                product = Fraction(weights[row, d]) * Fraction(strip[d, i])
                wanted[row, i] = float(product + Fraction(wanted[row, i]))
    add(weights[0], weights[1], strip, size, sums, WIDTH)
    np.testing.assert_array_equal(sums, wanted)


@kernel
def eliminated(beta, delta, rows, slots, total_rows, q, column, out):
    eliminate_panel(beta, delta, rows, slots, total_rows, q, column, out)


@pytest.mark.parametrize("eliminate", [eliminated, eliminate_panel], ids=["compiled", "python"])
@pytest.mark.parametrize("t", [0, 1, 5])
def test_eliminations_are_sums_in_order_rounded_once_a_product(eliminate, t):
    rng = np.random.default_rng(t)
    n, slots = NARROW_WIDTH + 5, rng.permutation(7)[: t + 1]
    beta, delta = rng.normal(size=(2, t))
    rows, total_rows = rng.normal(size=(7, 3, n)), rng.normal(size=(t + 1, n))
    out = np.full((2, n), np.nan)
    eliminate(beta, delta, rows, slots, total_rows, 2, 3, out)

    def minus_product(total, a, b):
        return float(Fraction(total) - Fraction(a) * Fraction(b))

    for i in range(n):
        if not 3 <= i < 3 + NARROW_WIDTH:
            assert np.isnan(out[:, i]).all()
            continue
        own = rows[slots, 2, i]
        others = total_rows[:, i] - own
        g, m, h = own[t], others[t], 0.0
        for j in range(t):
            g = minus_product(g, beta[j], own[j])
            m = minus_product(m, beta[j], others[j])
            h = minus_product(h, delta[j], others[j])
        np.testing.assert_array_equal(out[:, i], [m, h + g])


def test_padded_columns_are_whole_panels():
    assert [padded(n) for n in (1, WIDTH, WIDTH + 1)] == [WIDTH, WIDTH, 2 * WIDTH]


@pytest.fixture
def no_free_slab():
    give_back_slabs()
    yield
    give_back_slabs()


def task_arrays(*shapes):
    """What tasks make, each one array, which is alone in a slab."""
    arrays = []
    for shape in shapes:
        with side_by_side(HUGE_PAGE // (8 * prod(shape)) + 1):
            arrays.append(room(*shape))
    return arrays


@pytest.mark.parametrize("n_alike", [1, 10**6])
@pytest.mark.parametrize("has_huge_pages", [True, False])
def test_arrays_of_a_task_do_not_overlap(has_huge_pages, n_alike, monkeypatch):
    monkeypatch.setattr(pages, "HAS_HUGE_PAGES", pages.HAS_HUGE_PAGES and has_huge_pages)
    shapes = [(3, 5), (HUGE_PAGE // 8, 2), (SLAB // 8 + 7,), (0, 4), (100, 1_000), (1,)]
    shapes += [(HUGE_PAGE // 8 + 3,)] * 4
    with side_by_side(n_alike):
        arrays = [room(*shape) for shape in shapes]
    arrays.append(room(7, 7))
    for number, array in enumerate(arrays):
        array[...] = number
    for number, (array, shape) in enumerate(zip(arrays, [*shapes, (7, 7)], strict=True)):
        assert array.shape == shape
        assert array.flags.c_contiguous
        assert (array == number).all()


@pytest.mark.skipif(not pages.HAS_HUGE_PAGES, reason="the system has no huge pages")
def test_a_kernel_without_huge_pages_gives_others(monkeypatch, no_free_slab):
    monkeypatch.setattr(pages.mmap, "MADV_HUGEPAGE", 99)  # which no kernel knows
    monkeypatch.setattr(pages.mmap, "MADV_FREE", 99)
    [array] = task_arrays((5, 7))
    array[...] = 7.0
    assert (array == 7.0).all()
    del array
    assert len(pages._KEPT) == 0  # the system could not take its pages


@pytest.mark.skipif(not pages.HAS_HUGE_PAGES, reason="the system has no huge pages")
def test_slabs_are_used_again_once_no_array_in_them_is_left(no_free_slab):
    [gone] = task_arrays((100, 1_000))
    kept = gone[3:, ::7].T  # a view of a part
    there = gone.ctypes.data
    kept[...] = 7.0
    del gone
    [other] = task_arrays((100, 1_000))
    assert other.ctypes.data != there
    other[...] = 0.0
    assert (kept == 7.0).all()
    del kept
    [again] = task_arrays((10, 10))
    assert again.ctypes.data == there


@pytest.mark.skipif(not pages.HAS_HUGE_PAGES, reason="the system has no huge pages")
def test_few_free_slabs_are_kept_and_no_larger_memory(no_free_slab):
    arrays = task_arrays(*[(9,)] * (pages.MOST_KEPT + 2), (SLAB // 8 + 1,))
    assert len(pages._KEPT) == 0
    arrays.clear()
    assert [len(memory) for memory in pages._KEPT] == [SLAB] * pages.MOST_KEPT
    release_memory()
    assert len(pages._KEPT) == 0


@pytest.mark.skipif(not pages.HAS_HUGE_PAGES, reason="the system has no huge pages")
def test_threads_that_take_and_free_slabs_never_share_one(no_free_slab):
    def work(number):
        for _ in range(300):
            arrays = task_arrays((50,), (60,))
            for array in arrays:
                array[...] = number
            if not all((array == number).all() for array in arrays):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_few_small_arrays_stay_where_they_are():
    with side_by_side(2):
        assert room(100).base is None
        assert room(HUGE_PAGE // 16).base is not None
    assert room(HUGE_PAGE).base is None


def test_rows_that_are_computed_anew_are_not_kept_by_what_is_beside_them():
    block = random_problem().dataset().block(0)
    moments = block_moments(block)

    def owns(_, rows, slots):
        return rows.base is None

    with side_by_side(10**6):
        features = np.arange(3)
        assert with_fresh_rows(owns, block, None, moments, None, features)
        assert room_for_rows(moments, 3).rows.base is not None
