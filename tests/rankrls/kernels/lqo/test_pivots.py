"""Packed triangular matrices against NumPy's, a query at a time."""

import numpy as np
import pytest

from dranking.rankrls.kernels.lqo import pivots as packed
from dranking.rankrls.kernels.lqo.pivots import MOST_LANES

SIZES = [0, 1, 2, 7]
LANES = 11


def side_by_side(matrices, capacity):
    """The lower halves of (LANES, t, t) matrices, with room for `capacity` rows."""
    room = packed.packed_matrices(LANES, capacity)[0]
    t = matrices.shape[1]
    room[: t * (t + 1) // 2] = matrices[:, *np.tril_indices(t)].T
    return room


def definite(rng, t):
    half = rng.normal(size=(LANES, t, t + 2))
    return half @ half.transpose(0, 2, 1) + 0.5 * np.eye(t)


@pytest.mark.parametrize("n_queries", [0, 1, 5, MOST_LANES, MOST_LANES + 1, 3 * MOST_LANES - 2])
def test_room_is_for_even_groups(n_queries):
    n_groups, entries, lanes = packed.packed_matrices(n_queries, 4).shape
    assert entries == 10
    assert lanes <= MOST_LANES
    assert n_queries <= n_groups * lanes < n_queries + n_groups


@pytest.mark.parametrize("t", SIZES)
def test_triangular_solves(t):
    rng = np.random.default_rng(t)
    lower = np.tril(rng.normal(size=(LANES, t, t))) + 3.0 * np.eye(t)
    factors, x = side_by_side(lower, t + 1), rng.normal(size=(t, LANES))
    solved = x.copy()
    packed.solve_lower(factors, solved, t)
    np.testing.assert_allclose(np.einsum("qij,jq->iq", lower, solved), x, atol=1e-11)
    solved = x.copy()
    packed.solve_upper(factors, solved, t)
    np.testing.assert_allclose(np.einsum("qji,jq->iq", lower, solved), x, atol=1e-11)


@pytest.mark.parametrize("t", SIZES)
def test_symmetric_products(t):
    rng = np.random.default_rng(t)
    matrices = definite(rng, t)
    x, out = rng.normal(size=(2, t, LANES))
    expected = out - np.einsum("qij,jq->iq", matrices, x)
    packed.subtract_symmetric(side_by_side(matrices, t), x, out, t)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("t", SIZES)
def test_appending_a_row_gives_the_factor_of_the_larger_matrix(t):
    rng = np.random.default_rng(t)
    larger = definite(rng, t + 1)
    M, column, corner = larger[:, :t, :t], larger[:, :t, t], larger[:, t, t]
    factors = side_by_side(np.linalg.cholesky(M), t + 1)
    columns, pivots = np.ascontiguousarray(column.T), corner.copy()
    packed.append_to_factors(factors, columns, pivots, t, 1e-9)
    expected = side_by_side(np.linalg.cholesky(larger), t + 1)
    np.testing.assert_allclose(factors, expected, rtol=1e-11, atol=1e-12)
    beta = np.linalg.solve(M, column[..., np.newaxis])[..., 0]
    np.testing.assert_allclose(columns, beta.T, rtol=1e-10, atol=1e-11)
    schur = corner - np.einsum("qi,qi->q", column, beta)
    np.testing.assert_allclose(pivots, schur, rtol=1e-10)


def test_a_pivot_lost_in_rounding_becomes_the_least_there_can_be():
    """A copy of the selected feature: nothing is left of it but lambda."""
    least = 1e-12
    factors = np.full((3, LANES), 3.0)  # M[S, S] = 9
    columns, corners = np.full((1, LANES), 9.0), np.full(LANES, 9.0)
    packed.append_to_factors(factors, columns, corners, 1, least)
    np.testing.assert_array_equal(corners, least)
    np.testing.assert_array_equal(factors[2], np.sqrt(least))
    np.testing.assert_array_equal(columns, 1.0)
