"""The gate: every rule accepts and rejects what it should."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dranking.errors import DataError
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import Allowance
from dranking.retrain.gate.gate import FeatureDrift, PartDrift, judge
from dranking.retrain.gate.night_level import student_p_value
from dranking.retrain.registry.ledger import Evidence


def scores(values, metric="map"):
    values = np.asarray(values, dtype=float)
    return PerQuery(
        query_ids=pa.array(np.arange(len(values))), values={metric: values}, convention="standard"
    )


def verdict(challenger, champion, metric="map", segments=None, drift=(), n_features=3, **rules):
    rules.setdefault("lower_bound", -0.01)
    gate = GateConfig(
        metric=metric, resamples=2000, max_drift=rules.pop("max_drift", None), **rules
    )
    return judge(
        gate,
        scores(challenger, metric),
        None if champion is None else scores(champion, metric),
        n_features=n_features,
        segments=segments,
        drift=drift,
    )


def failed(found):
    assert found.accepted == all(reason.passed for reason in found.reasons)
    return [reason.rule for reason in found.reasons if not reason.passed]


def test_without_a_champion_only_absolute_rules_count():
    assert verdict([0.1, 0.2], None).reasons == ()
    assert failed(verdict([0.1, 0.3], None, minimum_score=0.2)) == []
    assert failed(verdict([0.1, 0.3], None, minimum_score=0.21)) == ["minimum_score"]


def test_minimum_effect_and_the_interval():
    base = np.linspace(0.2, 0.8, 50)
    better = verdict(base + 0.1, base, minimum_effect=0.05, lower_bound=0.05)
    assert failed(better) == []
    effect, bound = better.reasons
    assert effect.value == pytest.approx(0.1)
    assert bound.value == pytest.approx(0.1)  # every query gains the same: no spread
    assert failed(verdict(base + 0.04, base, minimum_effect=0.05)) == ["minimum_effect"]

    mixed = base + np.where(np.arange(50) % 2, 0.3, -0.29)
    found = verdict(mixed, base, minimum_effect=0.0, lower_bound=-0.01)
    assert failed(found) == ["lower_bound"]
    # mean of 50 differences: half-width 1.96 * 0.295 / sqrt(50) = 0.082
    assert found.reasons[1].value == pytest.approx(0.005 - 0.082, abs=0.01)


def test_the_default_gate_promotes_what_is_better_at_its_level():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 200)
    allowance = Allowance(level=0.001, budget=0.5, spent=0.3, n_tests=11)
    rules = GateConfig(metric="map", max_drift=None, resamples=2000)
    for gain, passed in ((0.03, True), (0.01, False), (0.0, False)):
        challenger = base + gain + rng.normal(0, 0.08, 200)
        challenger += gain - (challenger - base).mean()  # exactly this gain
        found = judge(rules, scores(challenger), scores(base), n_features=3, allowance=allowance)
        _, reason = found.reasons
        assert (reason.rule, reason.passed) == ("false_promotions_per_year", passed)
        p_value = stats.ttest_rel(challenger, base, alternative="greater").pvalue
        assert found.test.p_value == pytest.approx(p_value)
        assert found.test.better == passed == (p_value < 0.001)
        assert "12 nights tested, 0.6 of this year's budget of 0.5 false" in reason.text
    assert re.search(r"a difference of 0\.02\d* map is found with power 0\.8 on 200", reason.text)
    same = judge(rules, scores(base), scores(base), n_features=3, allowance=allowance)
    assert not same.accepted
    said = "measures by map are equal on all queries, or differ by the same on all, so that nothing"
    assert said in same.reasons[1].text
    assert "is found" not in same.reasons[1].text


def test_what_could_not_be_promoted_spends_nothing():
    base = np.linspace(0.2, 0.8, 50)
    allowance = Allowance(level=0.001, budget=0.5, spent=0.3, n_tests=11)
    rules = GateConfig(metric="map", max_drift=None, max_features=2, resamples=50)
    found = judge(rules, scores(base), scores(base), n_features=3, allowance=allowance)
    assert found.test is None
    spent = Allowance(level=0.0, budget=0.5, spent=0.5, n_tests=400)
    found = judge(rules, scores(base + 0.1), scores(base), n_features=1, allowance=spent)
    assert not found.accepted
    assert "no difference is found until tests of the last year" in found.reasons[1].text


def test_measures_of_error_are_better_where_smaller():
    base = np.linspace(0.2, 0.8, 50)
    name = "pairwise_error"
    assert failed(verdict(base - 0.1, base, metric=name, minimum_effect=0.05)) == []
    worse = verdict(base + 0.1, base, metric=name)
    assert failed(worse) == ["minimum_effect", "lower_bound"]
    assert worse.reasons[0].value == pytest.approx(-0.1)
    assert worse.reasons[1].value == pytest.approx(-0.1)
    assert failed(verdict(base, None, metric=name, minimum_score=0.4)) == ["minimum_score"]


def test_segments_are_guarded_one_by_one():
    base = np.full(60, 0.5)
    change = np.repeat([0.2, -0.1, -0.3], [30, 25, 5])
    segments = pa.array(["a"] * 30 + ["b"] * 25 + ["c"] * 5)
    found = verdict(base + change, base, lower_bound=-1, max_segment_loss=0.05, segments=segments)
    assert failed(found) == ["max_segment_loss"]
    of_segments = [r for r in found.reasons if r.rule == "max_segment_loss"]
    assert [r.value for r in of_segments] == pytest.approx([0.2, -0.1])  # c has too few queries
    assert "segment b" in of_segments[1].text
    lenient = verdict(base + change, base, lower_bound=-1, max_segment_loss=0.1, segments=segments)
    assert failed(lenient) == []


def test_features():
    assert failed(verdict([0.5], None, n_features=4, max_features=3)) == ["max_features"]
    assert failed(verdict([0.5], None, n_features=3, max_features=3)) == []


def test_drift_is_beyond_chance_and_beyond_what_is_tolerated():
    shifts = {"x": FeatureDrift(0.1, 0.05), "y": FeatureDrift(0.3, 0.2)}
    drift = [PartDrift("new.txt", 100, 50, shifts)]
    found = verdict([0.5], None, drift=drift, max_drift=0.25)
    assert failed(found) == ["max_drift"]
    assert "0.300 of feature y in new.txt (50 queries against 100" in found.reasons[0].text
    assert failed(verdict([0.5], None, drift=drift, max_drift=0.3)) == []
    assert failed(verdict([0.5], None, drift=drift, max_drift=0.01)) == ["max_drift"]
    chance = [PartDrift("few.txt", 100, 8, {"x": FeatureDrift(0.6, 0.7)})]
    found = verdict([0.5], None, drift=chance, max_drift=0.25)
    assert failed(found) == []
    # limits fall as 1 / 100 + 1 / n does: from .7 at n = 8 to .25 at 1 / n = .135 / 2.8 - .01
    assert "too few queries to see a shift of 0.25: about 27 are needed" in found.reasons[0].text
    hopeless = [PartDrift("few.txt", 5, 8, {"x": FeatureDrift(0.6, 0.7)})]
    [reason] = verdict([0.5], None, drift=hopeless, max_drift=0.25).reasons
    assert "training data needs more than 5" in reason.text


def test_few_queries_are_no_ground_for_a_decision():
    base = np.linspace(0.2, 0.8, 20)
    better = base + 0.1 + np.linspace(0, 0.01, 20)
    assert failed(verdict(better, base)) == []
    found = verdict(better[:19], base[:19])
    assert failed(found) == ["fewest_queries"]
    reason = found.reasons[-1]
    assert (reason.value, reason.limit) == (19.0, 20.0)
    assert reason.text.startswith("19 queries count for map")
    assert verdict(better[:1], None).accepted


def test_queries_that_weigh_next_to_nothing_are_no_ground_for_a_decision():
    """One query that wins, and nineteen that lose with a billionth of its weight."""
    gate = GateConfig(metric="map", resamples=500, lower_bound=0.0)
    weights = np.append(1.0, np.full(19, 1e-9))
    base = scores(np.full(20, 0.5))
    gains = scores(0.5 + 0.05 * np.append(1.0, np.full(19, -1.0)))
    weighed = [replace(each, weights=weights) for each in (gains, base)]
    found = judge(gate, *weighed, n_features=3)
    assert failed(found) == ["fewest_queries"]
    assert found.reasons[-1].value == pytest.approx(1.0, abs=1e-6)
    assert "20 queries that weigh as much as 1.0 equal ones count for map" in found.reasons[-1].text


def test_queries_that_do_not_count_are_left_out_of_all_rules():
    nan = np.nan
    base = np.full(6, 0.5)
    change = np.array([0.1, 0.3, nan, 0.2, -5.0, nan])
    weights = np.array([1.0, 3.0, 1.0, 2.0, 0.0, 1.0])
    table = replace(scores(base + change), weights=weights)
    rules = GateConfig(
        metric="map", max_drift=None, max_segment_loss=0.0, min_segment_queries=2, resamples=50
    )
    champion = replace(scores(base), weights=weights)
    segments = pa.array(["a", "a", "a", None, "b", "c"])
    found = judge(rules, table, champion, n_features=3, segments=segments)
    effect, _, of_a = found.reasons  # nobody counts in b and c
    assert effect.value == pytest.approx((0.1 + 3 * 0.3 + 2 * 0.2) / 6)
    assert of_a.value == pytest.approx((0.1 + 3 * 0.3) / 4)
    assert "segment a: change of map over 2 queries" in of_a.text


def test_a_query_may_come_twice():
    ids = pa.array([7, 8, 7])
    ours, theirs = (replace(scores(v), query_ids=ids) for v in ([0.5, 0.6, 0.7], [0.4, 0.6, 0.3]))
    rules = GateConfig(metric="map", max_drift=None, resamples=50)
    found = judge(rules, ours, theirs, n_features=3)
    assert found.reasons[0].value == pytest.approx(0.5 / 3)
    with pytest.raises(DataError, match="not measured on the same queries"):
        judge(rules, ours, scores([0.4, 0.6, 0.3]), n_features=3)


def test_the_words_of_an_error_are_not_turned_round():
    [reason] = verdict([0.3], None, metric="pairwise_error", minimum_score=0.4).reasons
    assert (reason.passed, reason.value, reason.limit) == (True, 0.3, 0.4)
    assert reason.text == "mean pairwise_error 0.3000, at most 0.4"


@pytest.mark.parametrize("rules", [{}, {"minimum_score": 0.0}])
def test_nothing_is_judged_on_nothing(rules):
    with pytest.raises(DataError, match="map"):
        verdict([np.nan], None, **rules)


@pytest.mark.parametrize("values", [[1.0, -1.0, 2.0, -2.0], [0.1, 0.3, -0.1], [-1.0, -1.5]])
def test_p_values_are_those_of_students_test(values):
    expected = stats.ttest_1samp(values, 0, alternative="greater").pvalue
    evidence = Evidence(float(stats.sem(values)), len(values), len(values))
    found = student_p_value(float(np.mean(values)), evidence)
    assert found == pytest.approx(expected)


def test_differences_without_spread_say_nothing_unless_the_challenger_is_better():
    equal = Evidence(0.0, 5, 5.0)
    assert [student_p_value(mean, equal) for mean in (-0.1, 0.0, 0.1)] == [1.0, 1.0, 0.0]
