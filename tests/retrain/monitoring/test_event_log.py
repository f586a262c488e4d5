"""Files of JSON lines: every line is JSON, without secrets, whatever was written before it."""

import json
from datetime import date

import fsspec
import pytest

from dranking.files.places import as_place
from dranking.retrain.monitoring.event_log import append_line
from dranking.retrain.monitoring.run_record import (
    RUNNING_NAME,
    RUNS_NAME,
    RunRecord,
    last_success,
)

GOOD = {"time": "2026-11-02T03:15:00.000+00:00", "error": None}


@pytest.fixture(params=["folder", "store"])
def work(request, tmp_path):
    if request.param == "folder":
        yield tmp_path
        return
    yield as_place("memory://bucket/work")
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def lines_of(file):
    return file.read_text().splitlines()


def test_a_line_is_json_where_a_secret_precedes_a_quotation_mark(tmp_path):
    said = 'store says "https://h/x?sig=abc": refused'
    facts = {"error": said, "within": [{"url": ("s3://key:abc@b/x", said)}]}
    append_line(tmp_path / "x.jsonl", facts)
    [line] = lines_of(tmp_path / "x.jsonl")
    assert "abc" not in line
    hidden = 'store says "https://h/x?sig=***": refused'
    assert json.loads(line) == {"error": hidden, "within": [{"url": ["s3://***@b/x", hidden]}]}


def test_values_stay_what_they_are(tmp_path):
    append_line(tmp_path / "x.jsonl", {"a": [1, 0.5, True, None], "on": date(2026, 11, 2)})
    [line] = lines_of(tmp_path / "x.jsonl")
    assert line == '{"a": [1, 0.5, true, null], "on": "2026-11-02"}'


@pytest.mark.parametrize("cut", ['{"time": "2026-11-03T03:15', json.dumps(GOOD)])
def test_a_line_after_a_cut_one_is_whole(work, cut):
    append_line(work / RUNS_NAME, GOOD)
    with (work / RUNS_NAME).open("a") as file:
        file.write(cut)
    assert last_success(work).isoformat() == "2026-11-02T03:15:00+00:00"
    later = GOOD | {"time": "2026-11-04T03:15:00.000+00:00"}
    append_line(work / RUNS_NAME, later)
    assert lines_of(work / RUNS_NAME) == [json.dumps(GOOD), cut, json.dumps(later)]
    assert last_success(work).isoformat() == "2026-11-04T03:15:00+00:00"


@pytest.mark.parametrize("damaged", [b"{", b"{}", b"[]", b'{"began": "x", "versions": null}'])
def test_every_run_has_one_line_whatever_has_ended_it(work, damaged):
    killed = RunRecord(run_id="a")
    killed.begin(work, None)
    killed.stage = "fit"
    killed.note(work)

    failed = RunRecord(run_id="b")
    failed.begin(work, None)  # the line of the killed run, once
    note = (work / RUNNING_NAME).read_bytes()
    failed.fail(OSError("no room"))
    failed.write(work)
    failed.write(work)  # an error behind the end
    assert not (work / RUNNING_NAME).exists()
    (work / RUNNING_NAME).write_bytes(note)  # a kill behind the line
    RunRecord().begin(work, None)
    (work / RUNNING_NAME).write_bytes(damaged)
    RunRecord().begin(work, None)

    lines = [json.loads(line) for line in lines_of(work / RUNS_NAME)]
    assert [(line["run_id"], line["stage"], line["exit_code"]) for line in lines] == [
        ("a", "fit", None),
        ("b", "plan", 1),
    ]
    assert lines[0]["error"].startswith("killed after this time, at which the stage fit began")
    assert lines[0]["began"] <= lines[0]["time"] <= lines[1]["began"]
    assert last_success(work) is None
