import numpy as np
import pytest

from pipelines.benchmarks.scale import sparse
from pipelines.benchmarks.scale.sparse import QUICK, Size, make_arrays

TINY = Size(400, 60, 0.1, 20, 3, 10, 12)


def test_made_data_is_as_sparse_as_wanted():
    arrays = make_arrays(QUICK)
    m, n = arrays.X.shape
    assert (m, n) == (QUICK.n_documents, QUICK.n_features)
    assert arrays.X.nnz / (m * n) == pytest.approx(QUICK.density, rel=0.02)
    assert arrays.X.has_canonical_format
    counts = np.bincount(arrays.X.indices, minlength=n)
    assert counts.std() < 1.5 * np.sqrt(counts.mean())
    assert set(np.bincount(arrays.qid)) == {QUICK.documents_per_query}
    assert set(arrays.y) == {0.0, 1.0, 2.0, 3.0}


def test_dense_and_sparse_agree():
    found = sparse.equality(TINY, make_arrays(TINY))
    assert [item.holds for item in found] == [True, True, True]


@pytest.mark.exhaustive
def test_memory_stays_below_one_array_of_queries_and_features():
    """Of 40,000 queries and 20,000 features: 6.4 GB."""
    size = Size(80_000, 20_000, 0.0005, 2, 2, 100, 10)
    for item in sparse.memory(size, make_arrays(size).X.nnz):
        assert item.holds
        assert item.unit == "MB" or item.value < 0.05


@pytest.mark.exhaustive
def test_everything_is_measured(monkeypatch):
    monkeypatch.setattr(sparse, "QUICK", TINY)
    monkeypatch.setattr(sparse, "peak_memory", lambda load, run: 10**6)
    found = sparse.figures(quick=True, rounds=1)
    assert len(found) == 6 + 3 + 4
    assert all(item.holds is not False for item in found.values())
