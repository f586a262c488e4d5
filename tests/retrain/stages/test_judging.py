"""The default gate in nights: its ledger, one test a period, and new judged queries."""

import shutil
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from dranking.errors import TryAgainError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.documents import Documents
from dranking.retrain.registry.registry import Registry
from dranking.retrain.run_plan import plan_run
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages
from tests.retrain.stream import Stream


@pytest.fixture
def stream(tmp_path):
    found = Stream(tmp_path)
    found.night(1)
    return found


def registry_of(stream):
    return Registry(stream.folder / "registry")


def default_gate(stream):
    """The configuration with the table [gate] as it is by default."""
    text = Path(stream.config()).read_text()
    path = stream.folder / "default.toml"
    start, stop = text.index("[gate]"), text.index("[export]")
    path.write_text(text[:start] + text[stop:])
    return load_config(path, ["gate.max_drift=100"], {})


@pytest.fixture
def default(stream):
    return default_gate(stream)


def on_day(monkeypatch, day, modules=("stages.judging", "gate.budget")):
    """Let runs believe that it is a day of December 2026."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 12, day, 3, 15, tzinfo=tz)

    for module in modules:
        monkeypatch.setattr(f"dranking.retrain.{module}.datetime", Clock)


def test_the_default_gate_keeps_a_ledger(stream, default):
    """A test spends its level once, whatever is run again, and `--dry-run` says what is left."""
    assert retrain(default).accepted
    assert registry_of(stream).ledger.entries == ()
    planned = plan_run(default).gate
    assert "level 0.0014 (day), 0 of this year's budget spent; 60 queries find 0." in planned
    assert "no valid test needs fewer than 641" in planned
    stream.night(2)
    outcome = retrain(default)
    [test] = registry_of(stream).ledger.entries
    assert (test.run_id, test.version, test.against) == (outcome.run_id, "000002", "000001")
    assert (test.kind, test.n_queries, test.level) == ("bets", 60, pytest.approx(0.5 / 365))
    assert test.better == outcome.accepted == (test.e_value >= 730)
    again = retrain(default, from_stage="gate")
    assert registry_of(stream).ledger.entries[0].level == test.level
    assert len(registry_of(stream).ledger.entries) == 1
    assert again.results.gate == outcome.results.gate
    assert outcome.as_json()["gate"] == outcome.results.gate.statement
    assert outcome.as_json()["decision"] == "rejected"


def test_the_default_gate_promotes_what_is_far_better(better):
    """The first champion has learned the opposite."""
    assert registry_of(better).aliases.champion == "000001"
    outcome = retrain(default_gate(better))
    assert outcome.accepted
    assert outcome.results.gate.statement.startswith("accepted at level 0.0014 (day); 0.0027 of ")
    assert registry_of(better).aliases.champion == "000002"


def test_the_second_challenger_of_a_day_is_tested_on_the_next(stream, default, monkeypatch):
    on_day(monkeypatch, 1)
    stream.night(1, sign=-1.0)
    retrain(default)
    stream.night(2, sign=-1.0)
    assert retrain(default).results.gate.decision == "rejected"
    for night in (3, 4, 5, 6, 7):
        stream.night(night)
    assert "no test today: the test of this day was taken" in plan_run(default).gate
    export = default.export.model_copy(update={"report": True})
    default = default.model_copy(update={"export": export})
    outcome = retrain(default)
    assert (outcome.accepted, outcome.results.gate.decision) == (False, "postponed")
    said = "no test today: the test of this day was taken; the next test can be taken on 2026-12-02"
    assert outcome.results.gate.statement == said
    assert registry_of(stream).aliases.challenger == "000003"
    assert b"postponed" in registry_of(stream).read("000003", "card.html")
    assert b"postponed" in registry_of(stream).read("000003", "report.html")
    assert plan_run(default).stages == ()
    on_day(monkeypatch, 2)
    assert plan_run(default).stages == ("gate", "export", "publish")
    tested = retrain(default)
    assert (tested.run_id, tested.accepted) == (outcome.run_id, True)
    levels = [entry.level for entry in registry_of(stream).ledger.entries]
    assert levels == pytest.approx([0.5 / 365] * 2)
    assert plan_run(default).stages == ()


def test_a_month_has_one_test_of_the_newest_challenger(stream, default, monkeypatch):
    monthly = default.model_copy(
        update={"gate": default.gate.model_copy(update={"every": "month"})}
    )
    decisions = []
    for night in range(1, 5):
        on_day(monkeypatch, night)
        stream.night(night)
        decisions.append(retrain(monthly).results.gate.decision)
    assert decisions[0] == "accepted"  # there was no champion
    assert decisions[2:] == ["postponed"] * 2
    [entry] = registry_of(stream).ledger.entries
    assert (entry.version, entry.every) == ("000002", "month")
    assert entry.level == pytest.approx(30 * 0.5 / 365)


def test_a_verdict_that_was_not_published_is_judged_again(stream, default, monkeypatch):
    """Another run may have taken the test of the day meanwhile."""

    def away(*inputs):
        raise TryAgainError("the registry is away")

    retrain(default)
    stream.night(2)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "publish", away)
        with pytest.raises(TryAgainError):
            retrain(default)
    first = retrain(
        default.model_copy(update={"model": default.model.model_copy(update={"n_features": 3})})
    )
    assert first.results.gate.test is not None
    assert retrain(default, resume=False).results.gate.decision == "postponed"
    assert len(registry_of(stream).ledger.entries) == 1


class Killed(BaseException):
    """A run ends at once."""


@pytest.fixture(scope="module")
def nights_before(tmp_path_factory):
    """A stream with a champion that later nights are better than, such nights, and a copy."""
    folder = tmp_path_factory.mktemp("better") / "stream"
    found = Stream(folder)
    found.night(1, sign=-1.0)
    retrain(default_gate(found))
    for night in (2, 3, 4, 5):
        found.night(night)
    return found, shutil.copytree(folder, folder.with_name("copy"))


@pytest.fixture
def better(nights_before):
    """The stream with this champion as it was before other tests ran on it."""
    found, copy = nights_before
    shutil.rmtree(found.folder)
    shutil.copytree(copy, found.folder)
    return found


def killed_before_write(default, count):
    """Run until right before a number of writes of the registry, which is killed there."""
    left, write = [count], Documents.write

    def dying(self, *arguments):
        left[0] -= 1
        if not left[0]:
            raise Killed
        write(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Documents, "write", dying)
        with pytest.raises(Killed):
            retrain(default)


@pytest.mark.parametrize("with_new_data", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_run_killed_while_it_is_published(better, count, with_new_data):
    """Before the version is nominated, before it is promoted, before its test is recorded."""
    stream, default = better, default_gate(better)
    killed_before_write(default, count)
    registry = registry_of(stream)
    was_promoted = count == 3
    assert registry.aliases.champion == ("000002" if was_promoted else "000001")
    assert [e.version for e in registry.ledger.entries] == ["000002"] * was_promoted
    if with_new_data:
        stream.night(6)
    after = retrain(default)
    [test] = registry.ledger.entries  # one test today, whatever was killed
    assert (test.level, test.accepted) == (pytest.approx(0.5 / 365), True)
    assert registry.aliases.champion == test.version
    if with_new_data and was_promoted:
        assert (after.results.gate.decision, test.version) == ("postponed", "000002")
    else:
        assert after.accepted
        assert test.version == ("000003" if with_new_data else "000002")


def test_a_night_over_midnight_takes_the_test_of_the_day_of_its_verdict(better, monkeypatch):
    stream, default = better, default_gate(better)
    on_day(monkeypatch, 1)
    on_day(monkeypatch, 2, ["stages.judging"])
    assert retrain(default).accepted
    [test] = registry_of(stream).ledger.entries
    assert f"{test.time:%Y-%m-%d %H:%M}" == "2026-12-01 23:59"
    on_day(monkeypatch, 2)
    assert "level 0.0014" in plan_run(default).gate


def test_new_queries_are_those_that_the_champion_was_not_chosen_on(stream, default):
    """The first champion was chosen on none, the second one on all that were there."""
    gate = default.gate.model_copy(update={"queries": "new"})
    config = default.model_copy(update={"gate": gate})
    stream.night(1, sign=-1.0)
    retrain(config)
    for night in (2, 3, 4, 5):
        stream.night(night)
    second = retrain(config)
    assert (second.accepted, second.results.gate.test.n_queries) == (True, 60)
    stream.night(6)
    third = retrain(config)
    [reason] = third.results.gate.reasons[:1]
    assert (reason.rule, third.results.gate.test) == ("queries", None)
    assert reason.text == "no query that counts was judged after version 000002 was chosen"
    judged = (stream.folder / "holdout.txt").read_text()
    stream.write_queries(stream.folder / "more.txt", night=0, n_queries=30, seed=998)
    more = (stream.folder / "more.txt").read_text()
    (stream.folder / "holdout.txt").write_text(judged + more)
    found = retrain(config.model_copy(update={"gate": gate.model_copy(update={"every": "day"})}))
    assert found.results.gate.decision == "postponed"  # the day's test was taken
    assert found.results.evaluate.n_queries == 90
    untested = gate.model_copy(update={"false_promotions_per_year": 1e3, "minimum_effect": 1.0})
    outcome = retrain(config.model_copy(update={"gate": untested}))
    values = Registry(stream.folder / "registry").per_query(outcome.results.publish.version)
    assert len(values.query_ids) == 90
    [reason] = outcome.results.gate.reasons[:1]
    mine = values.values["ndcg@10"][-30:]
    assert f"ndcg@10 {np.nanmean(mine):.4f} against" in reason.text
