"""Cutting planes on the maximum of listed planes, against SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dranking.engine.progress import reporting
from dranking.max_margin import cutting_planes
from dranking.max_margin.estimator import MaxMarginRanker
from dranking.pairwise.coordinates import Coordinates

rng = np.random.default_rng(1)
SLOPES, HEIGHTS = rng.normal(size=(40, 3)), rng.normal(size=40)


def risk(w):
    values = SLOPES @ w + HEIGHTS
    return float(values.max()), SLOPES[values.argmax()]


def minimised(tol):
    nothing = np.empty(0, dtype=int)
    unscaled = Coordinates(nothing, np.empty(0), np.empty((0, 0)), np.arange(3), np.ones(3))
    return cutting_planes.minimise(risk, unscaled, np.ones(3), 0.1, tol, 500)


def test_cutting_planes_find_the_minimum_of_listed_planes():
    """The largest of 40 planes plus lambda / 2 |w|^2, as a smooth problem under constraints."""
    found = minimised(1e-7)
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
        calls.append(lower_bound(planes, accuracy))
        return calls[-1] - 100.0 * (len(calls) % 2 == 0)

    lower_bound, calls, gaps = cutting_planes.Planes.lower_bound, [], []
    monkeypatch.setattr(cutting_planes.Planes, "lower_bound", worse_each_second_time)
    with reporting(lambda stage, done, total, facts: gaps.append(facts["gap"])):
        minimised(1e-6)
    assert len(gaps) > 3
    assert (np.diff(gaps) <= 0).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("units", "regularization"), [(4.0, 1e-3), (8.0, 1e-6)])
def test_raw_units_take_hardly_more_rounds(units, regularization):
    """Columns in units from 10^-units to 10^units, of which two nearly depend on others."""
    draw = np.random.default_rng(7)
    Z = draw.lognormal(size=(300, 10))
    Z[:, 8], Z[:, 9] = Z[:, 0] + Z[:, 1], Z[:, 2] * (1.0 + 1e-4 * draw.random(300))
    y = np.digitize(np.log(Z[:, :4]).sum(axis=1) + draw.normal(size=300), [0.0, 2.0])
    X = (Z * np.logspace(-units, units, 10)).astype(np.float32)
    ranker = MaxMarginRanker(regularization).fit(X, y, qid=np.repeat(np.arange(30), 10))
    assert ranker.relative_rounding_ <= 1e-4
    assert ranker.n_iter_ <= 80
