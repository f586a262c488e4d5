"""Estimates of rounding against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from dranking.rankrls.kernels.lqo.factor_rounding import relative_rounding, share_of_exact
from dranking.rankrls.kernels.lqo.orthogonal import ridge_from_factor
from tests.reference.exact_selection import ExactRefits

LAMBDAS = [2.0**-15, 2.0**-6, 1.0, 2.0**15]


def factor_of_sums(X, y):
    """R of [X y] whose sums of products are the float64 sums, as a statistics store holds them."""
    rows = np.column_stack((X, y)).astype(np.float64)
    rows -= rows.mean(axis=0)
    sums = rows.T @ rows
    scale = np.sqrt(sums.diagonal())
    values, vectors = np.linalg.eigh(sums / scale / scale[:, None])
    roots = np.sqrt(np.maximum(values, 0.0))
    return np.linalg.qr((roots[:, None] * vectors.T) * scale, mode="r")


def nearly_a_copy(seed, n_features=2):
    """The last column is a copy of the first but in one document, where it is the next float."""
    rng = np.random.default_rng(seed)
    X = (rng.lognormal(0.0, 1.0, (12, n_features)) * 1e9).astype(np.float32)
    X[0, 0] = np.float32(10.0 ** rng.integers(0, 9))
    X[:, -1] = X[:, 0]
    X[0, -1] = np.nextafter(X[0, 0], np.float32(np.inf))
    y = np.zeros(12)
    y[0] = 1.0
    return X, y


@pytest.mark.parametrize("n_features", [2, 3])
@pytest.mark.parametrize("regularization", LAMBDAS)
def test_sums_of_products_that_lose_a_column_say_so(n_features, regularization):
    """What the sums lose of the last column predicts the relevance, for small lambda."""
    for seed in range(40):
        X, y = nearly_a_copy(seed, n_features)
        refits = ExactRefits(X, y, [0, 12], np.ones(1), regularization)
        factor = factor_of_sums(X, y)
        weights = ridge_from_factor(factor, regularization)
        [rounding], _ = relative_rounding(factor, np.array([regularization]), 2)
        off = refits.prediction_distance(weights)
        assert off <= max(1e-9, rounding) or rounding == 1.0, (seed, off, rounding)


@pytest.mark.parametrize("regularization", [1.0, 2.0**5])
def test_a_column_that_sums_of_products_lost_may_take_all_of_a_prediction(regularization):
    """The sums of both columns are equal in every bit, so that R has one row only."""
    X, y = nearly_a_copy(0)
    X[0] = 2.0**15, np.nextafter(np.float32(2.0**15), np.float32(np.inf))
    factor = np.zeros((3, 3))
    rows = np.column_stack((X, y)).astype(np.float64)
    rows -= rows.mean(axis=0)
    factor[0, :2] = np.linalg.norm(rows[:, 0])
    factor[0, 2] = rows[:, 0] @ y / factor[0, 0]
    factor[2, 2] = np.sqrt(rows[:, 2] @ y - factor[0, 2] ** 2)
    weights = ridge_from_factor(factor, regularization)
    refits = ExactRefits(X, y, [0, 12], np.ones(1), regularization)
    off = refits.prediction_distance(weights)
    [rounding], columns = relative_rounding(factor, np.array([regularization]), 2)
    assert off <= rounding
    assert columns


@pytest.mark.parametrize("regularization", [2.0**-5, 1.0, 2.0**15])
def test_lambda_keeps_the_digits_of_a_copy(regularization):
    """The copy's diagonal element is rounding alone, above which lambda stands."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3)).astype(np.float32)
    X = np.column_stack((X, X[:, 0]))
    y = rng.integers(0, 4, 12).astype(np.float64)
    factor = factor_of_sums(X, y)
    weights = ridge_from_factor(factor, regularization)
    off = ExactRefits(X, y, [0, 12], np.ones(1), regularization).prediction_distance(weights)
    [rounding], columns = relative_rounding(factor, np.array([regularization]), 2)
    assert off <= rounding <= 1e-8
    assert columns == []


def test_errors_of_lambdas_are_their_own():
    X, y = nearly_a_copy(0)
    factor = factor_of_sums(X, y)
    together, _ = relative_rounding(factor, np.array([2.0**-15, 2.0**70]), 2)
    alone = [relative_rounding(factor, np.array([value]), 2)[0][0] for value in (2.0**-15, 2.0**70)]
    assert together.tolist() == alone
    assert alone[1] < alone[0]


@pytest.mark.parametrize("nothing", [np.nan, np.inf])
def test_a_number_that_is_not_finite_has_no_certain_digit(nothing):
    stated, off = np.array([nothing, 2.0, nothing, 2.0]), np.array([0.0, nothing, nothing, 1e-9])
    with np.errstate(all="raise"):
        assert share_of_exact(stated, off).tolist() == [1.0, 1.0, 1.0, pytest.approx(5e-10)]


def test_shares_are_of_the_exact_number():
    """Every exact number within the distance is off by the share at most, or the share is 1."""
    stated, off = np.array([2.0, 2.0, 2.0, 2.0, 0.0, 0.0]), np.array([0.0, 0.5, 1.0, 5.0, 0.0, 1.0])
    found = share_of_exact(stated, off)
    for s, o, share in zip(stated.tolist(), off.tolist(), found.tolist(), strict=True):
        least = Fraction(s) - Fraction(o)
        expected = Fraction(o) / least if least > 0 else Fraction(int(o > 0.0))
        assert share == pytest.approx(float(min(expected, 1)))
