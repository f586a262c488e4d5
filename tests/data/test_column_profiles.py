"""Profiles of columns against NumPy on the whole data."""

import numpy as np
import pytest
from scipy import sparse

from dranking.data import column_profiles
from dranking.data.column_profiles import profile_columns
from dranking.data.tables.in_memory import from_arrays

N = 4000
RNG = np.random.default_rng(0)
X = np.stack(
    [
        RNG.lognormal(5, 2, N),
        RNG.normal(size=N),
        RNG.integers(0, 5, N),
        np.full(N, 7.0),
        RNG.lognormal(-8, 2, N),
        np.where(RNG.random(N) < 0.97, 0, -1.0),
        RNG.integers(0, 3000, N),
    ],
    axis=1,
).astype(np.float32)
NAMES = ["bytes", "gauss", "grade", "same", "ratio", "rare", "many"]


def data_of(features):
    qid = np.repeat(np.arange(N // 10), 10)
    return from_arrays(features, np.zeros(N), qid, feature_names=NAMES, max_documents=300)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_figures_are_those_of_the_whole_data(layout):
    found = profile_columns(data_of(layout(X)))
    assert (found.n_blocks, found.n_documents) == (14, N)
    for column, name, x in zip(found.columns, NAMES, X.T, strict=True):
        assert column.name == name
        assert (column.low, column.high) == (x.min(), x.max())
        assert column.zeros == pytest.approx(np.mean(x == 0))
        n_distinct = len(set(x.tolist()))
        if n_distinct < 256:
            assert column.distinct == n_distinct
        else:  # four standard errors of 1 / sqrt(254)
            assert column.distinct == pytest.approx(n_distinct, rel=0.25)
    suggested = [column.suggestion for column in found.columns]
    assert suggested == ["log", "", "", "constant", "rank", "", ""]
    assert found.advice("d").startswith("2 of 7 features have values far above the others")


def test_large_data_is_read_in_part(monkeypatch):
    monkeypatch.setattr(column_profiles, "N_BLOCKS", 3)
    data = data_of(X)
    some = profile_columns(data)
    assert some.n_blocks == 3
    assert some.n_documents == sum(data.blocks[b].n_documents for b in (0, 6, 13))
    assert profile_columns(data, all_blocks=True).n_documents == N


def test_nothing_is_said_of_features_on_one_scale():
    data = from_arrays(X[:, 1:3], np.zeros(N), np.repeat(np.arange(400), 10))
    assert profile_columns(data).advice("d") == ""


def test_minus_zero_is_zero():
    features = np.array([[0.0], [-0.0], [1.0]], dtype=np.float32)
    [column] = profile_columns(from_arrays(features, np.zeros(3), np.zeros(3, int))).columns
    assert (column.distinct, column.zeros) == (2, pytest.approx(2 / 3))
