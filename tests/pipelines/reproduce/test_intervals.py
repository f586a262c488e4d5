"""The study of intervals: its intervals against SciPy's, and its table."""

import json

import numpy as np
import pytest
from scipy import stats

from pipelines.reproduce import intervals


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_bootstrap_intervals_are_those_of_scipy(method):
    sample = np.random.default_rng(0).gamma(0.5, size=30)
    found = intervals.intervals(sample, 20_000, seed=1)[method]
    expected = stats.bootstrap((sample,), np.mean, method=method, n_resamples=20_000, rng=2)
    np.testing.assert_allclose(found, expected.confidence_interval, atol=0.02)


def test_students_interval_is_that_of_scipy():
    sample = np.random.default_rng(0).normal(size=12)
    found = intervals.intervals(sample, 10, seed=1)["t"]
    np.testing.assert_allclose(found, stats.t.interval(0.95, 11, sample.mean(), stats.sem(sample)))


@pytest.mark.parametrize("distribution", intervals.DISTRIBUTIONS, ids=lambda each: each.name)
def test_distributions_have_the_mean_that_they_state(distribution):
    draws = distribution.draw(np.random.default_rng(3), (400, 1000))
    assert draws.mean() == pytest.approx(distribution.mean, abs=0.008)


def test_the_table_has_a_row_for_every_cell(capsys, monkeypatch):
    monkeypatch.setattr(intervals, "SIZES", (6,))
    monkeypatch.setattr(intervals, "DISTRIBUTIONS", intervals.DISTRIBUTIONS[-1:])
    intervals.main(["--samples", "40", "--resamples", "50", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["distribution"] for row in rows} == {"tied"}
    assert [row["method"] for row in rows][::4] == ["percentile", "symmetric bootstrap-t"]
    assert all(0 < row["coverage"] < 0.95 for row in rows)
    assert all(row["none"] > 0 for row in rows)
    intervals.main(["--samples", "20", "--resamples", "20"])
    assert "tied differences" in capsys.readouterr().out
