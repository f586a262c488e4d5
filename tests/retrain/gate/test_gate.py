"""The gate: every rule accepts and rejects what it should."""

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dranking.errors import DataError
from dranking.metrics.per_query import PerQuery
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import Allowance
from dranking.retrain.gate.comparison import student_p_value
from dranking.retrain.gate.gate import FeatureDrift, PartDrift, judge
from tests.reference.bets import final_capital

TODAY = date(2026, 11, 27)
LEFT = Allowance(level=0.04, every="month", budget=0.5, spent=0.115, next_day=TODAY)
NONE_LEFT = Allowance(0.0, "month", 0.5, 0.115, date(2026, 12, 1), taken=True)


def scores(values, metric="map"):
    values = np.asarray(values, dtype=float)
    return PerQuery(
        query_ids=pa.array(np.arange(len(values))), values={metric: values}, convention="standard"
    )


def verdict(
    challenger, champion, metric="map", segments=None, drift=(), n_features=3, left=None, **rules
):
    gate = GateConfig(metric=metric, every="month", **({"max_drift": None} | rules))
    return judge(
        gate,
        scores(challenger, metric),
        None if champion is None else scores(champion, metric),
        n_features=n_features,
        segments=segments,
        drift=drift,
        allowance=left,
    )


def failed(found):
    assert found.accepted == all(reason.passed for reason in found.reasons)
    return [reason.rule for reason in found.reasons if not reason.passed]


def test_without_a_champion_only_absolute_rules_count():
    assert verdict([0.1, 0.2], None).reasons == ()
    assert failed(verdict([0.1, 0.3], None, minimum_score=0.2)) == []
    assert failed(verdict([0.1, 0.3], None, minimum_score=0.21)) == ["minimum_score"]


def test_a_minimum_effect_filters_the_mean():
    base = np.linspace(0.2, 0.8, 50)
    better = verdict(base + 0.1, base, minimum_effect=0.05)
    assert failed(better) == []
    effect, untested = better.reasons
    assert effect.value == untested.value == pytest.approx(0.1)
    assert "one promotion may be false, so nothing is tested" in untested.text
    assert failed(verdict(base + 0.04, base, minimum_effect=0.05)) == ["minimum_effect"]
    assert failed(verdict(base - 0.04, base)) == []
    assert verdict(base, base).reasons[0].rule == "false_promotions_per_year"  # no filter at 0


def test_the_gate_promotes_what_wins_its_bets():
    """A gain of exactly .05, .01 and 0 on 200 queries, at the level of a month."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 200)
    change = np.round(rng.normal(0, 0.08, 200), 3)
    for gain, passed in ((0.05, True), (0.01, False), (0.0, False)):
        challenger = base + change - change.mean() + gain
        found = verdict(challenger, base, left=LEFT)
        [reason] = found.reasons
        assert (reason.rule, reason.passed) == ("false_promotions_per_year", passed)
        assert found.accepted == found.test.better == passed
        capital = float(final_capital((challenger - base).tolist()))
        assert found.test.e_value == reason.value == pytest.approx(capital)
        assert passed == (capital >= 1 / 0.04) == (reason.value >= reason.limit)
        p_value = stats.ttest_rel(challenger, base, alternative="greater").pvalue
        assert found.test.p_value == pytest.approx(p_value)
        decided = "accepted" if passed else "rejected"
        assert found.statement == (
            f"{decided} at level 0.04 (month); 0.31 of this year's budget spent; 200 queries find "
            f"{found.test.detectable:.2g} with power 0.8"
        )
        assert found.decision == decided
        assert "no valid test needs fewer than 302;" in reason.text  # ln(.8 / .04) / ln 1.01
        assert 'gate.every = "quarter" finds 0.0' in reason.text


def test_equal_models_are_not_promoted_and_nothing_is_said_of_power():
    base = np.linspace(0.2, 0.8, 50)
    same = verdict(base, base, left=LEFT)
    assert (same.accepted, same.test.e_value) == (False, 1.0)
    assert "map differs by the same on all queries, so that nothing can be said" in same.statement


def test_rare_large_losses_are_not_promoted():
    """95 % of 20 queries gain .026, 5 % lose .5: by chance mostly without a loser to be seen."""
    rng = np.random.default_rng(0)
    daily = replace(LEFT, level=0.5 / 365, every="day")
    for _ in range(365):
        change = np.where(rng.random(20) < 0.05, -0.5, 0.5 * 0.05 / 0.95)
        assert not verdict(np.full(20, 0.5) + change, np.full(20, 0.5), left=daily).accepted


def test_a_test_can_be_taken_once_a_period():
    base = np.linspace(0.2, 0.8, 50)
    found = verdict(base + 0.1, base, left=NONE_LEFT)
    assert (failed(found), found.test) == (["every"], None)
    assert (found.decision, found.next_test) == ("postponed", "2026-12-01")
    said = "the test of this month was taken; the next test can be taken on 2026-12-01"
    assert said in found.statement
    spent = replace(NONE_LEFT, taken=False)
    assert "budget of the last 365 days is spent" in verdict(base, base, left=spent).statement
    other = verdict(base + 0.1, base, left=NONE_LEFT, max_features=2)
    assert (other.decision, other.next_test) == ("rejected", None)


def test_what_could_not_be_promoted_spends_nothing():
    base = np.linspace(0.2, 0.8, 50)
    found = verdict(base, base, left=LEFT, max_features=2)
    assert (found.test, found.accepted, found.statement) == (None, False, "")


def test_measures_of_error_are_better_where_smaller():
    base = np.linspace(0.2, 0.8, 50)
    name = "pairwise_error"
    better = verdict(base - 0.15, base, metric=name, minimum_effect=0.05, left=LEFT)
    assert failed(better) == []
    worse = verdict(base + 0.1, base, metric=name, minimum_effect=0.05, left=LEFT)
    assert failed(worse) == ["minimum_effect", "false_promotions_per_year"]
    assert [worse.reasons[0].value, worse.test.difference] == pytest.approx([-0.1, -0.1])
    assert failed(verdict(base, None, metric=name, minimum_score=0.4)) == ["minimum_score"]


def test_segments_are_guarded_one_by_one():
    base = np.full(60, 0.5)
    change = np.repeat([0.2, -0.1, -0.3], [30, 25, 5])
    segments = pa.array(["a"] * 30 + ["b"] * 25 + ["c"] * 5)
    found = verdict(base + change, base, max_segment_loss=0.05, segments=segments)
    assert failed(found) == ["max_segment_loss"]
    of_segments = [r for r in found.reasons if r.rule == "max_segment_loss"]
    assert [r.value for r in of_segments] == pytest.approx([0.2, -0.1])  # c has too few queries
    assert "segment b" in of_segments[1].text
    lenient = verdict(base + change, base, max_segment_loss=0.1, segments=segments)
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


def test_few_queries_are_tested_and_find_only_what_is_large():
    half = np.full(7, 0.5)
    assert failed(verdict(half + 0.1, half, left=LEFT)) == ["false_promotions_per_year"]
    assert verdict(half + 0.5, half - 0.5, left=LEFT).test.e_value == pytest.approx(
        float(final_capital([1] * 7))
    )
    assert verdict(half[:1], None).accepted


def test_weights_are_bounded_by_the_configuration():
    base, rng = np.full(40, 0.5), np.random.default_rng(3)
    change = np.round(rng.normal(0.1, 0.1, 40), 3)
    weights = rng.integers(1, 9, 40).astype(float)
    ours, theirs = (replace(scores(each), weights=weights) for each in (base + change, base))
    rules = {"metric": "map", "max_drift": None}
    found = judge(
        GateConfig(max_query_weight=10, **rules), ours, theirs, n_features=3, allowance=LEFT
    )
    exact = final_capital((ours.values["map"] - 0.5).tolist(), weights.tolist(), 10)
    assert found.test.e_value == pytest.approx(float(exact))
    heavy = int(np.argmax(weights))
    with pytest.raises(
        DataError, match=rf"query {heavy} weighs 8, and gate\.max_query_weight is 1"
    ):
        judge(GateConfig(**rules), ours, theirs, n_features=3, allowance=LEFT)


def test_queries_that_do_not_count_are_left_out_of_all_rules():
    nan = np.nan
    base = np.full(6, 0.5)
    change = np.array([0.1, 0.3, nan, 0.2, -5.0, nan])
    weights = np.array([1.0, 3.0, 1.0, 2.0, 0.0, 1.0])
    table = replace(scores(base + change), weights=weights)
    rules = GateConfig(
        metric="map",
        max_drift=None,
        max_segment_loss=0.0,
        min_segment_queries=2,
        minimum_effect=0.01,
        max_query_weight=3,
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
    rules = GateConfig(metric="map", max_drift=None)
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
    found = student_p_value(float(np.mean(values)), float(stats.sem(values)), len(values))
    assert found == pytest.approx(expected)


def test_differences_without_spread_say_nothing_unless_the_challenger_is_better():
    assert [student_p_value(mean, 0.0, 5.0) for mean in (-0.1, 0.0, 0.1)] == [1.0, 1.0, 0.0]
