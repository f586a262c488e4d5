"""The quadratic over the simplex against SciPy's solver for constrained problems."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dranking.max_margin.kernels.simplex import minimise_on_simplex


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rank", [1, 3, 12])
def test_minimum_is_that_of_another_solver(seed, rank):
    rng = np.random.default_rng(seed)
    n = 10
    A, c = rng.normal(size=(n, rank)), rng.normal(size=n)
    Q = A @ A.T
    x = np.zeros(n)
    x[seed] = 1.0
    steps = minimise_on_simplex(Q, c, x, 1e-10, 100_000)
    assert 0 < steps < 100_000
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)

    def value(z):
        return z @ Q @ z / 2 - c @ z

    peer = minimize(
        value,
        np.full(n, 1 / n),
        jac=lambda z: Q @ z - c,
        method="SLSQP",
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda z: z.sum() - 1, "jac": lambda z: np.ones(n)},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert value(x) == pytest.approx(peer.fun, abs=1e-6)
    assert value(x) <= peer.fun + 1e-9


def test_steps_are_limited_and_nothing_moves_at_the_minimum():
    rng = np.random.default_rng(0)
    A, c = rng.normal(size=(30, 30)), rng.normal(size=30)
    x = np.full(30, 1 / 30)
    assert minimise_on_simplex(A @ A.T, c, x, 0.0, 7) == 7
    minimise_on_simplex(A @ A.T, c, x, 1e-9, 10**6)
    before = x.copy()
    assert minimise_on_simplex(A @ A.T, c, x, 1e-9, 10) == 0
    np.testing.assert_array_equal(x, before)


def test_a_flat_direction():
    """Of two parallel planes, the higher plane takes all weight."""
    x = np.array([1.0, 0.0])
    minimise_on_simplex(np.ones((2, 2)), np.array([0.0, 1.0]), x, 1e-12, 100)
    assert x.tolist() == [0.0, 1.0]
