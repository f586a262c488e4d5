"""The simulation of the nightly gate: its bets, levels and distributions, and a few years."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dranking.clicks.off_policy.off_policy import query_values
from dranking.clicks.off_policy.off_policy_value import off_policy_value
from dranking.clicks.off_policy.rare_clicks import lower_end
from dranking.clicks.off_policy.rewards import parse_reward
from dranking.clicks.propensities.propensities import given_propensities
from pipelines.reproduce import gate_years, nightly_gate
from tests.clicks.made import counts_of
from tests.clicks.off_policy.test_off_policy import pages_of
from tests.reference.bets import final_capital


def test_tables_of_a_few_years(monkeypatch, capsys):
    monkeypatch.setattr(nightly_gate, "SIZES", (20,))
    monkeypatch.setattr(nightly_gate, "NIGHTS", 10)
    nightly_gate.main(["--years", "8", "--json"])
    found = json.loads(capsys.readouterr().out)
    by_name = {row["differences"]: row for row in found["fresh"] if row["tests"] == "day"}
    assert len(found["reused"]) == len(found["direction"]) == len(found["chosen"]) == 8
    for row in by_name.values():
        assert row["bets, 20"] == "0.000 +- 0.000"
    assert float(by_name["rare losses"]["Student, 20"].split()[0]) > 100  # of 365
    assert float(by_name["normal"]["Student, 20"].split()[0]) < 2
    ageing = {row["tests"]: row for row in found["better"] if row["case"] == "ageing"}
    assert float(ageing["quarter"]["Student: gain"]) > 0.05
    cases = {(row["positions"], row["moves"], row["clicks"]) for row in found["clicks"]}
    assert len(cases) == len(found["clicks"]) == len(found["power on clicks"]) == 2 * 2 * 3
    rare = {row["clicks"]: row for row in found["clicks"] if row["moves"] == "down"}[0.001]
    assert float(rare["Student, 200"].split()[0]) > 1  # of 10, at levels of .5 a year
    assert rare["clicks, 200"] == "0.000 +- 0.000"
    few = {(row["whose"], row["relevance"]): row for row in found["few good queries"]}
    assert float(few["champion's", "1 in 20"]["clicks, 50"].split()[0]) > 0.1  # of 10
    assert few["challenger's", "1 in 20"]["clicks, 50"] == "0.000 +- 0.000"


@pytest.mark.parametrize("shape", [1e-4, 0.2, 0.5, 2.0, 1e4])
def test_relevance_has_the_mean_that_is_asked_for(shape):
    rates = np.random.default_rng(0).beta(shape, shape / 0.05 - shape, size=100_000)
    assert rates.mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 100_000))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ends_of_the_simulation_are_those_of_the_code(sign):
    """One log, counted, with Student's margin in the place of the bootstrap's."""
    sessions = nightly_gate.click_sessions(1000, 10)[50::19]
    n, level, rng = len(sessions), 0.05, np.random.default_rng(2)
    clicks = np.stack([rng.binomial(sessions, each) for each in (0.1, 0.02)])
    rows = [
        (q, d, 0, 0, 0, position, sessions[q], clicks[d, q])
        for q in range(n)
        for d, position in ((0, 1), (1, 10))
    ]
    orders = [[first, *range(2, 10), 1 - first] for first in ((1, 0) if sign > 0 else (0, 1))]
    known = given_propensities([1 / k for k in range(1, 11)])
    pages = (pages_of([order] * n, 10) for order in orders)
    values = query_values(counts_of(rows), known, parse_reward("clicks@10"), *pages)
    found = off_policy_value(values, known, "x", confidence=1 - 2 * level, n_resamples=100)
    student = found.lower - found.standard_error * stats.t.ppf(1 - level, found.n_effective - 1)
    ends = nightly_gate.click_ends(clicks[:, None], sessions, 10, sign, level)
    assert ends["Student"] == pytest.approx([student])
    low = lower_end(values, replace(found, interval=(student, np.inf)), level)
    assert ends["clicks"] == pytest.approx([low])


@pytest.mark.parametrize("name", ["normal", "tied", "log-normal losses", "rare losses"])
def test_differences_have_the_mean_zero(name):
    pool = nightly_gate.pools(None)[name].astype(float)
    assert abs(pool.mean()) < 1e-6
    assert np.abs(pool).max() <= 1.0


def test_differences_of_models_have_the_mean_zero(mq2008):
    pool = nightly_gate.pools(mq2008)["MQ2008"].astype(float)
    assert abs(pool.mean()) < 1e-6
    assert 0.01 < pool.std() < 0.3


@pytest.mark.parametrize("rule", ["bets", "Student"])
def test_promotions_are_those_of_plain_tests(rule):
    """Years of one night: a part of the champion's luck, something new, and an improvement."""
    rng, level = np.random.default_rng(0), 0.2
    own = rng.normal(0, 0.15, (300, 40)).astype(np.float32)
    luck = rng.normal(0, 0.3, (300, 40)).astype(np.float32)
    better = np.where(np.arange(300) < 150, 0.15, 0.0)
    years = gate_years.Years(rule, "reused", luck.copy(), np.zeros_like(luck))
    years.judge(level, own, better)
    expected = []
    for row in range(300):
        x = own[row].astype(float) - 0.1 * luck[row].astype(float) + better[row]
        if rule == "bets":
            expected.append(final_capital(x.clip(-1, 1).tolist()) >= 1 / level)
        else:
            expected.append(stats.ttest_1samp(x, 0, alternative="greater").pvalue < level)
    won = np.array(expected)
    assert 20 < won.sum() < 200
    np.testing.assert_array_equal(years.true + years.false > 0, won)
    assert years.true.sum() == won[:150].sum()
    np.testing.assert_allclose(years.quality, np.where(won, better, 0))
    np.testing.assert_allclose(years.luck[~won], luck[~won])
    np.testing.assert_allclose(years.luck[won], 0.9 * luck[won] + own[won], atol=1e-6)


def test_challengers_go_on_in_the_last_direction():
    last = np.array([[0.2, -0.1], [0.0, 0.0]], dtype=np.float32)
    own = np.array([[0.1, 0.3], [0.1, 0.3]], dtype=np.float32)
    years = gate_years.Years("Student", "direction", np.zeros_like(last), last.copy())
    years.judge(0.4999, own, np.zeros(2))
    root = np.sqrt(0.75)
    moved = [[0.1 + root * 0.1, -0.05 + root * 0.3], [0.1, 0.3]]
    np.testing.assert_allclose(years.last, moved, rtol=1e-6)


def test_levels_of_a_year_are_the_budget():
    for every, n_tests in (("day", 365), ("month", 12), ("quarter", 4)):
        levels = gate_years.levels_of(every)
        assert sum(level > 0 for level in levels) == n_tests
        assert sum(levels) == pytest.approx(gate_years.BUDGET, rel=0.01)
