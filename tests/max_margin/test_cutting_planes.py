"""Cutting planes on the maximum of listed planes, against SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dranking.engine.progress import reporting
from dranking.max_margin import cutting_planes

rng = np.random.default_rng(1)
SLOPES, HEIGHTS = rng.normal(size=(40, 3)), rng.normal(size=40)


def risk(w):
    values = SLOPES @ w + HEIGHTS
    return float(values.max()), SLOPES[values.argmax()]


def test_cutting_planes_find_the_minimum_of_listed_planes():
    """The largest of 40 planes plus lambda / 2 |w|^2, as a smooth problem under constraints."""
    found = cutting_planes.minimise(risk, np.ones(3), 0.1, 1e-7, 500)
    peer = minimize(
        lambda z: z[3] + 0.05 * z[:3] @ z[:3],
        [0, 0, 0, 10],
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: z[3] - SLOPES @ z[:3] - HEIGHTS},
        options={"ftol": 1e-12},
    )
    assert found.objective == pytest.approx(peer.fun, abs=1e-6)


def test_cutting_planes_keep_the_best_lower_bound(monkeypatch):
    """A round whose dual is solved badly, or that lost a plane, keeps the earlier lower bound."""

    def worse_each_second_time(planes, accuracy):
        lower, point = minimum(planes, accuracy)
        calls.append(lower)
        return lower - 100.0 * (len(calls) % 2 == 0), point

    minimum, calls, gaps = cutting_planes.Planes.minimum, [], []
    monkeypatch.setattr(cutting_planes.Planes, "minimum", worse_each_second_time)
    with reporting(lambda stage, done, total, facts: gaps.append(facts["gap"])):
        cutting_planes.minimise(risk, np.ones(3), 0.1, 1e-6, 500)
    assert len(gaps) > 3
    assert (np.diff(gaps) <= 0).all()
