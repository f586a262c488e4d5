"""The ledger: levels of any year sum to the budget at most; a test run again spends nothing."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dranking.errors import DataError
from dranking.files.json_files import sealed_json, unsealed
from dranking.metrics.per_query import PerQuery, write_per_query
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import chance_of_equal, forecast
from dranking.retrain.registry.ledger import Entry, Evidence, Ledger, detectable, next_level
from dranking.retrain.registry.registry import PER_QUERY_NAME, Registry

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
            "n_effective": 100.0,
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


@given(
    nights=st.lists(st.booleans(), min_size=100, max_size=500),
    breaks=st.lists(st.tuples(st.integers(0, 500), st.integers(20, 300)), max_size=3),
)
def test_levels_of_nightly_tests_with_long_breaks_keep_the_budget(nights, breaks):
    """Nights with tests, less some breaks: the sum of every 365 days, day by day."""
    levels = [0.0] * len(nights)
    tests = []
    for night, is_tested in enumerate(nights):
        if is_tested and not any(start <= night < start + n for start, n in breaks):
            now = START + night * DAY
            levels[night] = next_level(0.5, tests, now)
            tests.append((now, levels[night]))
    for first in range(len(levels)):
        assert sum(levels[first : first + 365]) <= 0.5 * (1 + 1e-12)


def test_a_long_break_leaves_the_budget_to_the_tests_that_follow():
    """A test after 200 nights without one gets the share of 31, as after a month."""
    tests = [(START, 0.5 / 365)]
    for night in range(200, 200 + 365):
        now = START + night * DAY
        tests.append((now, next_level(0.5, tests, now)))
    levels = [level for _, level in tests[1:]]
    assert levels[0] == pytest.approx(31 * 0.5 / 365)
    assert levels[1:335] == pytest.approx([0.5 / 365] * 334)
    assert sum(levels) == pytest.approx(0.5)
    months = [(START, 0.5 / 365)]
    for month in range(1, 12):
        now = START + 31 * month * DAY
        months.append((now, next_level(0.5, months, now)))
    assert sum(level for _, level in months) == pytest.approx(0.5 * (1 + 11 * 31) / 365)


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
    again = ledger.with_entry(entry(START + 2 * DAY, 0.003, accepted=True))
    assert [(e.run_id, e.time) for e in again.entries] == [("r", START), ("s", START + DAY)]
    assert again.entries[0].accepted
    assert again.of_year(START + 365 * DAY) == list(again.entries[1:])
    much_later = again.with_entry(entry(START + 735 * DAY, 0.003))
    assert [(e.run_id, e.time) for e in much_later.entries] == [("r", START)]
    later = again.with_entry(entry(START + 800 * DAY, run_id="t"))
    assert [e.run_id for e in later.entries] == ["t"]


def test_the_difference_that_is_found_is_found_with_its_power():
    rng = np.random.default_rng(0)
    n, level, error = 100, 0.05, 0.02
    found = detectable(Evidence(error, n, n), level)
    samples = rng.normal(found, error * np.sqrt(n), (4000, n))
    share = (stats.ttest_1samp(samples, 0, axis=1, alternative="greater").pvalue < level).mean()
    assert share == pytest.approx(0.8, abs=0.03)
    assert detectable(Evidence(error, n, n), 0.0) == np.inf


def test_the_chance_of_an_equal_challenger_is_said():
    """For a gate with a lower bound: simulated with Student's interval."""
    rules = GateConfig(metric="map", lower_bound=-0.01)
    error, n = 0.005, 300
    samples = np.random.default_rng(1).normal(0, error * np.sqrt(n), (4000, n))
    mean = samples.mean(axis=1)
    low = mean + stats.t.ppf(0.025, n - 1) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    share = ((mean >= 0) & (low >= -0.01)).mean()
    assert chance_of_equal(rules, Evidence(error, n, n)) == pytest.approx(share, abs=0.03)


def test_power_is_that_of_the_effective_queries():
    few = Evidence(0.02, 100, 9.0)
    quantiles = stats.t.ppf(0.999, 8) + stats.norm.ppf(0.8)
    assert detectable(few, 0.001) == pytest.approx(0.02 * quantiles)
    assert few.queries == "100 queries that weigh as much as 9.0 equal ones"


def test_the_forecast_before_the_first_test_counts_weights(tmp_path):
    """Error and queries are those of the champion's measures, for a part of two."""
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "model.json").write_text("{}")
    values, weights = np.linspace(0, 1, 80), np.append(np.ones(79), 40.0)
    stored = PerQuery(pa.array(range(80)), {"map": values}, weights)
    write_per_query(tmp_path / "v" / PER_QUERY_NAME, stored)
    registry = Registry(tmp_path / "r")
    registry.promote(registry.add(tmp_path / "v"))
    text = forecast(GateConfig(metric="map", rotate=2), registry, "map")
    effective = weights.sum() ** 2 / (weights**2).sum() / 2
    assert text.endswith(f"on 40 queries that weigh as much as {effective:.1f} equal ones")
    without = [np.average(np.delete(values, i), weights=np.delete(weights, i)) for i in range(80)]
    mean = np.average(values, weights=weights)
    error = np.sqrt(79 / 80 * np.sum((np.array(without) - mean) ** 2) * 0.2 * 2)
    found = error * (stats.t.ppf(1 - 0.5 / 365, effective - 1) + stats.norm.ppf(0.8))
    assert f"a difference of {found:.2g} map is found" in text


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
    registry.record(entry(datetime.now(UTC), run_id="s", metric="map", difference=0.0, error=0.0))
    assert forecast(GateConfig(metric="map"), registry, "map").endswith("can be said of power")
    stored = tmp_path / "r" / "ledger.json"
    stored.write_text(stored.read_text().replace('"level": 0.001', '"level": 0.000'))
    with pytest.raises(DataError, match=r"ledger\.json: damaged"):
        _ = Registry(tmp_path / "r").ledger


def test_a_ledger_of_an_earlier_version_is_said_to_be_one(tmp_path):
    registry = Registry(tmp_path / "r")
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "model.json").write_text("{}")
    registry.promote(registry.add(tmp_path / "v"))
    registry.record(entry())
    stored = tmp_path / "r" / "ledger.json"
    content = unsealed(json.loads(stored.read_text()))
    del content["entries"][0]["n_effective"]
    stored.write_bytes(sealed_json(content | {"schema_version": 2}))
    with pytest.raises(DataError, match=r"ledger\.json: schema 2 .*3"):
        _ = Registry(tmp_path / "r").ledger
