"""Scalings against plain NumPy on the whole data, and what is recorded of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from dranking.data.memory import from_arrays
from dranking.data.scaling import fit_standard, scaled
from dranking.data.transforms import QueryMinMax, Standard, missing_transforms
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


@given(VALUES, npst.arrays(bool, (12, 3)))
def test_standard_of_sparse_data_keeps_its_zeros(X, there):
    X = X * there
    fitted = fit_standard(dataset_of(sparse.csr_array(X)))
    assert fitted.mean is None
    dense = fit_standard(dataset_of(X))
    np.testing.assert_allclose(fitted.scale, dense.scale, rtol=1e-9)
    view = scaled(dataset_of(sparse.csr_array(X)), "standard")
    expected = (X / np.array(fitted.scale)).astype(np.float32)
    np.testing.assert_array_equal(values_of(view), expected)


@given(VALUES, st.integers(1, 12))
def test_query_minmax(X, max_documents):
    view = scaled(dataset_of(X, max_documents), "query-minmax")
    expected = np.empty_like(X)
    for q in np.unique(QID):
        part = X[QID == q].astype(np.float64)
        low, high = part.min(axis=0), part.max(axis=0)
        expected[QID == q] = np.where(
            high > low, (part - low) / np.where(high > low, high - low, 1), 0
        )
    np.testing.assert_array_equal(values_of(view), expected)
    assert view.transforms == (QueryMinMax(),)


def test_query_minmax_of_sparse_data_is_refused():
    with pytest.raises(DataError, match="would fill in the zeros"):
        scaled(dataset_of(sparse.csr_array(np.eye(12))), "query-minmax")


@pytest.mark.parametrize("normalize", ["standard", "query-minmax"])
def test_columns_are_scaled_alike_when_read_alone(normalize):
    X = np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32)
    view = scaled(dataset_of(X), normalize)
    columns = np.array([3, 1])
    for b in range(view.n_blocks):
        np.testing.assert_array_equal(
            view.block(b, columns).features, view.block(b).features[:, columns]
        )


def test_restricted_standard():
    full = Standard(mean=(1.0, 2.0, 3.0), scale=(4.0, 5.0, 6.0))
    assert full.restricted(np.array([2, 0])) == Standard(mean=(3.0, 1.0), scale=(6.0, 4.0))


def test_what_a_model_needs_and_the_data_has():
    minmax, standard = QueryMinMax(), Standard(mean=None, scale=(2.0,))
    assert missing_transforms((), ()) == ()
    assert missing_transforms((minmax, standard), ()) == (minmax, standard)
    assert missing_transforms((minmax, standard), (minmax,)) == (standard,)
    assert missing_transforms((standard,), (standard,)) == ()
    for needed, present in [((), (minmax,)), ((standard,), (minmax,)), ((minmax,), (standard,))]:
        with pytest.raises(DataError, match="the data was scaled by"):
            missing_transforms(needed, present)
    other = Standard(mean=None, scale=(3.0,))
    with pytest.raises(DataError, match="standard"):
        missing_transforms((standard,), (other,))


def test_a_scaling_of_other_features_is_refused():
    with pytest.raises(DataError, match="made for 2 features, the data has 3"):
        Standard(mean=None, scale=(1.0, 2.0)).apply(dataset_of(np.ones((12, 3))).block(0))
