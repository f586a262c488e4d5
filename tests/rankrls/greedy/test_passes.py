"""Passes of selections of all features of raw data: bounded, whatever columns depend on what."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from dranking.errors import AccuracyWarning
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from tests.models.problems import Problem
from tests.rankrls.greedy.selections import assert_same_paths
from tests.rankrls.raw_checks import assert_errors
from tests.rankrls.raw_problems import share_missed
from tests.reference.exact_selection import ExactRefits, to_float

N_QUERIES, N_DOCUMENTS = 24, 8


def heavy(rng, n):
    return np.exp(rng.normal(size=(N_QUERIES * N_DOCUMENTS, n))) * 10.0 ** rng.uniform(-3.0, 9.0, n)


def copies(rng, n):
    return heavy(rng, 6)[:, rng.integers(0, 6, n)]


def sums(rng, n):
    base = heavy(rng, 8).astype(np.float32)
    added = [base[:, rng.choice(8, 3, replace=False)].sum(axis=1) for _ in range(n - 8)]
    return np.column_stack([base, *added])


def differences(rng, n):
    """Differences of columns of the scale 1e8, which keep a few digits of float32."""
    base = (1e8 * rng.normal(size=(N_QUERIES * N_DOCUMENTS, 8))).astype(np.float32)
    pairs = rng.integers(0, 8, (n - 8, 2))
    noise = 10.0 ** rng.integers(-2, 3, n - 8) * rng.normal(size=(len(base), n - 8))
    return np.column_stack([base, base[:, pairs[:, 0]] - base[:, pairs[:, 1]] + noise])


def constants(rng, n):
    within = np.repeat(1e6 * rng.normal(size=(N_QUERIES, n - 8)), N_DOCUMENTS, axis=0)
    return np.column_stack([heavy(rng, 8), within])


def of_one_query(rng, n):
    """Two thirds of the columns have values in a single query."""
    X = heavy(rng, n)
    queries = np.repeat(np.arange(N_QUERIES), N_DOCUMENTS)
    for j in range(n // 3, n):
        X[:, j] *= queries == rng.integers(N_QUERIES)
    return X


def outliers(rng, n):
    X = rng.random((N_QUERIES * N_DOCUMENTS, n))
    X[rng.integers(0, len(X), n), np.arange(n)] *= 1e8
    return X


def dominant_query(rng, n):
    X = heavy(rng, n)
    X[:N_DOCUMENTS] *= 2.0**17
    return X


KINDS = [copies, sums, differences, constants, of_one_query, outliers, dominant_query]


def problem_of(kind, n):
    rng = np.random.default_rng(1)
    X = np.ascontiguousarray(kind(rng, n), dtype=np.float32)
    y = rng.integers(0, 4, len(X)).astype(np.float64)
    return Problem(X, y, np.full(N_QUERIES, N_DOCUMENTS), np.ones(N_QUERIES))


def selected(data, n, start=(), **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return select_paths(data, [2.0**-10], SelectionRules(n, start=start), **options)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", KINDS)
def test_a_selection_takes_at_most_one_and_a_half_passes_a_pick_and_16(kind, layout):
    """Sparse columns of a single query took 4.4 passes a pick, and dense ones 3.2."""
    found = selected(problem_of(kind, 30).dataset(layout), 30)
    assert found.n_passes <= 1.5 * 30 + 16
    if layout is np.asarray:
        assert found.n_passes <= 1.5 * 30
    [path] = found.paths
    assert sorted(path.selected) == list(range(30))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_sums_take_no_pass_for_the_pivots_of_each_round(layout):
    """A state without digits gave the picks of sparse data no loss, which took a pass to find."""
    assert selected(problem_of(sums, 30).dataset(layout), 30).n_passes <= 1.4 * 30


def without_factors(monkeypatch):
    """Data of few features is treated as data of more features than factors take."""
    monkeypatch.setattr("dranking.rankrls.gram.triangular_factor.MAX_WIDE_FEATURES", 1)
    monkeypatch.setattr("dranking.rankrls.gram.triangular_factor.DOCUMENTS_PER_FEATURE", 10**6)


def test_data_too_wide_for_factors_takes_few_passes(monkeypatch):
    """Every round in doubt read the documents twice or three times."""
    without_factors(monkeypatch)
    for kind in (sums, of_one_query):
        assert selected(problem_of(kind, 30).dataset(), 30).n_passes <= 1.5 * 30


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("kind", [of_one_query, outliers, dominant_query])
def test_no_pick_is_worse_than_the_doubt_of_its_round(kind, is_wide, monkeypatch):
    """All errors are checked at the end, but only some rounds are checked before they pick."""
    if is_wide:
        without_factors(monkeypatch)
    problem = problem_of(kind, 9)
    [path] = selected(problem.dataset(), 9).paths
    n_checked = sum(doubt.was_checked for doubt in path.doubts)
    assert n_checked == 4
    refits = ExactRefits(*problem.labelled(), path.regularization)
    assert_errors(refits, path, path.relative_rounding)
    assert path.relative_rounding <= 1e-5
    for (*before, pick), doubt in zip(path.kept, path.doubts, strict=True):
        errors = [refits.error([*before, i]) for i in {*range(9)} - {*before}]
        assert share_missed(refits.error([*before, pick]), min(errors)) <= max(1e-9, doubt.share)
    assert path.unproven == [r for r, doubt in enumerate(path.doubts) if doubt.share > 1e-6]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("kind", "step"), [(copies, -1), (sums, 1)])
def test_features_of_start_without_digits_have_errors(kind, step, layout):
    """Their state had no number left, and the error that was stated was NaN."""
    problem = problem_of(kind, 16)
    [path] = selected(problem.dataset(layout), 16, start=np.arange(16)[::step]).paths
    refits = ExactRefits(*problem.labelled(), path.regularization)
    assert path.lqo_error[-1] == pytest.approx(to_float(refits.error(path.selected)), rel=1e-9)
    assert all(np.isfinite(weights).all() for weights in path.weights)


def test_a_selection_that_is_resumed_counts_its_checks(tmp_path):
    data, file = problem_of(outliers, 12).dataset(), tmp_path / "checkpoint"
    expected = selected(data, 12)
    selected(data, 6, checkpoint=file)
    assert_same_paths(selected(data, 12, checkpoint=file).paths, expected.paths)
