"""The ledger: levels of any year sum to the budget at most; a test run again spends nothing."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dranking.errors import DataError
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import chance_of_equal, forecast
from dranking.retrain.registry.ledger import Entry, Ledger, detectable, next_level
from dranking.retrain.registry.registry import Registry

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def entry(time=START, level=0.001, run_id="r", against="000001", **facts):
    return Entry(
        **{
            "time": time,
            "run_id": run_id,
            "version": "000002",
            "against": against,
            "judged": "0",
            "metric": "map",
            "n_queries": 100,
            "difference": 0.01,
            "error": 0.005,
            "p_value": 0.02,
            "level": level,
            "budget": 0.5,
            "better": False,
            "accepted": False,
            **facts,
        }
    )


@given(gaps=st.lists(st.floats(0, 100), min_size=1, max_size=60), budget=st.floats(0.01, 3))
def test_levels_of_any_365_days_sum_to_the_budget_at_most(gaps, budget):
    """Whatever the times of the tests are, also after long breaks."""
    tests = []
    for day in np.cumsum(gaps):
        now = START + timedelta(days=float(day))
        tests.append((now, next_level(budget, tests, now)))
    for first, _ in tests:
        year = sum(level for time, level in tests if first <= time < first + 365 * DAY)
        assert year <= budget * (1 + 1e-12)


def test_nightly_tests_spend_all_and_a_clock_that_was_wrong_once_stops_nothing():
    tests = []
    for night in range(800):
        now = START + night * DAY
        tests.append((now, next_level(0.5, tests, now)))
    assert sum(level for _, level in tests[400:765]) == pytest.approx(0.5)
    ahead = [(START + 1000 * DAY, 0.001), (START, 0.001)]
    assert next_level(0.5, ahead, START + DAY) == pytest.approx(0.5 / 365)
    assert next_level(0.5, [(START, 0.001)], START) == 0.0


def test_a_test_that_is_run_again_keeps_its_level_and_place():
    ledger = Ledger().with_entry(entry(level=0.003)).with_entry(entry(START + DAY, 0.001, "s"))
    assert ledger.level(0.5, "r", "000001") == 0.003
    assert ledger.level(0.5, "r", "000007") != 0.003
    again = ledger.with_entry(entry(START + 2 * DAY, 0.003))
    assert [e.run_id for e in again.entries] == ["s", "r"]
    later = again.with_entry(entry(START + 800 * DAY, run_id="t"))
    assert [e.run_id for e in later.entries] == ["t"]


def test_the_difference_that_is_found_is_found_with_its_power():
    rng = np.random.default_rng(0)
    n, level, error = 100, 0.05, 0.02
    found = detectable(error, n, level)
    samples = rng.normal(found, error * np.sqrt(n), (4000, n))
    share = (stats.ttest_1samp(samples, 0, axis=1, alternative="greater").pvalue < level).mean()
    assert share == pytest.approx(0.8, abs=0.03)
    assert detectable(error, n, 0.0) == np.inf


def test_the_chance_of_an_equal_challenger_is_said():
    """For a gate with a lower bound: simulated with Student's interval."""
    rules = GateConfig(metric="map", lower_bound=-0.01)
    error, n = 0.005, 300
    samples = np.random.default_rng(1).normal(0, error * np.sqrt(n), (4000, n))
    mean = samples.mean(axis=1)
    low = mean + stats.t.ppf(0.025, n - 1) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    share = ((mean >= 0) & (low >= -0.01)).mean()
    assert chance_of_equal(rules, error, n) == pytest.approx(share, abs=0.03)


def test_the_default_is_a_budget_unless_there_is_a_lower_bound():
    assert GateConfig().budget == 0.5
    assert GateConfig(lower_bound=-0.01).budget is None
    assert GateConfig(lower_bound=-0.01, false_promotions_per_year=1).budget == 1


def test_the_ledger_is_stored_with_a_digest(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "model.json").write_text("{}")
    registry = Registry(tmp_path / "r")
    assert "first challenger is promoted" in forecast(GateConfig(), registry, "ndcg@10")
    registry.promote(registry.add(tmp_path / "v"))
    registry.record(entry(datetime.now(UTC) - DAY, metric="map"))
    assert len(Registry(tmp_path / "r").ledger.entries) == 1
    text = forecast(GateConfig(metric="map"), registry, "map")
    level = 0.5 / 365
    difference = 0.005 * (stats.t.ppf(1 - level, 99) + stats.norm.ppf(0.8))
    spent = "1 nights tested, 0.002 of this year's budget of 0.5 false promotions spent"
    found = f"a difference of {difference:.2g} map is found with power 0.8 on 100 queries"
    assert text == f"level {level:.2g}; {spent}; at this rate {found}"
    assert "has too few measures by ndcg@10" in forecast(GateConfig(), registry, "ndcg@10")
    stored = tmp_path / "r" / "ledger.json"
    stored.write_text(stored.read_text().replace('"level": 0.001', '"level": 0.000'))
    with pytest.raises(DataError, match=r"ledger\.json: damaged, the content is not what was"):
        _ = Registry(tmp_path / "r").ledger
