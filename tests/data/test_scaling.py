"""Fitted scalings against NumPy on the whole data, for any division into blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from dranking.data.scaling import fit_standard, scaled
from dranking.data.tables.in_memory import from_arrays
from dranking.data.transforms import QueryMinMax
from dranking.errors import DataError

VALUES = npst.arrays(
    np.float32, (12, 3), elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
)
QID = np.repeat([1, 2, 3, 4], 3)


def dataset_of(X, max_documents=5):
    return from_arrays(X, np.zeros(12), QID, max_documents=max_documents)


def values_of(dataset):
    blocks = [dataset.block(b).features for b in range(dataset.n_blocks)]
    return sparse.vstack(blocks).toarray() if dataset.is_sparse else np.concatenate(blocks)


@given(VALUES, st.integers(1, 12))
def test_standard(X, max_documents):
    X[:, 2] = X[0, 2]
    fitted = fit_standard(dataset_of(X, max_documents))
    wide = X.astype(np.float64)
    np.testing.assert_allclose(fitted.mean, wide.mean(axis=0), rtol=1e-12, atol=1e-9)
    deviation = np.where(np.ptp(wide, axis=0) > 0, wide.std(axis=0), 1.0)
    np.testing.assert_allclose(fitted.scale, deviation, rtol=1e-9)
    assert fitted.scale[2] == 1.0
    view = scaled(dataset_of(X, max_documents), "standard")
    expected = (wide - np.array(fitted.mean)) / np.array(fitted.scale)
    np.testing.assert_array_equal(values_of(view), expected.astype(np.float32))
    assert view.transforms == (fitted,)


def test_a_large_offset_costs_no_digits():
    rng = np.random.default_rng(0)
    X = (1e6 + rng.normal(size=(12, 1))).astype(np.float32)
    expected = X.astype(np.float64).std()  # sums of squares would be off by about 1e-4
    assert fit_standard(dataset_of(X, 3)).scale[0] == pytest.approx(expected, rel=1e-9)


@given(VALUES, npst.arrays(bool, (12, 3)), st.integers(1, 12))
def test_standard_of_sparse_data_has_no_mean(X, there, max_documents):
    X = X * there
    fitted = fit_standard(dataset_of(sparse.csr_array(X), max_documents))
    assert fitted.mean is None
    wide = X.astype(np.float64)
    deviation = np.where(np.ptp(wide, axis=0) > 0, wide.std(axis=0), 1.0)
    np.testing.assert_allclose(fitted.scale, deviation, rtol=1e-9)
    view = scaled(dataset_of(sparse.csr_array(X), max_documents), "standard")
    expected = (X / np.array(fitted.scale)).astype(np.float32)
    np.testing.assert_array_equal(values_of(view), expected)


def test_blocks_left_empty_count_nothing():
    X = np.arange(36, dtype=np.float32).reshape(12, 3)
    some = dataset_of(X, 3).select_queries(np.array([False, True, False, True]))
    kept = X[np.isin(QID, [2, 4])].astype(np.float64)
    fitted = fit_standard(some)
    np.testing.assert_allclose(fitted.mean, kept.mean(axis=0))
    np.testing.assert_allclose(fitted.scale, kept.std(axis=0))


@pytest.mark.parametrize("normalize", ["none", "standard", "query-minmax"])
def test_a_view_is_scaled_alike_whatever_is_read_of_it(normalize):
    X = np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32)
    view = scaled(dataset_of(X), normalize)
    kinds = {"none": [], "standard": ["standard"], "query-minmax": ["query-minmax"]}
    assert [t.kind for t in view.transforms] == kinds[normalize]
    columns = np.array([3, 1])
    for b in range(view.n_blocks):
        np.testing.assert_array_equal(
            view.block(b, columns).features, view.block(b).features[:, columns]
        )
        assert view.block(b).info == view.blocks[b]
    again = scaled(view, "query-minmax")
    assert again.transforms == (*view.transforms, QueryMinMax())
    assert values_of(again).min() == 0
    assert values_of(again).max() == 1


def test_query_minmax_of_sparse_data_is_refused():
    with pytest.raises(DataError, match="would fill in the zeros"):
        scaled(dataset_of(sparse.csr_array(np.eye(12))), "query-minmax")
