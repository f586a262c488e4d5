"""Profiles add up and do not depend on storage; the index equals its definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.concatenated import ConcatenatedDataset
from dranking.engine.executor import get_executor
from dranking.retrain.workflows.drift import (
    Profile,
    population_stability,
    profile_edges,
    profile_of,
)


def dataset(X, max_documents=50):
    n = X.shape[0]
    qid = np.arange(n) // 5
    return dr.from_arrays(X, np.zeros(n), qid, max_documents=max_documents)


def values(seed, n, n_features=4):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, n_features)), 1).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = 0
    return X


@given(seed=st.integers(0, 1000), n=st.integers(1, 200))
def test_edges_are_deciles(seed, n):
    X = values(seed, n)
    for column, edges in zip(X.T, profile_edges(dataset(X)), strict=True):
        ordered = sorted(column.tolist())
        expected = [ordered[math.ceil(level * n / 10) - 1] for level in range(1, 10)]
        if ordered[0] == expected[1]:
            expected[0] = math.nextafter(ordered[0], -math.inf)
        assert list(edges) == expected


@given(seed=st.integers(0, 1000), n=st.integers(1, 200))
def test_counts_are_of_documents_up_to_each_edge(seed, n):
    X, other = values(seed, n), values(seed + 1, 60)
    edges = profile_edges(dataset(other))
    profile = profile_of(dataset(X), edges, get_executor("threads"))
    for column, ends, counts in zip(X.T, edges, profile.counts, strict=True):
        bins = [0] * 10
        for value in column:
            bins[sum(value > end for end in ends)] += 1
        assert list(counts) == bins


@given(seed=st.integers(0, 1000))
def test_sparse_data_has_the_same_profile(seed):
    X = values(seed, 90)
    dense, stored = dataset(X), dataset(sparse.csr_matrix(X))
    assert stored.is_sparse
    edges = profile_edges(dense)
    assert profile_edges(stored) == edges
    run = get_executor("threads")
    assert profile_of(stored, edges, run) == profile_of(dense, edges, run)


def test_profiles_of_parts_add_up():
    parts = [dataset(values(seed, 70)) for seed in (1, 2)]
    edges = profile_edges(parts[0])
    run = get_executor("threads")
    first, second = (profile_of(part, edges, run) for part in parts)
    assert first + second == profile_of(ConcatenatedDataset(parts), edges, run)
    with pytest.raises(ValueError, match="do not add up"):
        _ = first + profile_of(parts[1], profile_edges(parts[1]), run)


def test_the_index_by_hand():
    def profile(*counts):
        return Profile(feature_names=("x",), edges=((1.0, 2.0),), counts=(counts,))

    before, after = profile(50, 30, 20), profile(20, 30, 50)
    expected = 2 * 0.3 * math.log(0.5 / 0.2)
    assert population_stability(before, after) == {"x": pytest.approx(expected)}
    assert population_stability(before, profile(5, 3, 2)) == {"x": pytest.approx(0, abs=1e-12)}
    gone = population_stability(before, profile(50, 50, 0))["x"]
    floor = 1e-4
    expected = 0.2 * math.log(0.5 / 0.3) + (floor - 0.2) * math.log(floor / 0.2)
    assert gone == pytest.approx(expected)


@pytest.mark.parametrize("value", [5.0, 0.0, -2.5])
def test_a_constant_that_changes_is_seen_whichever_way(value):
    before = dataset(np.full((100, 1), value, dtype=np.float32))
    edges = profile_edges(before)
    run = get_executor("threads")
    for other, moved in ((value, False), (value - 1, True), (value + 1, True)):
        after = dataset(np.full((100, 1), other, dtype=np.float32))
        profiles = (profile_of(data, edges, run) for data in (before, after))
        [index] = population_stability(*profiles).values()
        assert index == pytest.approx(2 * (1 - 1e-4) * math.log(1e4) if moved else 0)


def test_a_sample_of_large_data_is_taken_over_all_of_it(monkeypatch):
    monkeypatch.setattr("dranking.retrain.workflows.drift.SAMPLE", 100)
    X = np.arange(1000, dtype=np.float32)[:, None]
    [edges] = profile_edges(dataset(X))
    np.testing.assert_allclose(edges, np.arange(100, 1000, 100), atol=11)
    monkeypatch.setattr(
        "dranking.retrain.workflows.drift.SAMPLE", 334
    )  # every third; 50 in a block
    [edges] = profile_edges(dataset(X))
    taken = range(0, 1000, 3)
    assert list(edges) == [taken[math.ceil(level * len(taken) / 10) - 1] for level in range(1, 10)]


def test_concatenated_data_has_the_fingerprint_of_one():
    X = values(3, 100)
    qid, y = np.arange(100) // 5, np.zeros(100)
    whole = dr.from_arrays(X, y, qid, max_documents=50)
    halves = [
        dr.from_arrays(X[s], y[s], qid[s], max_documents=50) for s in (slice(50), slice(50, 100))
    ]
    joined = ConcatenatedDataset(halves)
    assert joined.fingerprint == whole.fingerprint
    assert joined.n_blocks == whole.n_blocks == 2
    assert joined.block(1).digest() == whole.block(1).digest()
    with pytest.raises(IndexError):
        joined.block(2)
    with pytest.raises(dr.DataError, match=r"data set 2 of 2 .* feature names differ"):
        ConcatenatedDataset([whole, dataset(values(1, 10, n_features=3))])
