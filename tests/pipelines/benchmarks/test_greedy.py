import numpy as np
import pytest

from pipelines.benchmarks import greedy, harness
from pipelines.benchmarks.greedy import Arrays, Size, bytes_moved, make_arrays

TINY = Size(600, 12, 20, {3: 0.0}, {})


def test_made_queries_have_about_the_wanted_number_of_documents():
    arrays = make_arrays(Size(10_000, 5, 40, {}, {}))
    sizes = np.diff(arrays.query_ptr)
    assert arrays.X.shape == (10_000, 5)
    assert sizes.sum() == len(arrays.y) == 10_000
    assert 35 < sizes.mean() < 45
    assert set(arrays.y) == {0.0, 1.0, 2.0, 3.0}


def test_bytes_that_must_be_moved():
    arrays = Arrays(np.ones((10, 3), np.float32), np.ones(10), np.array([0, 4, 10]))
    x, row = 10 * 3 * 4, 2 * 3 * 8
    # Two features: 2 rows written and read; the 4 numbers of the state read and written once.
    assert bytes_moved(arrays, 2, n_passes=5) == 5 * x + (2 * 2 + 8) * row


def test_both_sides_select_the_same(monkeypatch):
    monkeypatch.setattr(greedy, "BANDWIDTH_BYTES", 2**20)
    figures = {f.name: f for f in greedy.speed(TINY, make_arrays(TINY), 3, rounds=1)}
    at = f"{TINY}, k = 3"
    assert figures[f"picks in common, {at}"].holds
    assert figures[f"criterion off by, {at}"].holds
    assert figures[f"times faster, {at}"].target == 0.0
    assert figures[f"over the memory floor, {at}"].value > 0


@pytest.mark.exhaustive
def test_every_size_is_measured(monkeypatch):
    monkeypatch.setattr(greedy, "QUICK", (TINY,))
    monkeypatch.setattr(greedy, "COLLINEAR", TINY)
    monkeypatch.setattr(greedy, "SELECTED", (2, 4))
    monkeypatch.setattr(greedy, "REPEATS", 1)
    monkeypatch.setattr(greedy, "BANDWIDTH_BYTES", 2**20)
    options = harness.parser("").parse_args(["--quick"])
    names = [figure.name for figure in greedy.measure(options)]
    assert len(names) == len(set(names)) == 2 * 7 + 3 + 3


def test_columns_that_depend_on_each_other_take_few_passes():
    passes, rounding, _ = greedy.collinear(Size(600, 40, 20, {}, {}), 30)
    assert passes.holds
    assert passes.target == 1.5
    assert rounding.value <= 1e-9
