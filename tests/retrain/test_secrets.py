"""Secrets appear in no log, report, manifest, metric or error."""

import fsspec
import pytest

from dranking.cli.app import run as run_command
from tests.retrain.stream import Stream

SECRET = "pl4nted-s3cret"


@pytest.fixture
def night(tmp_path, monkeypatch):
    """Run a configuration full of secrets; return the exit code and all output."""
    stream = Stream(tmp_path, n_judged_documents=6)
    stream.night(1)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("DASK_GATEWAY__AUTH__PASSWORD", SECRET)
    monkeypatch.setenv("DRANKING_RETRAIN__CLUSTER__AUTH__PASSWORD", SECRET)
    (tmp_path / "cluster.py").write_text(
        "from distributed import LocalCluster\n"
        "def make_cluster(options):\n"
        "    if 'fail' in options:\n"
        "        raise ConnectionError(f'no entry for {options}')\n"
        "    assert options['auth']['password'] and options['token']\n"
        "    return LocalCluster(n_workers=1, processes=False, dashboard_address=':0')\n"
    )
    config = stream.config()
    with open(config, "a") as file:
        file.write(f'[cluster]\nscheduler = "{tmp_path}/cluster.py"\ntoken = "{SECRET}"\n')

    def call(capfd, *settings):
        options = [part for setting in settings for part in ("--set", setting)]
        capfd.readouterr()
        code = run_command(["retrain", config, *options, "--json"])
        said = capfd.readouterr()
        return code, said.out + said.err

    return call


@pytest.mark.cluster
def test_a_planted_secret_is_written_nowhere(night, tmp_path, capfd):
    store = fsspec.filesystem("memory")
    code, said = night(
        capfd,
        "registry.location=memory://bucket/registry",
        f"run.prometheus={tmp_path}/dranking.prom",
        "export.report=true",
    )
    assert code == 0, said
    assert SECRET not in said
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert tmp_path / "dranking.prom" in written
    assert any(path.name == "log.jsonl" for path in written)
    with_secret = [path.name for path, content in written.items() if SECRET.encode() in content]
    assert with_secret == ["retrain.toml"], "where it came from"
    assert any(path.name == "report.html" for path in written)
    registry = {name: store.cat_file(name) for name in store.find("/")}
    assert any(name.endswith("versions/000001/manifest.json") for name in registry)
    for name, content in registry.items():
        assert SECRET.encode() not in content, name
    store.rm("/", recursive=True)


def test_errors_do_not_tell_it(night, tmp_path, capfd):
    code, said = night(capfd, "cluster.fail=true")
    assert code == 2
    assert "no entry for" in said
    assert SECRET not in said
    for location in (
        f"memory://key:{SECRET}@bucket/x",
        f"s3://key:{SECRET}@bucket/x",
        f"nosuch://u:{SECRET}@host/x",
    ):
        code, said = night(capfd, "cluster.scheduler=threads", f"registry.location={location}")
        assert code == 2
        assert SECRET not in said
    code, said = night(capfd, f"data.train=https://u:{SECRET}@host/x")
    assert code == 2
    assert SECRET not in said
    code, said = night(capfd, f"gate.https://u:{SECRET}@host")
    assert code == 2
    assert SECRET not in said
