"""Gram rows guessed from a sample: correlations of the sampled documents, scaled by A."""

import numpy as np
import pytest

from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import ThreadExecutor
from dranking.engine.tiles import Tiles
from dranking.rankrls.gram.sample import sample_of
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.engine.executors import Remote
from tests.models.problems import random_problem
from tests.reference.greedy import centred_queries


@pytest.fixture(scope="module")
def dataset():
    """Correlated features, so that the best next feature depends on the features selected."""
    problem = random_problem(1, n_queries=80, n_features=24)
    mixed = problem.X @ np.random.default_rng(0).normal(size=(24, 24))
    X = (problem.X + mixed / 6.0).astype(np.float32)
    return problem._replace(X=X).dataset(max_documents=50)


EXACT, ROUNDED = Remote(2), ThreadExecutor(2)
WITHIN = {EXACT: 1e-5, ROUNDED: 0.01}


def assert_correlated(sample, A, within):
    """The rows of a sample, scaled by the diagonal of A, are those of A."""
    for i in range(len(A)):
        scale = np.sqrt(np.diag(A) * A[i, i])
        there = scale > 0.0
        found = sample.row(i, np.diag(A))
        np.testing.assert_allclose(
            found[there] / scale[there], A[i, there] / scale[there], atol=within
        )
        assert not found[~there].any()


@pytest.mark.parametrize("executor", [EXACT, ROUNDED])
def test_a_sample_of_all_documents_gives_their_correlations(executor):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(60, 6))
    X = X.astype(np.float32)
    X[:, 4] = 0.0
    dataset = from_arrays(X, rng.normal(size=60), np.arange(60) // 30, max_documents=30)
    sample = sample_of(Tiles(dataset, executor))
    Z = np.concatenate([part - part.mean(axis=0) for part in np.split(X.astype(np.float64), 2)])
    A = Z.T @ Z
    assert_correlated(sample, A, WITHIN[executor])
    assert not sample.row(4, np.diag(A)).any()
    # Twice the diagonal means twice the documents, with the same correlations.
    row = sample.row(0, np.diag(A))
    np.testing.assert_allclose(sample.row(0, 2.0 * np.diag(A)), 2.0 * row, rtol=1e-12)


@pytest.mark.parametrize("executor", [EXACT, ROUNDED])
def test_a_sample_is_of_whole_centred_queries_of_every_block(dataset, executor):
    sample = sample_of(Tiles(dataset, executor))
    A = np.zeros((24, 24))
    for b in range(dataset.n_blocks):
        block = dataset.block(b)
        arrays = block.features, block.relevance, block.query_ptr, block.weights
        A += sum(w * X.T @ X for X, _, w in centred_queries(*arrays))
    assert_correlated(sample, A, WITHIN[executor])


@pytest.mark.parametrize("executor", [EXACT, ROUNDED])
def test_huge_values_leave_a_sample_finite(executor):
    X = (1e19 * np.random.default_rng(0).normal(size=(60, 3))).astype(np.float32)
    dataset = from_arrays(X, np.ones(60), np.zeros(60, dtype=int))
    row = sample_of(Tiles(dataset, executor)).row(0, np.ones(3))
    assert np.isfinite(row).all()
    assert abs(row).max() <= 1.0


@pytest.mark.parametrize("executor", [EXACT, ROUNDED])
def test_a_sample_takes_no_more_of_a_long_query_than_it_needs(dataset, executor, monkeypatch):
    monkeypatch.setattr("dranking.rankrls.gram.sample.MOST_DOCUMENTS", 4 * dataset.n_blocks)
    monkeypatch.setattr("dranking.rankrls.gram.sample.LEAST_DOCUMENTS", 1)
    sample = sample_of(Tiles(dataset, executor))
    A = np.zeros((24, 24))
    for block in map(dataset.block, range(dataset.n_blocks)):
        ends = np.minimum(block.query_ptr, 4)
        weights = block.weights[: np.count_nonzero(np.diff(ends))]
        X, y = block.features[:4], block.relevance[:4]
        queries = centred_queries(X, y, ends[: len(weights) + 1], weights)
        A += sum(w * Z.T @ Z for Z, _, w in queries)
    assert_correlated(sample, A, WITHIN[executor])


@pytest.mark.parametrize("n_blocks", [1, 2, 100])
def test_a_sample_of_statistics_is_of_some_of_their_blocks(
    dataset, n_blocks, tmp_path, monkeypatch
):
    most = n_blocks * dataset.n_documents // dataset.n_blocks + 1
    monkeypatch.setattr("dranking.rankrls.gram.sample.MOST_WITHIN_STATISTICS", most)
    sample = sample_of(Tiles(build_statistics(dataset, tmp_path / "store"), ThreadExecutor(2)))
    A = np.zeros((24, 24))
    step = max(1, -(-dataset.n_blocks // n_blocks))
    for block in map(dataset.block, range(0, dataset.n_blocks, step)):
        arrays = block.features, block.relevance, block.query_ptr, block.weights
        A += sum(w * X.T @ X for X, _, w in centred_queries(*arrays))
    for i in range(24):
        np.testing.assert_allclose(sample.row(i, np.diag(A)), A[i], rtol=1e-9, atol=1e-9)
