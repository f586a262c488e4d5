"""Profiles add up whatever the storage; the index equals its definition; limits hold by chance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.concatenated import ConcatenatedDataset
from dranking.engine.choose_executor import get_executor
from dranking.retrain.workflows.drift import drift_between, population_stability
from dranking.retrain.workflows.profiles import QUERIES, parse_profile, profile_edges, profile_of


def dataset(X, max_documents=50, first=0):
    n = X.shape[0]
    qid = first + np.arange(n) // 5
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
    for j, (column, ends) in enumerate(zip(X.T, edges, strict=True)):
        bins = np.zeros((-(-n // 5), 10), dtype=int)
        for row, value in enumerate(column):
            bins[row // 5, sum(value > end for end in ends)] += 1
        assert profile.counts[j].tolist() == bins.sum(axis=0).tolist()
        order = lambda rows: sorted(map(tuple, rows.tolist()))  # noqa: E731
        assert order(profile.sample[:, j]) == order(bins)


@given(seed=st.integers(0, 1000))
def test_sparse_data_has_the_same_profile(seed):
    X = values(seed, 90)
    dense, stored = dataset(X), dataset(sparse.csr_matrix(X))
    assert stored.is_sparse
    edges = profile_edges(dense)
    np.testing.assert_array_equal(profile_edges(stored), edges)
    run = get_executor("threads")
    same(profile_of(stored, edges, run), profile_of(dense, edges, run))


def same(a, b):
    assert a.feature_names == b.feature_names
    assert a.n_queries == b.n_queries
    for name in ("edges", "counts", "ranks", "sample"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_profiles_of_parts_add_up(monkeypatch):
    monkeypatch.setattr("dranking.retrain.workflows.profiles.QUERIES", 10)  # of 28
    parts = [dataset(values(seed, 70), first=100 * seed) for seed in (1, 2)]
    edges = profile_edges(parts[0])
    run = get_executor("threads")
    first, second = (profile_of(part, edges, run) for part in parts)
    whole = profile_of(ConcatenatedDataset(parts), edges, run)
    assert (whole.n_queries, len(whole.sample)) == (28, 10)
    same(first + second, whole)
    with pytest.raises(ValueError, match="do not add up"):
        _ = first + profile_of(parts[1], profile_edges(parts[1]), run)


def test_a_profile_is_stored_and_damage_is_named():
    data = dataset(values(1, 70))
    profile = profile_of(data, profile_edges(data), get_executor("threads"))
    content = profile.to_bytes()
    same(parse_profile(content, "file"), profile)
    for damaged in (b"", content[:-30], b"x" + content):
        with pytest.raises(dr.DataError, match="file: not a profile of features"):
            parse_profile(damaged, "file")


def test_the_index_by_hand():
    before, after = np.array([50, 30, 20]), np.array([20, 30, 50])
    expected = 2 * 0.3 * math.log(0.5 / 0.2)
    assert population_stability(before, after) == pytest.approx(expected)
    assert population_stability(before, before // 10) == pytest.approx(0, abs=1e-12)
    gone = population_stability(before, np.array([50, 50, 0]))
    floor = 1e-4
    expected = 0.2 * math.log(0.5 / 0.3) + (floor - 0.2) * math.log(floor / 0.2)
    assert gone == pytest.approx(expected)


def clustered(rng, n_queries, shift=0.0):
    """Queries of 5 documents that are alike: most of the variance is between queries."""
    centres = np.repeat(rng.normal(size=(n_queries, 6)), 5, axis=0)
    X = centres + 0.3 * rng.normal(size=centres.shape)
    X[:, 5] += shift
    return X.astype(np.float32)


@pytest.mark.parametrize(("n_before", "n_after"), [(60, 60), (60, 12)])
def test_parts_without_drift_are_rarely_beyond_their_limits(n_before, n_after):
    """At a level of .1: of 80 splits between 1 and 18 are rejected, each with probability .999.

    A limit of .25 for every part rejects a quarter of them or more.
    """
    run = get_executor("threads")
    rejected = large = found = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        parts = [dataset(clustered(rng, n)) for n in (n_before, n_after)]
        edges = profile_edges(parts[0])
        before, after = (profile_of(part, edges, run) for part in parts)
        drift = drift_between(before, after, level=0.1, n_permutations=99, seed=seed)
        rejected += any(shift.index > shift.limit for shift in drift.values())
        large += any(shift.index > 0.25 for shift in drift.values())
        if seed < 10:
            moved = profile_of(dataset(clustered(rng, n_after, shift=2.0)), edges, run)
            drift = drift_between(before, moved, level=0.1, n_permutations=99, seed=seed)
            found += drift["f6"].index > drift["f6"].limit
    assert 1 <= rejected <= 18
    assert large > 20
    assert found == 10


def test_limits_of_many_queries_are_small_and_of_one_query_never_exceeded():
    run, rng = get_executor("threads"), np.random.default_rng(1)
    many = dataset(clustered(rng, 2 * QUERIES), max_documents=2000)
    edges = profile_edges(many)
    before, after, moved, one = (
        profile_of(dataset(clustered(rng, n, shift), max_documents=2000), edges, run)
        for n, shift in ((1500, 0), (1500, 0), (1500, 0.3), (1, 50.0))
    )
    assert before.n_queries == 1500
    assert len(before.sample) == QUERIES
    drift = drift_between(before, moved, level=0.05, n_permutations=199)
    assert max(shift.limit for shift in drift.values()) < 0.06
    assert [name for name, shift in drift.items() if shift.index > shift.limit] == ["f6"]
    drift = drift_between(before, after, level=0.05, n_permutations=199)
    assert not [name for name, shift in drift.items() if shift.index > shift.limit]
    few = profile_of(dataset(clustered(rng, 9)), edges, run)
    drift = drift_between(few, one, level=0.05, n_permutations=199)  # 10 splits: none is rare
    assert not [name for name, shift in drift.items() if shift.index > shift.limit]


@pytest.mark.parametrize("value", [5.0, 0.0, -2.5])
def test_a_constant_that_changes_is_seen_whichever_way(value):
    before = dataset(np.full((100, 1), value, dtype=np.float32))
    edges = profile_edges(before)
    run = get_executor("threads")
    for other, moved in ((value, False), (value - 1, True), (value + 1, True)):
        after = dataset(np.full((100, 1), other, dtype=np.float32))
        counts = (profile_of(data, edges, run).counts for data in (before, after))
        [index] = population_stability(*counts)
        assert index == pytest.approx(2 * (1 - 1e-4) * math.log(1e4) if moved else 0)


def test_a_sample_of_large_data_is_taken_over_all_of_it(monkeypatch):
    monkeypatch.setattr("dranking.retrain.workflows.profiles.SAMPLE", 100)
    X = np.arange(1000, dtype=np.float32)[:, None]
    [edges] = profile_edges(dataset(X))
    np.testing.assert_allclose(edges, np.arange(100, 1000, 100), atol=11)
    monkeypatch.setattr(
        "dranking.retrain.workflows.profiles.SAMPLE", 334
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
