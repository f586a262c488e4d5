"""Fitted scalings against NumPy on the whole data, for any division into blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse, stats
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer

from dranking.data import quantile_sketch
from dranking.data.affine_scalings import MinMax
from dranking.data.quantile_sketch import QuantileSketch
from dranking.data.scaling import feature_moments, fit_scaling, minmax_of, quantile_of, scaled
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
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
    fitted = fit_scaling(dataset_of(X, max_documents), "standard")
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
    assert fit_scaling(dataset_of(X, 3), "standard").scale[0] == pytest.approx(expected, rel=1e-9)


@given(VALUES, npst.arrays(bool, (12, 3)), st.integers(1, 12))
def test_standard_of_sparse_data_has_no_mean(X, there, max_documents):
    X = X * there
    fitted = fit_scaling(dataset_of(sparse.csr_array(X), max_documents), "standard")
    assert fitted.mean is None
    wide = X.astype(np.float64)
    deviation = np.where(np.ptp(wide, axis=0) > 0, wide.std(axis=0), 1.0)
    np.testing.assert_allclose(fitted.scale, deviation, rtol=1e-9)
    view = scaled(dataset_of(sparse.csr_array(X), max_documents), "standard")
    expected = (X / np.array(fitted.scale)).astype(np.float32)
    np.testing.assert_array_equal(values_of(view), expected)


@given(VALUES, npst.arrays(bool, (12, 3)), st.integers(1, 12), st.booleans())
def test_minmax_is_that_of_scikit_learn(X, there, max_documents, is_sparse):
    """But for ranges below 1e-14, which scikit-learn takes for rounding of a constant.

    The minimum of sparse data is not subtracted.
    """
    X[:, 2] = X[0, 2]
    if is_sparse:
        X = sparse.csr_array(X * there)
    data = dataset_of(X, max_documents)
    view = scaled(data, "minmax")
    X = X.toarray() if is_sparse else X
    X64 = X.astype(np.float64)
    scaler, spread = MinMaxScaler().fit(X64), np.ptp(X64, axis=0)
    expected = scaler.transform(X64) if not is_sparse else X64 * scaler.scale_
    tiny = (spread > 0) & (spread < 1e-14)
    expected[:, tiny] = (X64 if is_sparse else X64 - X64.min(axis=0))[:, tiny] / spread[tiny]
    np.testing.assert_allclose(values_of(view), expected, rtol=1e-6, atol=1e-7)
    [fitted] = view.transforms
    if not is_sparse:
        assert fitted.low == tuple(X.min(axis=0).tolist())
        assert fitted.high == tuple(X.max(axis=0).tolist())


def test_minmax_counts_no_missing_values():
    X = np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan]], dtype=np.float32)
    blocks = [
        from_arrays(np.zeros((1, 2)), [0], [0]).block(0).with_features(X[i : i + 1])
        for i in range(3)
    ]
    moments = [feature_moments(block) for block in blocks]
    assert minmax_of(moments, sparse=False) == MinMax(low=(1.0, 0.0), high=(3.0, 0.0))


def test_blocks_left_empty_count_nothing():
    X = np.arange(36, dtype=np.float32).reshape(12, 3)
    some = dataset_of(X, 3).select_queries(np.array([False, True, False, True]))
    kept = X[np.isin(QID, [2, 4])].astype(np.float64)
    fitted = fit_scaling(some, "standard")
    np.testing.assert_allclose(fitted.mean, kept.mean(axis=0))
    np.testing.assert_allclose(fitted.scale, kept.std(axis=0))


@given(VALUES, st.integers(1, 12))
def test_quantiles_that_fit_are_those_of_scikit_learn(X, max_documents):
    X[:, 2] = np.round(X[:, 2] / 5e5)
    view = scaled(dataset_of(X, max_documents), "quantile")
    places = QuantileTransformer(n_quantiles=12, subsample=None).fit_transform(X)
    found = values_of(view)
    for column, (mine, theirs) in enumerate(zip(found.T, places.T, strict=True)):
        x = X[:, column]
        inner = (x > x.min()) & (x < x.max())  # scikit-learn maps ties at the extremes to 0 and 1
        np.testing.assert_allclose(mine[inner], (theirs[inner] * 11 + 0.5) / 12, atol=1e-6)
        expected = [(np.sum(x < each) + np.sum(x == each) / 2) / 12 for each in x]
        np.testing.assert_allclose(mine, expected, atol=1e-6)
    assert view.transforms[0].rank_error == 0.0


@pytest.mark.parametrize("capacity", [16, 100])
def test_a_sketch_states_a_bound_that_holds(capacity):
    rng = np.random.default_rng(capacity)
    X = np.stack([rng.normal(size=9000), rng.integers(0, 40, 9000), np.sort(rng.random(9000))], 1)
    X = X.astype(np.float32)
    borders = np.sort(rng.choice(9000, 30, replace=False))
    parts = [QuantileSketch.of(part, capacity) for part in np.split(X, borders)]
    total = parts[0]
    for part in parts[1:]:
        total = total.merged(part)
    assert total.n == 9000
    assert max(len(level) for level in total.levels) <= capacity
    assert total.rank_error < 8 / capacity
    weights = np.concatenate([np.full(len(v), 2**h) for h, v in enumerate(total.levels)])
    assert weights.sum() == 9000
    for column in range(3):
        kept = np.concatenate([level[:, column] for level in total.levels])
        for x in np.quantile(X[:, column], np.linspace(0, 1, 41)):
            below = weights[kept < x].sum() - np.sum(X[:, column] < x)
            assert abs(below) <= total.error
    assert quantile_of(parts) == quantile_of(parts)


def test_shares_of_a_sketch_are_within_the_stated_error(monkeypatch):
    monkeypatch.setattr(quantile_sketch, "EXACT_VALUES", 0)
    monkeypatch.setattr(quantile_sketch, "CAPACITY", 200)
    rng = np.random.default_rng(0)
    X = np.stack([rng.lognormal(size=6000), rng.poisson(0.3, 6000)], 1).astype(np.float32)
    data = from_arrays(X, np.zeros(6000), np.repeat(np.arange(600), 10), max_documents=500)
    view = scaled(data, "quantile")
    error = view.transforms[0].rank_error
    assert 0.0 < error < 0.05
    for mine, x in zip(values_of(view).T, X.T, strict=True):
        expected = (stats.rankdata(x) - 0.5) / 6000
        assert np.abs(mine - expected).max() <= error + 1e-6


@pytest.mark.parametrize("normalize", ["query-minmax", "rank", "quantile"])
def test_sparse_data_is_refused(normalize):
    data = dataset_of(sparse.csr_array(np.eye(12, 3, dtype=np.float32)))
    with pytest.raises(DataError, match=f"{normalize} scaling would fill in the zeros"):
        scaled(data, normalize)


NORMALIZE = ["none", "standard", "minmax", "query-minmax", "log", "rank", "quantile"]


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_a_stored_data_set_has_the_values_of_the_view(normalize, tmp_path):
    X = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
    view = scaled(dataset_of(X), normalize)
    blocks = (view.block(b) for b in range(view.n_blocks))
    write_dataset(blocks, tmp_path / "stored", transforms=view.transforms)
    stored = StoredDataset(tmp_path / "stored")
    assert stored.transforms == view.transforms
    np.testing.assert_array_equal(values_of(stored), values_of(view))


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_a_view_is_scaled_alike_whatever_is_read_of_it(normalize):
    X = np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32)
    view = scaled(dataset_of(X), normalize)
    assert [t.kind for t in view.transforms] == [normalize][normalize == "none" :]
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
