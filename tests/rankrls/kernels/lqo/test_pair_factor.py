"""Factors in double-double on columns that depend on each other, against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from dranking.rankrls.kernels.gram.double_double import centred_pairs, sums_of_products
from dranking.rankrls.kernels.lqo.pair_factor import (
    PairRidge,
    few_rows,
    orthogonal_pairs,
    pair_factor,
    rotation_of_pairs,
)
from tests.rankrls.kernels.pairs import exact

LAMBDAS = [2.0**-15, 1.0, 2.0**15]
PTR = np.array([0, 7, 12, 20])


def problem(seed):
    """Units from 1e-3 to 1e9, a rounded sum of two columns, an exact copy, and a constant."""
    rng = np.random.default_rng(seed)
    X = (rng.lognormal(0.0, 1.0, (20, 6)) * 10.0 ** rng.uniform(-3.0, 9.0, 6)).astype(np.float32)
    X[:, 3] = X[:, 0] + X[:, 1]
    X[:, 4] = X[:, 2] * np.float32(1024.0)
    X[:, 5] = 7.0
    y = rng.integers(0, 4, 20).astype(np.float64)
    return centred_pairs(np.column_stack((X, y)).astype(np.float64), PTR, np.ones(3))


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_orthonormal_where_columns_nearly_depend_on_each_other(seed):
    """R'R = X'X, whose condition is 1e15 even for columns of norm 1; R has no rows of rounding."""
    pairs = problem(seed)
    factor = pair_factor(sums_of_products(pairs))
    assert factor.rank == 4
    solved = orthogonal_pairs(pairs, factor)
    np.testing.assert_allclose(solved[:, :4].T @ solved[:, :4], np.eye(4), atol=1e-13)
    rebuilt = solved[:, :4] @ factor.triangle[0, :, :-1]
    scale = factor.norms[factor.columns]
    assert (np.abs(rebuilt - pairs[0][:, factor.columns]) <= 1e-14 * scale).all()
    assert (np.abs(solved[:, 4:]) <= 1e-13 * scale[4:]).all()
    rotation, least = rotation_of_pairs(factor)
    turned = rotation.left * rotation.singular_values @ rotation.left.T
    squares = factor.triangle[0, :, :-1] @ factor.triangle[0, :, :-1].T
    row_norms = np.sqrt(squares.diagonal())
    np.testing.assert_allclose(
        turned @ turned / row_norms / row_norms[:, None],
        squares / row_norms / row_norms[:, None],
        atol=1e-12,
    )
    assert 0.01 < least <= 1.0


@pytest.mark.parametrize("regularization", LAMBDAS)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_at_the_weights_vanishes_with_32_digits(seed, regularization):
    pairs = problem(seed)
    factor = pair_factor(sums_of_products(pairs))
    found = PairRidge(factor).weights(regularization)
    rows, numbers = exact(pairs), exact(found)
    gradient = rows[:, :-1].T @ (rows @ numbers) + Fraction(regularization) * numbers[:-1]
    terms = factor.norms * np.abs(found[0])
    assert (np.abs(gradient.astype(float)) <= 1e-26 * factor.norms[:-1] * terms.sum()).all()


@pytest.mark.parametrize("regularization", LAMBDAS)
def test_systems_of_the_weights_are_solved(regularization):
    pairs = problem(0)
    factor, vector = pair_factor(sums_of_products(pairs)), np.arange(20.0) - 8.0
    solved = orthogonal_pairs(pairs, factor)
    found = PairRidge(factor).solve(solved, vector, regularization)
    rows = exact(pairs)[:, :-1]
    own, right = np.vectorize(Fraction, otypes=[object])(found), vector.astype(int) @ rows
    left = rows.T @ (rows @ own) + Fraction(regularization) * own
    size = factor.norms[:-1] @ np.abs(found) + np.linalg.norm(vector)
    assert (np.abs((left - right).astype(float)) <= 1e-13 * factor.norms[:-1] * size).all()


def test_few_rows_have_the_sums_of_many():
    pairs = problem(0)
    few = few_rows(pairs)
    assert few.shape[1] <= pairs.shape[2] < pairs.shape[1]
    off = sums_of_products(few)[0] - sums_of_products(pairs)[0]
    norms = np.linalg.norm(pairs[0], axis=0)
    assert (np.abs(off) <= 1e-15 * norms * norms[:, None]).all()


def test_no_column_with_data():
    factor = pair_factor(sums_of_products(np.zeros((2, 4, 3))))
    rotation, _ = rotation_of_pairs(factor)
    assert factor.rank == len(rotation.left) == 0
    assert PairRidge(factor).weights(1.0).tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
