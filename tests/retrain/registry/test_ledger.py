"""The ledger: levels of any year sum to the budget at most; a test run again spends nothing."""

import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dranking.errors import DataError
from dranking.files.json_files import sealed_json, unsealed
from dranking.metrics.per_query import PerQuery, write_per_query
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import allowance_of, forecast, statement_of_entry
from dranking.retrain.registry.ledger import Entry, Ledger, first_day, next_level, next_test
from dranking.retrain.registry.registry import PER_QUERY_NAME, Registry

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = START.date()
DAY = timedelta(days=1)
PERIODS = ("day", "week", "month", "quarter")


def entry(time=START, level=0.001, run_id="r", against="000001", **facts):
    return Entry(
        **{
            "time": time,
            "run_id": run_id,
            "version": "000002",
            "against": against,
            "judged": "0",
            "kind": "bets",
            "every": "day",
            "metric": "map",
            "n_queries": 100,
            "n_effective": 100.0,
            "difference": 0.01,
            "error": 0.005,
            "e_value": 3.0,
            "p_value": 0.02,
            "detectable": 0.02,
            "level": level,
            "budget": 0.5,
            "better": False,
            "accepted": False,
            **facts,
        }
    )


@given(
    gaps=st.lists(st.integers(1, 200), min_size=1, max_size=60),
    budget=st.floats(0.01, 3),
    every=st.sampled_from(PERIODS),
)
def test_levels_of_any_365_days_sum_to_the_budget_at_most(gaps, budget, every):
    """Whatever the dates of the tests are, also after long breaks."""
    tests = []
    for gap in np.cumsum(gaps):
        today = FIRST + int(gap) * DAY
        tests.append((today, next_level(budget, tests, today, every)))
    for first, _ in tests:
        year = sum(level for day, level in tests if first <= day < first + 365 * DAY)
        assert year <= budget * (1 + 1e-12)


@settings(max_examples=12)
@given(st.dates(date(2020, 1, 1), date(2040, 1, 1)), st.sampled_from(PERIODS))
def test_nights_take_one_test_a_period(start, every):
    """Two years of nights; a test may wait until the first one is older than a year."""
    name = {
        "day": lambda day: day,
        "week": lambda day: day.isocalendar()[:2],
        "month": lambda day: (day.year, day.month),
        "quarter": lambda day: (day.year, (day.month + 2) // 3),
    }[every]
    tests = []
    for night in range(730):
        today = start + night * DAY
        if next_test(0.5, tests, today, every) == today:
            tests.append((today, next_level(0.5, tests, today, every)))
    periods = [name(day) for day, _ in tests]
    n_periods = len({name(start + night * DAY) for night in range(730)})
    assert n_periods - 2 <= len(set(periods)) == len(periods)
    longest = {"day": 1, "week": 7, "month": 31, "quarter": 92}[every]
    first_days = [level for day, level in tests[2:] if first_day(day, every) == day]
    assert max(first_days) <= longest * 0.5 / 365 * (1 + 1e-12)
    second_year = [level for day, level in tests if 365 <= (day - start).days]
    assert sum(second_year) == pytest.approx(0.5, abs=longest * 0.5 / 365)


def test_a_long_break_leaves_the_budget_to_the_tests_that_follow():
    """A test after 200 nights without one gets the share of 92, as after a quarter."""
    tests = [(FIRST, 0.5 / 365)]
    for night in range(200, 200 + 365):
        today = FIRST + night * DAY
        tests.append((today, next_level(0.5, tests, today)))
    levels = [level for _, level in tests[1:]]
    assert levels[0] == pytest.approx(92 * 0.5 / 365)
    assert levels[1:274] == pytest.approx([0.5 / 365] * 273)
    assert sum(levels) == pytest.approx(0.5)


def test_a_clock_that_was_wrong_once_stops_nothing():
    ahead = [(FIRST + 1000 * DAY, 0.001), (FIRST, 0.001)]
    assert next_level(0.5, ahead, FIRST + DAY) == pytest.approx(0.5 / 365)
    assert next_test(0.5, ahead, FIRST + DAY, "day") == FIRST + DAY


def test_a_budget_that_is_spent_names_the_day_of_the_next_test():
    """After a smaller budget was configured, until enough of the old tests have expired."""
    tests = [(FIRST + night * DAY, 0.01) for night in range(20)]
    today = FIRST + 20 * DAY
    day = next_test(0.1, tests, today, "day")
    assert day == FIRST + 375 * DAY  # ten of the twenty are older than 365 days: .1 is left
    assert next_level(0.1, tests, day - DAY) == 0.0


def test_a_test_that_is_run_again_keeps_its_level_and_place():
    rules = GateConfig(metric="map")
    ledger = Ledger().with_entry(entry(level=0.003)).with_entry(entry(START + DAY, 0.001, "s"))
    assert allowance_of(rules, ledger, "r", "000001").level == 0.003
    assert allowance_of(rules, ledger, "r", "000007").level != 0.003
    again = ledger.with_entry(entry(START + 2 * DAY, 0.003, accepted=True))
    assert [(e.run_id, e.time) for e in again.entries] == [("r", START), ("s", START + DAY)]
    assert again.entries[0].accepted
    much_later = again.with_entry(entry(START + 735 * DAY, 0.003))
    assert [(e.run_id, e.time) for e in much_later.entries] == [("r", START), ("s", START + DAY)]


def test_the_newest_tests_of_two_years_of_nights_are_kept():
    ledger = Ledger()
    for night in range(800):
        ledger = ledger.with_entry(entry(START + night * DAY, run_id=str(night)))
    assert [e.run_id for e in ledger.entries] == [str(night) for night in range(70, 800)]


@pytest.mark.parametrize("every", PERIODS)
def test_a_clock_that_was_years_ahead_once_begins_no_new_budget(every):
    """The level of that night has a wrong date, and counts as one test at the most."""
    ledger, levels = Ledger(), np.zeros(500)
    for night in range(500):
        today = FIRST + (night + 3650 * (night == 300)) * DAY
        if next_test(0.5, ledger.spent, today, every) == today:
            levels[night] = next_level(0.5, ledger.spent, today, every)
            time = datetime(today.year, today.month, today.day, tzinfo=UTC)
            ledger = ledger.with_entry(entry(time, levels[night], run_id=str(night)))
    sums = np.convolve(levels, np.ones(365), "valid")
    assert sums.max() <= 0.5 + levels[300] + 1e-12
    assert len(ledger.entries) == (levels > 0).sum()


def test_a_second_test_of_a_day_is_refused_with_the_date_of_the_next():
    now = datetime.now(UTC)
    ledger = Ledger().with_entry(entry(now))
    for every in PERIODS:
        left = allowance_of(GateConfig(every=every), ledger, "s", "000001")
        assert (left.level, left.taken) == (0.0, True)
        assert first_day(left.next_day, every) == left.next_day > now.date()
        assert f"the test of this {every} was taken; the next test can be taken on 20" in left.text


def test_a_budget_of_a_promotion_a_period_asks_for_no_test():
    assert allowance_of(GateConfig(false_promotions_per_year=365), Ledger(), "r", "1") is None
    assert allowance_of(GateConfig(false_promotions_per_year=364), Ledger(), "r", "1").level == 0.5
    rare = {"every": "quarter", "false_promotions_per_year": 4.1}
    assert allowance_of(GateConfig(**rare), Ledger(), "r", "000001") is None


def test_the_sentence_of_a_test_says_level_budget_and_power():
    ledger = Ledger()
    for night in range(3):
        ledger = ledger.with_entry(entry(START + night * DAY, 0.04, f"r{night}", every="month"))
    assert statement_of_entry(ledger.entries[1], ledger) == (
        "rejected at level 0.04 (month); 0.16 of this year's budget spent; 100 queries find 0.02 "
        "with power 0.8"
    )
    for facts, said in (
        ({"detectable": None}, "100 queries find no improvement at this level"),
        ({"error": 0.0}, "differs by the same on all queries, so that nothing can be said"),
        ({"kind": "interval", "accepted": True}, "accepted at level 0.001 (day, approximate); "),
        ({"kind": "interval", "error": 0.0}, "100 queries find 0.02 with power 0.8"),
    ):
        other = entry(**facts)
        assert said in statement_of_entry(other, Ledger(entries=(other,)))


def registry_with(folder, *tables):
    """A registry with a promoted version for each table of measures."""
    registry = Registry(folder / "r")
    for number, table in enumerate(tables):
        (folder / str(number)).mkdir()
        (folder / str(number) / "model.json").write_text("{}")
        write_per_query(folder / str(number) / PER_QUERY_NAME, table)
        registry.promote(registry.add(folder / str(number)))
    return registry


def measures(values, weights=None):
    return PerQuery(pa.array(range(len(values))), {"map": np.asarray(values)}, weights)


def test_the_forecast_is_that_of_the_gate(tmp_path):
    """With the differences of the last two versions, and without them."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 400)
    rules = GateConfig(metric="map", every="month")
    registry = registry_with(tmp_path, measures(base))
    assert "level 0.041 (month), 0 of this year's budget spent; 400 queries find 0.0" in forecast(
        rules, registry, "map"
    )
    (tmp_path / "second").mkdir()
    change = rng.normal(0, 0.1, 400)
    registry = registry_with(tmp_path / "second", measures(base), measures(base + change))
    text = forecast(rules, registry, "map")
    found = float(text.split("400 queries find ")[1].split()[0])
    assert found == pytest.approx(0.024, abs=0.002)  # simulated in test_bets.py: .0234
    assert "no valid test needs fewer than 299" in text
    assert 'gate.every = "quarter" finds 0.02' in text
    assert "has no measures by ndcg@10" in forecast(GateConfig(), registry, "ndcg@10")
    registry.record(entry(datetime.now(UTC)))
    assert "no test today: the test of this month was taken" in forecast(rules, registry, "map")
    untested = GateConfig(metric="map", false_promotions_per_year=1e6)
    assert "no test: the budget allows" in forecast(untested, registry, "map")


def test_the_forecast_names_no_period_in_which_nothing_is_tested(tmp_path):
    """Five promotions a year are more than one a quarter, and fewer than one a month."""
    rng = np.random.default_rng(0)
    registry = registry_with(tmp_path, measures(rng.uniform(0.2, 0.8, 400)))
    rules = GateConfig(metric="map", every="week", false_promotions_per_year=5)
    text = forecast(rules, registry, "map")
    assert 'gate.every = "month" finds 0.0' in text
    assert "quarter" not in text


def test_too_few_queries_are_said_to_find_nothing_before_the_night(tmp_path):
    registry = registry_with(tmp_path, measures(np.linspace(0, 1, 7)))
    assert "7 queries find no improvement" in forecast(GateConfig(metric="map"), registry, "map")


def test_the_forecast_counts_weights(tmp_path):
    """Weights of half of the largest one that is allowed halve the bets."""
    base, found = np.linspace(0, 1, 80), []
    for bound in (1.0, 2.0):
        (tmp_path / str(bound)).mkdir()
        registry = registry_with(tmp_path / str(bound), measures(base, np.ones(80)))
        text = forecast(GateConfig(metric="map", max_query_weight=bound), registry, "map")
        found.append(float(text.split("80 queries find ")[1].split()[0]))
    assert found[0] < found[1]


TODAY = datetime.now(UTC)
FORECASTS = {
    "new queries decide": (
        {"queries": "new"}, [], "",
        "level 0.0014 (day), 0 of this year's budget spent; queries that were judged after version "
        "000001 was chosen decide"),
    "a weight beyond the bound": (
        {"max_query_weight": 2.0}, [], "",
        "a query weighs 3, and gate.max_query_weight is 2, so that the gate will refuse it"),
    "half of the budget": (
        {"max_query_weight": 3.0}, [entry(TODAY - 9 * DAY, 0.25)], "",
        "level 0.012 (day), 0.5 of this year's budget spent; 80 queries find "),
    "nothing left": (
        {}, [entry(TODAY - 9 * DAY, 0.5)], "",
        "no test today: the budget of the last 365 days is spent; the next test can be taken on "
        f"{TODAY + 356 * DAY:%Y-%m-%d}"),
    "taken this week": (
        {"every": "week"}, [entry(TODAY)], "",
        "no test today: the test of this week was taken; the next test can be taken on "
        f"{TODAY + (7 - TODAY.weekday()) * DAY:%Y-%m-%d}"),
    "clicks, of which versions have no measures": (
        {"metric": "ndcg@3"}, [entry(TODAY - 9 * DAY, metric="ndcg@3")], "",
        "spent; in the last test, at level 0.001 (day), 100 queries find 0.02 with power 0.8"),
    "clicks before the first test by them": (
        {"metric": "ndcg@3"}, [entry(TODAY - 9 * DAY)], "",
        "spent; version 000001 has no measures by ndcg@3, and no test by it tells its power"),
    "its own test, after a kill": (
        {"max_query_weight": 3.0}, [entry(TODAY, 0.0137, "own")], "own",
        "level 0.014 (day), 0 of this year's budget spent; 80 queries find "),
}  # fmt: skip
"""Rules, tests in the ledger, the run that is planned, and what the forecast says."""


@pytest.mark.parametrize("case", FORECASTS)
def test_every_text_of_the_forecast(tmp_path, case):
    rules, tests, run_id, said = FORECASTS[case]
    weights = np.where(np.arange(80) == 7, 3.0, 1.0)
    registry = registry_with(tmp_path, measures(np.linspace(0, 1, 80), weights))
    for test in tests:
        registry.record(test)
    rules = GateConfig(**{"metric": "map"} | rules)
    assert said in forecast(rules, registry, rules.metric, run_id)


def test_the_ledger_is_stored_with_a_digest(tmp_path):
    empty = Registry(tmp_path / "r")
    assert "first challenger is promoted" in forecast(GateConfig(), empty, "ndcg@10")
    registry = registry_with(tmp_path, measures([0.5]))
    registry.record(entry(datetime.now(UTC) - DAY, metric="map"))
    assert len(Registry(tmp_path / "r").ledger.entries) == 1
    stored = tmp_path / "r" / "ledger.json"
    stored.write_text(stored.read_text().replace('"level": 0.001', '"level": 0.000'))
    with pytest.raises(DataError, match=r"ledger\.json: damaged"):
        _ = Registry(tmp_path / "r").ledger


def promoted_and_killed(registry, folder, run_id, time):
    """The version of a run that is killed between the promotion and the record of its test."""
    test = entry(time, run_id=run_id, against=registry.aliases.champion, accepted=True)
    lineage = {"test": test.model_dump(mode="json", exclude={"version"})}
    version = registry.add(folder / "0", run_id=run_id, lineage=lineage)
    registry.promote(version)
    return Entry(**{**test.model_dump(), "version": version})


@pytest.mark.parametrize("then", ["promotion by the next night", "promotion by hand", "rollback"])
def test_the_test_of_a_killed_promotion_stays_when_another_is_champion(tmp_path, then):
    registry = registry_with(tmp_path, measures([0.5]))
    tests = [promoted_and_killed(registry, tmp_path, "a", START)]
    if then == "promotion by the next night":
        tests.append(promoted_and_killed(registry, tmp_path, "b", START + DAY))
        registry.record(tests[1])
    elif then == "promotion by hand":
        registry.promote("1")
    else:
        registry.rollback()
    assert list(Registry(tmp_path / "r").ledger.entries) == tests


def test_a_champion_whose_manifest_is_damaged_can_be_replaced(tmp_path):
    registry = registry_with(tmp_path, measures([0.5]), measures([0.6]))
    (tmp_path / "r" / "versions" / "000002" / "manifest.json").write_text("{")
    assert registry.rollback().champion == "000001"


def test_a_ledger_of_an_earlier_version_is_said_to_be_one(tmp_path):
    registry = registry_with(tmp_path, measures([0.5]))
    registry.record(entry())
    stored = tmp_path / "r" / "ledger.json"
    content = unsealed(json.loads(stored.read_text()))
    del content["entries"][0]["every"]
    stored.write_bytes(sealed_json(content | {"schema_version": 3}))
    with pytest.raises(DataError, match=r"ledger\.json: schema 3 .*4"):
        _ = Registry(tmp_path / "r").ledger


def test_a_test_dated_ahead_is_named():
    ahead = entry(time=datetime(2099, 5, 4, tzinfo=UTC))
    rules = GateConfig(every="week", false_promotions_per_year=0.001)
    for tests, named in (((entry(), ahead), True), ((entry(),), False)):
        left = allowance_of(rules, Ledger(entries=tests), "s", "000001")
        assert ("the ledger has a test of 2099-05-04" in left.text) == named
