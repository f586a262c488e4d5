"""The leave-query-out criterion from nonzeros, against refits without each query."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from dranking.kernels.machine.compile import frozen
from dranking.rankrls.kernels.gram.dense import Queries
from dranking.rankrls.kernels.gram.per_query import moments
from dranking.rankrls.kernels.gram.sparse import csr_of, gram_rows
from dranking.rankrls.kernels.gram.sparse_query import Fit
from dranking.rankrls.kernels.gram.sparse_totals import moment_totals, row_totals
from dranking.rankrls.kernels.lqo.pivots import packed_matrices
from dranking.rankrls.kernels.lqo.predictions import held_out_weights
from dranking.rankrls.kernels.lqo.sparse import STRIP, add_gains
from dranking.rankrls.kernels.lqo.sparse_fits import explain, held_out_factors, roles
from tests.kernels.compiled import COMPILED
from tests.models.problems import random_problem, sparse_problems
from tests.reference.greedy import centred_queries, held_out_error, ridge_weights


def fit_of(features, y, query_ptr, weights, selected, candidates, regularization):
    """The fit of some features to all queries, and diag A, b and A[S, :]."""
    selected = np.array(selected, dtype=np.int64)
    diagonal, products, _ = moment_totals(features, y, query_ptr, weights)
    rows = row_totals(features, query_ptr, weights, selected)
    between = np.ascontiguousarray(rows[:, selected])
    fit = Fit(
        roles(features.shape[1], selected, candidates),
        selected,
        between,
        products[selected],
        regularization,
    )
    return freeze(fit), diagonal, products, rows


def freeze(values):
    return type(values)(*(frozen(v) if isinstance(v, np.ndarray) else v for v in values))


def gains_of(problem, selected, candidates, regularization):
    """What candidates change of the error, and the error with `selected` alone."""
    X, y, query_ptr, weights = problem.labelled()
    features = sparse.csr_array(X)
    data = features, y, query_ptr, weights
    candidates = np.array(candidates, dtype=np.int64)
    fit, diagonal, products, rows = fit_of(*data, selected, candidates, regularization)
    asked = explain(fit, rows[:, candidates], diagonal[candidates], products[candidates])
    gains, least = np.zeros(len(candidates)), np.full(len(candidates), np.inf)
    queries = Queries(frozen(query_ptr), frozen(weights))
    error = add_gains(csr_of(features), frozen(y), queries, fit, freeze(asked), gains, least)
    return gains, error, least


@given(
    problem=sparse_problems(),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    random=st.randoms(use_true_random=False),
)
def test_gains_are_those_of_refits(problem, regularization, random):
    n_features = problem.X.shape[1]
    order = random.sample(range(n_features), n_features)
    size = random.randrange(n_features + 1)
    selected, candidates = order[:size], order[size:][: random.randrange(n_features + 1)]
    gains, error, least = gains_of(problem, selected, candidates, regularization)
    queries = centred_queries(*problem.labelled())
    floor = 1e-11 * held_out_error(queries, [], regularization)
    expected = held_out_error(queries, selected, regularization)
    assert error == pytest.approx(expected, rel=1e-9, abs=floor)
    for i, gain in zip(candidates, gains, strict=True):
        expected = held_out_error(queries, [*selected, i], regularization)
        assert error + gain == pytest.approx(expected, rel=1e-9, abs=floor)
    for i, complement in zip(candidates, least, strict=True):
        expected = least_complement(queries, selected, i, regularization)
        assert np.isinf(complement) or complement == pytest.approx(expected, rel=1e-7)


def least_complement(queries, selected, candidate, regularization):
    """The smallest Schur complement of a candidate over the held-out queries."""
    S, complements = [*selected, candidate], []
    for held_out in range(len(queries)):
        system = regularization * np.eye(len(S))
        for q, (features, _, weight) in enumerate(queries):
            if q != held_out:
                system += weight * features[:, S].T @ features[:, S]
        complements.append(1.0 / np.linalg.inv(system)[-1, -1])
    return min(complements)


def test_more_candidates_than_a_strip():
    n_queries, n = (12, 2 * STRIP + 5) if COMPILED else (3, STRIP + 13)
    problem = random_problem(1, n_queries=n_queries, n_features=n, zeros=0.97)
    selected = [3, 0, STRIP + 9]
    candidates = np.setdiff1d(np.arange(n), selected)
    gains, error, _ = gains_of(problem, selected, candidates, 0.5)
    few, same, _ = gains_of(problem, selected, candidates[::100], 0.5)
    assert error == same
    np.testing.assert_array_equal(gains[::100], few)
    queries = centred_queries(*problem.labelled())
    for i, gain in zip(candidates[::100], few, strict=True):
        expected = held_out_error(queries, [*selected, i], 0.5)
        assert error + gain == pytest.approx(expected, rel=1e-10)


@given(problem=sparse_problems())
def test_what_varies_in_no_query_gains_exactly_nothing(problem):
    n = problem.X.shape[1]
    constant = problem.X.copy()
    constant[:, -1] = 3.0
    gains, _, _ = gains_of(problem._replace(X=constant), range(n - 1), [n - 1], 1.0)
    assert gains[0] == 0.0


@given(problem=sparse_problems(max_features=5), random=st.randoms(use_true_random=False))
def test_copies_gain_the_same_in_every_bit(problem, random):
    n = problem.X.shape[1]
    doubled = problem._replace(X=np.hstack([problem.X, problem.X]))
    selected = random.sample(range(n), random.randrange(n))
    left = [i for i in range(n) if i not in selected]
    gains, _, _ = gains_of(doubled, selected, [*left, *(n + i for i in left)], 1.0)
    np.testing.assert_array_equal(gains[: len(left)], gains[len(left) :])


def test_zeros_that_are_stored_change_no_value():
    problem = random_problem(4, n_queries=10, n_features=8, zeros=0.8)
    X, y, query_ptr, weights = problem.labelled()
    bare = sparse.csr_array(X)
    stored = sparse.csr_array(np.ones_like(X))
    stored.data[:] = X.ravel()
    for function in (moment_totals, lambda X, y, *rest: row_totals(X, *rest, np.arange(8))):
        for a, b in zip(
            function(bare, y, query_ptr, weights),
            function(stored, y, query_ptr, weights),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-14)


@given(problem=sparse_problems())
def test_totals_are_the_sums_over_queries_in_every_bit(problem):
    X, y, query_ptr, weights = problem.labelled()
    features, wanted = sparse.csr_array(X), np.arange(X.shape[1])[::-1].copy()
    found = moments(features, y, query_ptr, weights)
    diagonal, products, norm = moment_totals(features, y, query_ptr, weights)
    np.testing.assert_array_equal(diagonal, sum(found.diagonal))
    np.testing.assert_array_equal(products, sum(found.products))
    assert norm == sum(found.label_norms)
    rows = np.empty((len(wanted), len(weights), X.shape[1]))
    totals = gram_rows(features, query_ptr, weights, wanted, np.arange(len(wanted)), rows)
    np.testing.assert_array_equal(row_totals(features, query_ptr, weights, wanted), totals)


@given(problem=sparse_problems(), regularization=st.sampled_from([2.0**-4, 1.0]))
def test_held_out_weights_are_those_of_refits(problem, regularization):
    X, y, query_ptr, weights = problem.labelled()
    t, n_queries = X.shape[1], len(weights)
    selected = list(range(t))[::-1]
    features = sparse.csr_array(X)
    fit, *_ = fit_of(features, y, query_ptr, weights, selected, [], regularization)
    factors, other_products = packed_matrices(n_queries, t), np.empty((n_queries, t))
    queries = Queries(frozen(query_ptr), frozen(weights))
    held_out_factors(csr_of(features), frozen(y), queries, fit, factors, other_products)
    found = np.zeros((n_queries, t, t))
    held_out_weights(factors, other_products, found)
    centred = centred_queries(X, y, query_ptr, weights)
    for q, (features_q, _, _) in enumerate(centred):
        others = centred[:q] + centred[q + 1 :]
        for size in range(1, t + 1):
            S = selected[:size]
            expected = ridge_weights(others, S, regularization) if others else np.zeros(size)
            # Weights along directions of rounding may differ; what they say of documents may not.
            np.testing.assert_allclose(
                features_q[:, S] @ found[q, size - 1, :size],
                features_q[:, S] @ expected,
                rtol=1e-8,
                atol=1e-9,
            )
