"""`dranking retrain` and the script beside it."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.errors import TryAgainError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages
from pipelines.benchmarks.clusters.faults import started, wait_for_workers
from pipelines.retrain import main
from tests.engine.faults import kill, pids
from tests.retrain.stream import Stream

ROOT = Path(__file__).parents[3]


@pytest.fixture
def stream(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = Stream(tmp_path)
    found.night(1)
    found.config()
    return found


def test_a_night(dranking, stream, tmp_path):
    prom = tmp_path / "metrics" / "d.prom"
    call = ["retrain", "retrain.toml", "--set", f"run.prometheus={prom}", "--json"]
    code, out, _ = dranking(*call)
    found = json.loads(out)
    assert code == 0
    assert (found["accepted"], found["version"]) == (True, "000001")
    assert found["aliases"]["champion"] == "000001"
    gauges = prom.read_text()
    assert 'dranking_retrain_success{registry="' in gauges
    assert 'measure="ndcg@10"' in gauges
    code, out, _ = dranking(*call)
    assert (code, json.loads(out)["done"]) == (0, [])


def test_a_rejected_challenger_is_the_normal_night(dranking, stream):
    dranking("retrain", "retrain.toml")
    stream.night(2)
    call = ["retrain", "retrain.toml", "--set", "gate.max_features=1", "--json"]
    code, out, err = dranking(*call)
    assert code == 0
    assert (json.loads(out)["accepted"], json.loads(out)["decision"]) == (False, "rejected")
    assert "the champion stays" in err
    assert "4 features, at most 1" in err
    code, out, _ = dranking(*call, "--reject-exit", "4")
    [line] = out.splitlines()
    found = json.loads(line)
    assert (code, found["exit_code"], found["unchanged"]) == (4, 4, True)
    assert found["decision"] == "rejected"
    last = (stream.folder / "work" / "runs.jsonl").read_text().splitlines()[-1]
    assert {name: found[name] for name in json.loads(last)} == json.loads(last)
    assert dranking("retrain", "retrain.toml", "--reject-exit", "4")[0] == 0  # accepted


def test_a_dry_run_writes_nothing(dranking, stream):
    before = sorted(stream.folder.rglob("*"))
    code, out, _ = dranking("retrain", "retrain.toml", "--dry-run", "--json")
    assert code == 0
    assert len(json.loads(out)["stages"]) == 9
    assert sorted(stream.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.toml"], 2, "cannot be read (No such file or directory); name a TOML file"),
        (["retrain.toml", "--set", "gate.metrik=map"], 2, "gate.metrik"),
        (["retrain.toml", "--from", "bake"], 2, "there is no stage 'bake'"),
        (["retrain.toml", "--from", "fit", "--force"], 2, "one of --force and --from"),
        (["retrain.toml", "--resume"], 2, "no unfinished run"),
        (["retrain.toml", "--set", "data.train=absent/*.txt"], 3, "nothing is there"),
    ],
)
def test_what_is_wrong_is_said(dranking, stream, arguments, code, message):
    found, out, err = dranking("retrain", *arguments)
    assert (found, out) == (code, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["absent.toml"], 2),
        (["retrain.toml", "--from", "bake"], 2),
        (["retrain.toml", "--set", "data.train=absent/*.txt"], 3),
    ],
)
def test_a_run_that_fails_ends_with_a_json_line(dranking, stream, arguments, code):
    found, out, err = dranking("retrain", *arguments, "--json")
    end = json.loads(out)
    assert (found, end["exit_code"], end["stage"], end["decision"]) == (code, code, "plan", None)
    assert end["error"] in " ".join(err.split())
    assert end["versions"]["champion"] is None


def test_log_lines_hold_no_credentials(dranking, stream):
    dranking("retrain", "retrain.toml", "--set", "export.name=x", "--set", "data.n_features=8")
    [log] = (stream.folder / "work" / "runs").glob("*/log.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["event"] == "start"
    assert lines[-1]["event"] == "end"
    done = {line["stage"]: line for line in lines if line["event"] == "done"}
    assert len(done) == 9
    assert all(line["seconds"] >= 0 and line["peak_bytes"] > 2**20 for line in done.values())


def test_the_script_does_the_same(stream, capsys):
    assert main(["retrain.toml"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == "000001"
    stream.night(2)
    rejected = ["retrain.toml", "--set", "gate.max_features=1"]
    assert [main(rejected), main([*rejected, "--reject-exit", "4"])] == [0, 4]
    assert main(["absent.toml"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_run_without_anything_new_says_so(dranking, stream):
    code, out, _ = dranking("retrain", "retrain.toml")
    assert (code, "version 000001, promoted" in out, "unchanged" in out) == (0, True, False)
    code, out, _ = dranking("retrain", "retrain.toml")
    assert code == 0
    assert "unchanged, nothing was done" in out
    assert "the champion is 000001" in out
    code, out, _ = dranking("retrain", "retrain.toml", "--json")
    assert json.loads(out)["unchanged"] is True


def test_who_is_champion_is_said_as_it_is_now(dranking, stream):
    dranking("retrain", "retrain.toml")
    stream.night(2)
    dranking("retrain", "retrain.toml")
    assert dranking("registry", "rollback", "registry")[0] == 0
    arguments = ["retrain", "retrain.toml"]
    code, out, _ = dranking(*arguments, "--json")
    assert (code, json.loads(out)["aliases"]["champion"]) == (0, "000001")
    assert "the champion is 000001" in dranking(*arguments)[1]


def test_a_plan_is_printed(dranking, stream):
    code, out, err = dranking("retrain", "retrain.toml", "--dry-run")
    assert (code, err) == (0, "")
    assert "validate, ingest, statistics, tune" in out
    assert "night-01.txt" in out
    dranking("retrain", "retrain.toml")
    assert "everything is done already" in dranking("retrain", "retrain.toml", "--dry-run")[1]


def test_a_plan_knows_of_a_champion_promoted_meanwhile(dranking, stream, monkeypatch):

    for night in (1, 2):
        stream.night(night)
        dranking("retrain", "retrain.toml")

    def failing(*inputs):
        raise TryAgainError("the disk is away")

    stream.night(3)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "export", failing)
        assert dranking("retrain", "retrain.toml")[0] == 75

    def planned():
        return json.loads(dranking("retrain", "retrain.toml", "--dry-run", "--json")[1])["stages"]

    assert planned() == ["gate", "export", "publish"]
    Registry("registry").promote("1")
    assert planned() == ["evaluate", "gate", "export", "publish"]


def test_two_runs_at_once_are_one_that_exits_75(dranking, stream, monkeypatch):
    inside, go_on, fit = Event(), Event(), stages.fit

    def waiting(*inputs):
        inside.set()
        assert go_on.wait(60)
        return fit(*inputs)

    monkeypatch.setattr(stages, "fit", waiting)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(retrain, load_config("retrain.toml", (), {}))
        try:
            assert inside.wait(60)
            here = dranking("retrain", "retrain.toml")
            elsewhere = dranking("retrain", "retrain.toml", "--set", "run.work=w2")
        finally:
            go_on.set()
        assert first.result(60).accepted
    assert here[:2] == elsewhere[:2] == (75, "")
    assert "another run is going on" in here[2]
    assert "another process is changing it" in elsewhere[2]
    assert Registry("registry").versions == ["000001"]


def test_the_example_runs_from_a_bare_checkout(dranking, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = dranking("retrain", ROOT / "pipelines/configs/retrain.toml", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["accepted"]
    assert found["metrics"]["challenger"]["ndcg@10"] > 0.7
    exports = tmp_path / "retrain-work/registry/versions/000001/exports"
    assert {file.name for file in exports.iterdir()} == {
        "solr.json",
        "elasticsearch.json",
        "python.py",
    }


@pytest.mark.exhaustive
def test_a_night_on_a_cluster_is_that_of_threads(dranking, stream, client, tmp_path):
    """Parts are ingested and models trained by tasks of the cluster that --scheduler names."""
    dranking("retrain", "retrain.toml")
    settings = [f"run.work={tmp_path}/w", f"registry.location={tmp_path}/r"]
    options = [word for setting in settings for word in ("--set", setting)]
    address = client.scheduler.address
    code, _, err = dranking("retrain", "retrain.toml", "--scheduler", address, *options)
    assert code == 0, err
    ran = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert {"scan", "write", "statistics", "update"} <= ran
    ours, theirs = (Registry(place).read("000001", "model.json") for place in ("registry", "r"))
    assert ours == theirs


@pytest.mark.cluster
@pytest.mark.exhaustive  # losses of workers are in tests/engine/cluster/test_fault_matrix.py
def test_a_night_on_a_scheduler_outlives_its_workers(dranking, stream, tmp_path, monkeypatch):
    """Workers are killed amid the ingest, the statistics and the fit of one night."""
    dranking("retrain", "retrain.toml")
    settings = [f"run.work={tmp_path}/w", f"registry.location={tmp_path}/r"]
    options = [word for setting in settings for word in ("--set", setting)]
    left = [("write", 1), ("statistics", 1), ("update", 2)]
    submitted, submit = Counter(), DaskExecutor.submit
    with started() as (cluster, client):
        before = pids(cluster)

        def deadly(executor, function, /, *args, name, slot=None):
            task = submit(executor, function, *args, name=name, slot=slot)
            submitted[name] += 1
            if (name, submitted[name]) in left:
                left.remove((name, submitted[name]))
                executor.start()
                wait_for_workers(client, 2)
                kill(cluster, client)
            return task

        monkeypatch.setattr(DaskExecutor, "submit", deadly)
        address = client.scheduler.address
        assert address.startswith("tcp://")
        code, _, err = dranking("retrain", "retrain.toml", "--scheduler", address, *options)
        assert before - pids(cluster)
    assert (code, left) == (0, []), err
    ours, theirs = (Registry(place).read("000001", "model.json") for place in ("registry", "r"))
    assert ours == theirs
