"""Figures for Prometheus: their text format, and that they never make a run fail."""

import json
import os
import re
import shutil
import time
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import yaml

from dranking import __version__
from dranking.errors import DataError, RetrainWarning, TryAgainError, UsageError
from dranking.retrain.config.config import load_config
from dranking.retrain.gate.budget import GateTest
from dranking.retrain.monitoring.prometheus import GAUGES, exposition, write_gauges
from dranking.retrain.monitoring.run_record import RunRecord
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages
from tests.reference.prometheus import samples_of
from tests.retrain.stream import Stream


@pytest.fixture
def stream(tmp_path):
    found = Stream(tmp_path)
    found.night(1)
    return found


def run(stream, *settings, **options):
    return retrain(load_config(stream.config(), settings, {}), **options)


def values_of(file):
    """Values by name without prefix, or by name and the labels beside the registry."""
    found = {}
    for (name, labels), value in samples_of(file.read_text()).items():
        own = tuple(text for label, text in labels if label != "registry")
        short = name.removeprefix("dranking_retrain_")
        found[(short, *own) if own else short] = value
    return found


def test_the_text_format():
    samples = [("stage_seconds", {"stage": 'x"\\\n'}, 0.1), ("success", {}, 1.0)]
    text = exposition(samples, {"registry": "r"})
    assert text.splitlines()[-2:] == [
        "# TYPE dranking_retrain_stage_seconds gauge",
        'dranking_retrain_stage_seconds{registry="r",stage="x\\"\\\\\\n"} 0.10000000000000001',
    ]
    assert samples_of(text) == {
        ("dranking_retrain_success", (("registry", "r"),)): 1.0,
        ("dranking_retrain_stage_seconds", (("registry", "r"), ("stage", 'x"\\\n'))): 0.1,
    }


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A first night; a second one with a test, drift and a part set aside; and one that fails."""
    folder = tmp_path_factory.mktemp("nights")
    stream, file = Stream(folder, n_judged_documents=6), folder / "metrics" / "d.prom"
    settings = [f"run.prometheus={file}", "gate.false_promotions_per_year=0.5"]
    settings += ["data.max_set_aside=1", "gate.max_drift=0.25"]
    stream.night(1)
    found = [(run(stream, *settings), values_of(file))]
    stream.night(2, shift=3.0)
    stream.night(3).write_text("2 qid:1 1:x\n")
    rejected = RunRecord(reject_exit=4)
    found.append((run(stream, *settings, record=rejected), values_of(file)))
    with pytest.raises(DataError, match="nothing is there") as error:
        run(stream, *settings, "data.train=absent/*.txt")
    found.append((str(error.value), values_of(file)))
    return stream, found


def test_a_night_is_told_stage_by_stage(nights):
    outcome, found = nights[1][0]
    assert found["success"] == found["decision", "accepted"] == 1
    assert found["exit_code"] == found["decision", "rejected"] == found["parts_set_aside"] == 0
    for stage in STAGES:
        assert found["stage_seconds", stage] == outcome.costs[stage].seconds >= 0
        assert found["stage_peak_bytes", stage] > 2**20
    assert outcome.as_json()["stages"]["fit"] == asdict(outcome.costs["fit"])
    assert "difference" not in found
    assert "drift" not in found


def test_what_the_gate_found_is_told(nights):
    stream, [_, (outcome, found), _] = nights
    registry, results = Registry(stream.folder / "registry"), outcome.results
    made, published = registry.manifest("000001").created, registry.manifest("000002").created
    assert outcome.as_json()["decision"] == "rejected"
    assert [found["decision", d] for d in ("accepted", "rejected", "postponed")] == [0, 1, 0]
    assert found["champion_version"] == found["parts_set_aside"] == 1
    assert found["champion_created_timestamp_seconds"] == made.timestamp()
    assert 0 < found["champion_age_seconds"] < 600
    for role, means in results.evaluate.metrics.items():
        assert found["metric_timestamp_seconds", role] == published.timestamp()
        for measure, value in means.items():
            assert found["metric", *sorted((role, measure), key=[measure, role].index)] == value
    # Drift has rejected the challenger, so that no level is spent.
    assert (found["level"], found["budget_left"]) == (0.0, 0.5)
    means = [results.evaluate.metrics[role]["ndcg@10"] for role in ("challenger", "champion")]
    assert found["difference"] == pytest.approx(means[0] - means[1])
    # ln(.8 / (.5 / 365)) / ln(1.01), rounded up
    assert (found["judged_queries"], found["fewest_queries"]) == (60, 641)
    drift = {r.rule: r for r in results.gate.reasons}["max_drift"]
    assert (found["drift"], found["drift_limit"]) == (drift.value, drift.limit)
    assert drift.value > drift.limit
    assert found["last_success_timestamp_seconds"] == pytest.approx(
        found["timestamp_seconds"], abs=60
    )


def figures_of(stream, outcome, folder, change=lambda registry: None, **gate):
    """Figures of an outcome, with another registry or other results of the gate."""
    shutil.copytree(stream.folder / "registry", folder / "registry")
    registry = Registry(folder / "registry")
    change(registry)
    results = replace(outcome.results, gate=replace(outcome.results.gate, **gate))
    record = RunRecord()
    record.end(outcome)
    settings = [f"run.prometheus={folder}/d.prom", f"registry.location={folder}/registry"]
    write_gauges(load_config(stream.config(), settings, {}), record, registry, results)
    return registry, values_of(folder / "d.prom")


def test_measures_of_a_role_have_the_time_at_which_they_were_taken(nights, tmp_path):
    """The champion was promoted by hand after the night: its measures are those of its manifest."""
    stream, [_, (outcome, _), _] = nights

    def promote_another(registry):
        (tmp_path / "by-hand").mkdir()
        (tmp_path / "by-hand" / "model.json").write_text("{}")
        registry.promote(registry.add(tmp_path / "by-hand"))

    registry, found = figures_of(stream, outcome, tmp_path, promote_another)
    for role, version in (("champion", "000003"), ("challenger", "000002")):
        made = registry.manifest(version).created.timestamp()
        assert found["metric_timestamp_seconds", role] == made


def test_the_judged_queries_are_those_of_the_test(nights, tmp_path):
    """The test of ``gate.queries = "new"`` takes some of the judged queries."""
    stream, [_, (outcome, _), _] = nights
    test = GateTest("2026-11-02", "bets", "day", 7, 7.0, 0.1, 0.1, 1.0, 0.5, 0.001, None, False)
    _, found = figures_of(stream, outcome, tmp_path, test=test)
    assert found["judged_queries"] == 7


def test_a_run_that_fails_before_its_stages_has_not_succeeded(nights):
    found = nights[1][2][1]
    assert (found["success"], found["exit_code"]) == (0, 3)
    assert found["champion_version"] == 1
    assert found["last_success_timestamp_seconds"] < found["timestamp_seconds"]
    assert "level" not in found
    assert not any(name[0] == "decision" for name in found)


def test_the_registry_keeps_the_numbers_of_the_nights(nights):
    stream, [(first, _), (second, _), _] = nights
    found = Registry(stream.folder / "registry").nights
    for night, outcome in zip(found, (first, second), strict=True):
        results = outcome.results
        assert night.decision == results.gate.decision
        assert night.metrics == results.evaluate.metrics
        assert night.metric == "ndcg@10"
        assert night.against == results.evaluate.against
        assert (night.n_judged, night.n_features) == (60, results.fit.n_features)
        assert night.n_queries == results.ingest.data["train"].n_queries
    drift = {r.rule: r for r in second.results.gate.reasons}["max_drift"]
    assert (found[1].drift, found[1].drift_limit) == (drift.value, drift.limit)
    assert (found[0].drift, found[0].drift_limit) == (None, None)


def test_every_run_ends_with_a_line(nights):
    stream, [_, (second, _), (error, _)] = nights
    text = (stream.folder / "work" / "runs.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["exit_code"] for line in lines] == [0, 4, 3]
    assert [line["decision"] for line in lines] == ["accepted", "rejected", None]
    assert [line["stage"] for line in lines] == ["publish", "publish", "plan"]
    assert [line["error"] for line in lines] == [None, None, error]
    assert lines[1]["run_id"] == second.run_id
    versions = {"published": "000002", "champion": "000001", "dranking": __version__}
    assert lines[1]["versions"] == versions
    assert lines[2]["versions"] == {**versions, "published": None}
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)


def alert_rules():
    path = Path(__file__).parents[3] / "pipelines" / "schedules" / "alerts.yaml"
    [group] = yaml.safe_load(path.read_text())["groups"]
    return {rule["alert"].removeprefix("DrankingRetrain"): rule for rule in group["rules"]}


def test_alerts_ask_for_figures_that_nights_write(nights):
    written = {
        name if isinstance(name, str) else name[0] for _, found in nights[1] for name in found
    }
    assert written == set(GAUGES)
    states = {}
    for name, rule in alert_rules().items():
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        asked = set(re.findall(r"dranking_retrain_(\w+)", rule["expr"]))
        assert asked
        assert asked <= written
        states[name] = [_holds(rule["expr"], found) for _, found in nights[1]]
    assert states == {
        "Failed": [False, False, True],
        "NotRun": [False, False, False],
        "NeverSucceeded": [False, False, True],
        "NoFigures": [False, False, False],
        "StaleChampion": [False, False, False],
        "Drift": [None, True, None],
        "PartsSetAside": [False, True, True],
        "TooFewQueries": [True, True, None],
    }


LONG_AGO = 1.0e9  # 2001
NO_SUCCESS = {"last_success_timestamp_seconds"}
FAULTS = {
    "Failed": ({"success": 0, "exit_code": 3}, (), {"NeverSucceeded"}),
    "NotRun": ({"last_success_timestamp_seconds": LONG_AGO}, (), set()),
    "NeverSucceeded": ({"success": 0, "exit_code": 75}, NO_SUCCESS, set()),
    "NoFigures": ({}, set(GAUGES), set()),
    "StaleChampion": ({"champion_created_timestamp_seconds": LONG_AGO}, (), set()),
    "Drift": ({"drift": 0.3, "drift_limit": 0.25}, (), set()),
    "PartsSetAside": ({"parts_set_aside": 1}, (), set()),
    "TooFewQueries": ({"judged_queries": 10, "fewest_queries": 641}, (), set()),
}
"""By alert: figures of a good night that change, figures that are not there, other alerts."""


@pytest.mark.parametrize("alert", FAULTS)
def test_every_alert_is_given_for_its_fault_and_for_no_other(alert):
    """The good night has rejected a challenger under ``--reject-exit 4``."""
    now, rules = time.time(), alert_rules()
    good = dict.fromkeys(GAUGES, 0.0) | {
        **{name: now for name in GAUGES if name.endswith("timestamp_seconds")},
        **{"success": 1, "exit_code": 4, "judged_queries": 700, "fewest_queries": 641},
        **{"drift": 0.1, "drift_limit": 0.25},
    }
    assert [name for name in rules if _holds(rules[name]["expr"], good)] == []
    changed, gone, others = FAULTS[alert]
    found = {name: value for name, value in (good | changed).items() if name not in gone}
    given = {name for name in rules if _holds(rules[name]["expr"], found)}
    assert set(rules) == set(FAULTS)
    assert given == {alert, *others}


def test_the_documentation_names_every_figure():
    page = Path(__file__).parents[3] / "docs" / "nights.md"
    if not page.exists():
        pytest.skip("the documentation is in the repository only")
    missing = [name for name in GAUGES if f"`{name}`" not in page.read_text(encoding="utf-8")]
    assert missing == []


def _holds(expression, found):
    """The expression of a rule as Prometheus has it, for one series; None without its figures."""
    absent = re.fullmatch(r"absent\(dranking_retrain_(\w+)\)", expression)
    if absent:
        return absent[1] not in found
    names = set(re.findall(r"dranking_retrain_(\w+)", expression))
    if not names <= set(found):
        return None
    code = re.sub(r"dranking_retrain_(\w+)", r"found['\1']", expression)
    return eval(code, {"time": time.time, "found": found})


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux counts it")
def test_the_memory_of_a_stage_is_its_own(stream, monkeypatch):
    validate, much = stages.validate, 2**28

    def greedy(*inputs):
        assert np.ones(much, dtype=np.uint8).sum() == much
        return validate(*inputs)

    monkeypatch.setattr(stages, "validate", greedy)
    costs = run(stream).costs
    assert costs["validate"].peak_bytes > costs["gate"].peak_bytes + much / 2


def test_a_failed_night_tells_how_far_it_came(stream, monkeypatch, tmp_path):
    file = tmp_path / "d.prom"

    def failing(*inputs):
        raise TryAgainError("the cluster is away")

    monkeypatch.setattr(stages, "tune", failing)
    with pytest.raises(TryAgainError):
        run(stream, f"run.prometheus={file}")
    found = values_of(file)
    assert (found["success"], found["exit_code"]) == (0, 75)
    timed = [name[1] for name in found if name[0] == "stage_seconds"]
    assert timed == ["validate", "ingest", "statistics"]
    assert not {"decision", "metric"} & {name[0] for name in found}
    [line] = (stream.folder / "work" / "runs.jsonl").read_text().splitlines()
    end = json.loads(line)
    assert (end["stage"], end["exit_code"], end["decision"]) == ("tune", 75, None)
    assert end["error"] == "the cluster is away"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{folder}/file/d.prom", r"run\.prometheus: .*file cannot be written to"),
        ("{folder}/incoming", "is a directory"),
        ("/proc/d.prom", r"run\.prometheus: /proc cannot be written to .*; nothing was trained"),
    ],
)
def test_a_file_that_cannot_be_written_is_found_and_noted_before_anything_is_done(
    stream, tmp_path, place, message
):
    (tmp_path / "file").write_text("")
    with (
        pytest.warns(RetrainWarning, match="the failure could not be noted"),
        pytest.raises(UsageError, match=message) as error,
    ):
        run(stream, f"run.prometheus={place.format(folder=tmp_path)}")
    assert not (stream.folder / "registry").exists()
    assert not (stream.folder / "work" / "runs").exists()
    [line] = (stream.folder / "work" / "runs.jsonl").read_text().splitlines()
    end = json.loads(line)
    assert (end["stage"], end["exit_code"], end["error"]) == ("plan", 2, str(error.value))


def test_a_promoted_night_stays_one_if_its_figures_cannot_be_written(stream, monkeypatch, tmp_path):
    file = tmp_path / "metrics" / "d.prom"
    publish = stages.publish

    def hindering(*inputs):
        result = publish(*inputs)
        file.mkdir()
        return result

    monkeypatch.setattr(stages, "publish", hindering)
    with pytest.warns(RetrainWarning, match="the end of the run could not be written"):
        outcome = run(stream, f"run.prometheus={file}")
    assert outcome.accepted
    assert Registry(stream.folder / "registry").aliases.champion == "000001"


def test_a_failure_is_reported_as_itself_if_it_cannot_be_noted(stream, monkeypatch, tmp_path):
    file = tmp_path / "metrics" / "d.prom"

    def failing(*inputs):
        file.mkdir()
        raise TryAgainError("the cluster is away")

    monkeypatch.setattr(stages, "fit", failing)
    with (
        pytest.warns(RetrainWarning, match="the failure could not be noted"),
        pytest.raises(TryAgainError, match="the cluster is away"),
    ):
        run(stream, f"run.prometheus={file}")


def test_an_error_behind_the_last_stage_leaves_one_line_that_knows_the_version(stream, monkeypatch):
    def failing(*inputs):
        raise ValueError("no such page")

    monkeypatch.setattr("dranking.retrain.runner.nights_page", failing)
    with pytest.raises(ValueError, match="no such page"):
        run(stream, "export.report=true")
    [line] = (stream.folder / "work" / "runs.jsonl").read_text().splitlines()
    end = json.loads(line)
    assert (end["decision"], end["exit_code"]) == ("accepted", 1)
    assert (end["versions"]["published"], end["versions"]["champion"]) == ("000001", "000001")
    assert end["error"] == "ValueError: no such page"
