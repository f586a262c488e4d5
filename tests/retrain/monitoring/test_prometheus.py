"""Figures for Prometheus: their text format, and that they never make a run fail."""

import os
import re
from dataclasses import asdict

import numpy as np
import pytest

from dranking.errors import DataError, RetrainWarning, TryAgainError, UsageError
from dranking.retrain.config.config import load_config
from dranking.retrain.monitoring.prometheus import exposition
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages
from tests.retrain.stream import Stream

LINE = re.compile(r'dranking_retrain_(\w+)\{((?:\w+="(?:[^"\\]|\\["\\n])*",?)*)\} (\S+)')


@pytest.fixture
def stream(tmp_path):
    found = Stream(tmp_path)
    found.night(1)
    return found


def run(stream, *settings, **options):
    return retrain(load_config(stream.config(), settings, {}), **options)


def samples(text):
    """Parse samples: values by name and labels; every line must be a comment or a sample."""
    lines = [line for line in text.splitlines() if not line.startswith("# TYPE ")]
    found = [LINE.fullmatch(line).groups() for line in lines]
    return {(name, labels): float(value) for name, labels, value in found}


def test_the_text_format():
    text = exposition({"a": [({}, 1.0)], "b": [({"stage": 'x"\\\n'}, 0.1)]}, {"registry": "r"})
    assert text.splitlines() == [
        "# TYPE dranking_retrain_a gauge",
        'dranking_retrain_a{registry="r"} 1',
        "# TYPE dranking_retrain_b gauge",
        'dranking_retrain_b{registry="r",stage="x\\"\\\\\\n"} 0.10000000000000001',
    ]


def test_a_night_is_told_stage_by_stage(stream, tmp_path):
    file = tmp_path / "metrics" / "d.prom"
    outcome = run(stream, f"run.prometheus={file}")
    found = samples(file.read_text())
    registry = f'registry="{stream.folder}/registry"'
    assert found["success", registry] == found["accepted", registry] == 1
    for stage in STAGES:
        seconds = found["stage_seconds", f'{registry},stage="{stage}"']
        assert seconds == outcome.costs[stage].seconds >= 0
        assert found["stage_peak_bytes", f'{registry},stage="{stage}"'] > 2**20
    assert outcome.as_json()["stages"]["fit"] == asdict(outcome.costs["fit"])


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
    found = samples(file.read_text())
    assert [value for (name, _), value in found.items() if name == "success"] == [0]
    timed = [
        labels.rpartition('stage="')[2][:-1] for name, labels in found if name == "stage_seconds"
    ]
    assert timed == ["validate", "ingest", "statistics"]
    assert not any(name.startswith(("accepted", "metric")) for name, _ in found)


def test_a_run_that_fails_before_its_stages_has_not_succeeded(stream, tmp_path):
    file = tmp_path / "d.prom"
    run(stream, f"run.prometheus={file}")
    registry = f'registry="{stream.folder}/registry"'
    assert samples(file.read_text())["success", registry] == 1
    with pytest.raises(DataError, match="nothing is there"):
        run(stream, f"run.prometheus={file}", "data.train=absent/*.txt")
    assert samples(file.read_text())["success", registry] == 0


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{folder}/file/d.prom", r"run\.prometheus: .*file cannot be written to"),
        ("{folder}/incoming", "is a directory"),
        ("/proc/d.prom", r"run\.prometheus: /proc cannot be written to .*; nothing was trained"),
    ],
)
def test_a_file_that_cannot_be_written_is_found_before_anything_is_done(
    stream, tmp_path, place, message
):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=message):
        run(stream, f"run.prometheus={place.format(folder=tmp_path)}")
    assert not (stream.folder / "registry").exists()
    assert not (stream.folder / "work" / "runs").exists()


def test_a_promoted_night_stays_one_if_its_figures_cannot_be_written(stream, monkeypatch, tmp_path):
    file = tmp_path / "metrics" / "d.prom"
    publish = stages.publish

    def hindering(*inputs):
        result = publish(*inputs)
        file.mkdir()
        return result

    monkeypatch.setattr(stages, "publish", hindering)
    with pytest.warns(RetrainWarning, match="figures for Prometheus could not be written"):
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
