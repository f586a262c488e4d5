"""The least maximum of planes against SciPy's solver for constrained problems."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dranking.max_margin.kernels import simplex
from dranking.max_margin.kernels.simplex import least_maximum


def value(slopes, heights, z):
    return np.max(slopes @ z + heights) + z @ z / 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rank", [1, 3, 12])
@pytest.mark.parametrize("wide", [1_000, 2])
def test_minimum_is_that_of_another_solver(seed, rank, wide, monkeypatch):
    """The dual value at the weights, and the value at the point, are the minimum."""
    monkeypatch.setattr(simplex, "WIDE", wide)
    rng = np.random.default_rng(seed)
    n = 10
    A, c = rng.normal(size=(n, rank)), rng.normal(size=n)
    A[:, rank // 2] += 10.0  # planes that fall together
    start = np.zeros(n)
    start[seed] = 1.0
    x, point = least_maximum(A, c, start, 1e-10)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    peer = minimize(
        lambda z: z[-1] + z[:-1] @ z[:-1] / 2,
        np.append(np.zeros(rank), 20.0),
        jac=lambda z: np.append(z[:-1], 1.0),
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda z: z[-1] - A @ z[:-1] - c,
            "jac": lambda z: np.column_stack((-A, np.ones(n))),
        },
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert value(A, c, point) <= peer.fun + 1e-8 * max(1.0, abs(peer.fun))
    lower = c @ x - np.sum((x @ A) ** 2) / 2
    assert lower == pytest.approx(value(A, c, point), rel=1e-8, abs=1e-8)
    again = least_maximum(A, c, x, 1e-8).weights
    np.testing.assert_allclose(again, x, atol=1e-6)


def test_columns_of_any_units():
    """Scaled columns and curvatures: the same planes of a risk, the same minimum.

    Planes are tangents of a sum of |z_i - 1|, whose minimum without a penalty is 0 at z = 1.
    """
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T
    sizes = np.array([1e9, 1.0, 1e-3, 1e6])
    x, point = least_maximum(signs * sizes, -signs.sum(axis=1), np.eye(16)[3], 1e-9)
    # In the third column the penalty wins: z^2 / 2 - 1e-3 z from 0 to 1e-3.
    np.testing.assert_allclose(point[[0, 1, 3]] * sizes[[0, 1, 3]], [1.0, 1.0, 1.0], rtol=1e-9)
    assert point[2] == pytest.approx(1e-3, rel=1e-9)
    np.testing.assert_allclose(x @ (signs * sizes), -point, atol=1e-6)


def test_a_flat_direction():
    """Of two parallel planes, the higher plane takes all weight."""
    x, point = least_maximum(np.ones((2, 1)), np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1e-12)
    assert x.tolist() == [0.0, 1.0]
    assert point.tolist() == [-1.0]


def test_a_search_that_runs_out_has_weights(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(simplex, "MAX_EXCHANGES", 7)
    x, point = least_maximum(rng.normal(size=(30, 30)), rng.normal(size=30), np.eye(30)[0], 0.0)
    assert x.sum() == pytest.approx(1.0)
    assert (x >= 0).all()
    assert np.isfinite(point).all()
