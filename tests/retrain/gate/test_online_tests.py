"""Options of the gate beside the budget: e-LOND, fresh judged queries, and the ladder."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dranking.errors import DataError, TryAgainError, UsageError
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.config import load_config
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import allowance_of, statement_of
from dranking.retrain.gate.false_discoveries import (
    detectable_by_bets,
    difference_e_value,
)
from dranking.retrain.gate.fresh_queries import fresh_part, fresh_rows, query_id_digests
from dranking.retrain.gate.gate import judge
from dranking.retrain.gate.ladder import climb, rounded
from dranking.retrain.registry.ledger import Ledger
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from tests.reference import online_tests as reference
from tests.reference.confidence_sequences import betting_capital
from tests.retrain.registry.test_ledger import DAY, START, entry
from tests.retrain.stream import Stream


def measured(values, ids=None):
    ids = np.arange(len(values)) if ids is None else ids
    return PerQuery(pa.array(ids), {"map": np.asarray(values, dtype=float)}, None, "standard")


def lond_entry(night, e_value, allowance, number):
    better = e_value >= 1 / allowance.level
    facts = {"number": number, "n_promotions": allowance.n_promotions, "kind": "e-lond"}
    return entry(
        START + night * DAY,
        allowance.level,
        f"run{night}",
        budget=0.2,
        better=better,
        accepted=better,
        **facts,
    )


def test_levels_of_e_lond_count_all_nights_and_all_promotions():
    """Over three years, of which the ledger keeps two; with one night that is judged again."""
    rules = GateConfig(metric="map", false_discovery_rate=0.2)
    e_values = (10.0 ** np.random.default_rng(0).uniform(0, 6, 1100)).tolist()
    ledger = Ledger()
    for night, e_value in enumerate(e_values):
        left = allowance_of(rules, ledger, f"run{night}", "000001")
        ledger = ledger.with_entry(lond_entry(night, e_value, left, left.n_tests + 1))
        if night == 5:
            again = allowance_of(rules, ledger, "run5", "000001")
            assert (again.level, again.n_tests) == (left.level, 5)
    expected = reference.lond(0.2, e_values)
    found = [e.better for e in ledger.entries]
    assert len(found) == 730
    assert found == expected[-730:]
    assert 0 < sum(expected) < 1100
    assert f"1100 nights tested, {sum(expected)} promoted, at most 0.2 of them by chance" in (
        statement_of(ledger.entries[-1], ledger)
    )


def test_the_last_test_of_e_lond_is_kept_however_old():
    first = entry(kind="e-lond", number=7, n_promotions=2, better=True)
    ledger = Ledger().with_entry(first).with_entry(entry(START + 900 * DAY, run_id="s"))
    assert ledger.lond_count("t", "000001") == (8, 3)


def test_the_e_value_of_differences_is_that_of_gamblers():
    differences = np.array([0.3, -0.1, 0.5, 0.0, 1.0])
    equal = difference_e_value(differences, np.full(5, 2.0))
    assert equal == pytest.approx(betting_capital(((differences + 1) / 2).tolist(), 0.5))
    weights = np.array([1.0, 4.0, 2.0, 1.0, 0.5])
    signs = [np.array(each) for each in itertools.product([-1.0, 1.0], repeat=5)]
    fair = [difference_e_value(differences * sign, weights) for sign in signs]
    assert np.mean(fair) == pytest.approx(1.0)  # symmetric differences have the mean 0
    with pytest.raises(DataError, match=r"only values in \[0, 1\]"):
        difference_e_value(np.array([1.5]), np.ones(1))


def test_the_gate_of_e_lond():
    rng = np.random.default_rng(1)
    base = rng.uniform(0.2, 0.8, 300)
    rules = GateConfig(metric="map", max_drift=None, resamples=50, false_discovery_rate=0.1)
    left = allowance_of(rules, Ledger(), "r", "000001")
    assert left.level == pytest.approx(0.1 * 6 / np.pi**2)
    for gain, passed in ((0.05, True), (0.0, False)):
        change = rng.normal(0, 0.1, 300)
        ours, theirs = measured(base + change - change.mean() + gain), measured(base)
        found = judge(rules, ours, theirs, n_features=1, allowance=left)
        reason = found.reasons[-1]
        assert (reason.rule, reason.passed) == ("false_discovery_rate", passed)
        expected = betting_capital(((ours.values["map"] - base + 1) / 2).tolist(), 0.5)
        assert reason.value == pytest.approx(expected)
        assert found.test.p_value == pytest.approx(min(1.0, 1 / expected))
    assert "map is found with power 0.8 on 300 queries" in reason.text


def test_bets_find_what_is_said_that_they_find():
    rng = np.random.default_rng(2)
    n, error, level = 400, 0.01, 0.01
    difference = detectable_by_bets(error, level, 0.8416)
    samples = rng.normal(difference, error * np.sqrt(n), (400, n)).clip(-1, 1)
    found = np.mean([difference_e_value(s, np.ones(n)) >= 1 / level for s in samples])
    assert 0.78 < found < 0.97  # one bet alone is counted on, and its neighbours help


def test_fresh_parts_are_disjoint_and_used_up_one_by_one():
    judged = measured(np.linspace(0, 1, 100), ids=[f"q{i}" for i in range(100)])
    rows = [fresh_rows(judged.query_ids, part, 3) for part in range(3)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(100))
    used = []
    for part in range(3):
        assert fresh_part(judged, "map", 3, used) == part
        used += query_id_digests(judged.query_ids.take(pa.array(rows[part])))
        assert len(fresh_rows(judged.query_ids, part, 3, used)) == 0
    assert fresh_part(judged, "map", 3, used) is None
    more = measured(np.linspace(0, 1, 200), ids=[f"q{i}" for i in range(200)])
    part = fresh_part(more, "map", 3, used)
    assert min(fresh_rows(more.query_ids, part, 3, used)) >= 100
    nothing = measured(np.full(100, np.nan), ids=[f"q{i}" for i in range(100)])
    assert fresh_part(nothing, "map", 3, []) is None


def test_fresh_parts_of_unequal_weights_have_enough_effective_queries():
    """Of two parts the one with a query that has nearly all of the weight is passed over."""
    ids = [f"q{i}" for i in range(100)]
    judged = measured(np.linspace(0, 1, 100), ids)
    heavy = fresh_rows(judged.query_ids, 0, 2)[0]
    weights = np.where(np.arange(100) == heavy, 1000.0, 1.0)
    assert fresh_part(judged, "map", 2, []) == 0
    assert fresh_part(replace(judged, weights=weights), "map", 2, []) == 1


@pytest.mark.parametrize("step", [0.01, 0.025])
def test_the_ladder_moves_by_more_than_a_step_only(step):
    means = np.random.default_rng(0).normal(0.45, 0.02, 40).cumsum() / np.arange(1, 41) + 0.001 * (
        np.arange(40)
    )
    best, found = rounded(0.44, step), []
    for mean in means:
        best = climb(best, float(mean), step)
        found.append(best)
    assert found == pytest.approx(reference.ladder(0.44, means.tolist(), step))
    assert len(set(found)) > 1


def test_a_rate_and_a_budget_exclude_each_other(tmp_path):
    path = Stream(tmp_path).config()
    settings = ["gate.false_discovery_rate=0.1", "gate.false_promotions_per_year=1"]
    with pytest.raises(UsageError, match="false_promotions_per_year and false_disc"):
        load_config(path, settings, {})
    assert load_config(path, settings[:1], {}).gate.budget is None


def test_nights_on_fresh_queries_with_a_ladder(tmp_path):
    stream = Stream(tmp_path)
    settings = ["gate.rotate=2", "gate.false_promotions_per_year=1e9", "gate.ladder_step=0.05"]
    settings += ["data.window=1", "gate.max_drift=100", "gate.lower_bound=-1"]
    registry = Registry(tmp_path / "registry")

    def run(night, sign):
        stream.night(night, sign=sign)
        return retrain(load_config(stream.config(), settings, {}))

    worst = run(1, -1.0)
    assert (worst.accepted, worst.results.gate.statement) == (True, "")
    good = run(2, 1.0)
    verdict = good.results.gate
    assert (good.accepted, verdict.part) == (True, 0)
    assert "1 nights tested, " in verdict.statement
    assert " in steps of 0.05, +0." in verdict.statement
    assert verdict.test.n_queries == len(registry.ledger.chosen_on)
    log = (tmp_path / "work/runs" / good.run_id / "log.jsonl").read_text().splitlines()
    [done] = [e for e in map(json.loads, log) if (e["stage"], e["event"]) == ("gate", "done")]
    assert done["result"]["statement"] == verdict.statement == good.as_json()["gate"]

    bad = run(3, -1.0)
    assert (bad.accepted, bad.results.gate.part) == (False, 1)
    assert "+0 by this night" in bad.results.gate.statement
    registry.rollback()
    better = run(4, 1.0)
    assert (better.accepted, better.results.gate.part) == (True, 1)
    parts = [e.n_queries for e in registry.ledger.entries]
    assert parts[0] + parts[1] == len(registry.ledger.chosen_on) == 60
    assert parts[1] == parts[2]

    last = run(5, 1.0)
    [reason] = [r for r in last.results.gate.reasons if r.rule == "rotate"]
    assert not last.accepted
    assert "no part of 2 has 20 judged queries on which no champion was chosen" in reason.text
    assert registry.aliases.champion == better.results.publish.version
    assert len(registry.ledger.entries) == 3


def test_a_night_is_judged_again_on_its_own_part(tmp_path, monkeypatch):
    """The run ended between its entry in the ledger and the promotion of its version."""
    stream = Stream(tmp_path)
    settings = ["gate.rotate=2", "gate.false_promotions_per_year=1e9", "gate.max_drift=100"]
    settings += ["data.window=1", "gate.lower_bound=-1"]
    registry = Registry(tmp_path / "registry")
    stream.night(1, sign=-1.0)
    retrain(load_config(stream.config(), settings, {}))
    stream.night(2)
    config = load_config(stream.config(), settings, {})

    def away(*_):
        raise OSError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(Registry, "promote", away)
        with pytest.raises(TryAgainError):
            retrain(config)
    chosen_on = registry.ledger.chosen_on
    again = retrain(config, from_stage="gate")
    assert (again.accepted, again.results.gate.part) == (True, 0)
    assert [each.part for each in registry.ledger.entries] == [0]
    assert registry.ledger.chosen_on == chosen_on
