"""MLflow: logged parameters, metrics and files; every failure is a warning."""

import importlib.util
import io
import json
import sys
import time

import pytest

from dranking.errors import RetrainWarning, UsageError
from dranking.retrain.config.config import load_config
from dranking.retrain.monitoring import mlflow_client, mlflow_tracking
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from tests.retrain.stream import Stream

HAS_MLFLOW = importlib.util.find_spec("mlflow") is not None


@pytest.fixture
def stream(tmp_path):
    found = Stream(tmp_path)
    found.night(1)
    return found


@pytest.fixture
def installed(monkeypatch):
    """Pretend that MLflow is installed; tests replace the process that calls it."""
    monkeypatch.setattr(mlflow_tracking.importlib.util, "find_spec", lambda name: object())


def run(stream, *settings, **options):
    return retrain(load_config(stream.config(), settings, {}), **options)


def champion(stream):
    return Registry(stream.folder / "registry").aliases.champion


def test_without_the_package_nothing_is_begun(stream, monkeypatch):
    monkeypatch.setattr(mlflow_tracking.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'dranking\[mlflow\]'"):
        run(stream, "mlflow.tracking_uri=file:x")
    assert not (stream.folder / "registry").exists()


def test_a_database_needs_the_whole_package(stream, monkeypatch):
    there = {"mlflow": object(), "sqlalchemy": None}
    monkeypatch.setattr(mlflow_tracking.importlib.util, "find_spec", there.get)
    with pytest.raises(UsageError, match=r"sqlite is a database, .* pip install mlflow"):
        run(stream, "mlflow.tracking_uri=sqlite:///mlflow.db")


def test_a_failing_server_is_a_warning(stream, installed, monkeypatch, tmp_path):
    fake = tmp_path / "fake" / "mlflow.py"
    fake.parent.mkdir()
    fake.write_text("def set_tracking_uri(uri): raise OSError(f'{uri} is away')")
    monkeypatch.syspath_prepend(str(fake.parent))
    with pytest.warns(RetrainWarning, match=r"OSError: http://\*\*\*@host/ is away"):
        outcome = run(stream, "mlflow.tracking_uri=http://me:secret@host/")
    assert outcome.accepted
    assert champion(stream) == "000001"


def test_a_long_error_is_redacted_before_it_is_shortened(stream, installed, monkeypatch, tmp_path):
    fake = tmp_path / "fake" / "mlflow.py"
    fake.parent.mkdir()
    url = "http://me:" + "secret" * 20 + "@host"
    fake.write_text(f"def set_tracking_uri(uri): raise OSError('{url}' + 'x' * 230)")
    monkeypatch.syspath_prepend(str(fake.parent))
    with pytest.warns(RetrainWarning) as warned:
        run(stream, "mlflow.tracking_uri=x")
    [said] = [str(each.message) for each in warned if each.category is RetrainWarning]
    assert "MLflow: " in said
    assert "secret" not in said


def test_a_server_that_does_not_answer_is_given_up(stream, installed, monkeypatch, tmp_path):
    fake = tmp_path / "fake" / "mlflow.py"
    fake.parent.mkdir()
    fake.write_text("import time; time.sleep(600)")
    monkeypatch.syspath_prepend(str(fake.parent))
    begun = time.monotonic()
    with pytest.warns(RetrainWarning, match=r"MLflow has not answered within 0\.5 s"):
        run(stream, "mlflow.tracking_uri=x", "mlflow.deadline=0.5")
    assert time.monotonic() - begun < 300  # far below what it sleeps
    assert champion(stream) == "000001"


def test_what_is_logged(stream, installed, monkeypatch):
    orders = []
    monkeypatch.setattr(
        mlflow_tracking.subprocess,
        "run",
        lambda command, **options: (
            orders.append(json.loads(options["input"]))
            or mlflow_tracking.subprocess.CompletedProcess(command, 0, "", "")
        ),
    )
    outcome = run(stream, "mlflow.tracking_uri=file:x", "mlflow.experiment=nights")
    [order] = orders
    assert (order["tracking_uri"], order["experiment"]) == ("file:x", "nights")
    assert order["name"] == outcome.run_id
    chosen = outcome.results.tune.chosen
    assert order["params"]["chosen.regularization"] == json.dumps(chosen["regularization"])
    assert order["params"]["model.kind"] == "greedy-rankrls"
    assert order["params"]["data.train.n_queries"] == str(stream.n_queries)
    assert "data.window" not in order["params"]
    metrics = outcome.results.evaluate.metrics["challenger"]
    assert order["metrics"]["challenger.ndcg_at_10"] == metrics["ndcg@10"]
    assert order["metrics"]["stage.fit.seconds"] == outcome.costs["fit"].seconds
    assert order["tags"]["dranking.version"] == "000001"
    assert order["folder"].endswith(f"runs/{outcome.run_id}/version")
    assert run(stream, "mlflow.tracking_uri=file:x").is_unchanged
    assert len(orders) == 1, "a run that did nothing is not logged again"


def test_where_it_is_logged_does_not_make_another_run(stream, installed, monkeypatch):
    first = run(stream)
    again = run(stream, "mlflow.tracking_uri=file:x")
    assert again.is_unchanged
    assert again.run_id == first.run_id


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MLFLOW, reason="needs mlflow-skinny")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_shows_the_run(stream, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more packages
    from mlflow.tracking import MlflowClient

    uri = f"file:{stream.folder}/mlruns"
    outcome = run(stream, f"mlflow.tracking_uri={uri}", "export.report=true")
    client = MlflowClient(uri)
    [experiment] = [e for e in client.search_experiments() if e.name == "dranking"]
    [logged] = client.search_runs([experiment.experiment_id])
    assert logged.info.run_name == outcome.run_id
    assert logged.info.status == "FINISHED"
    metrics = outcome.results.evaluate.metrics["challenger"]
    assert logged.data.metrics["challenger.ndcg_at_10"] == metrics["ndcg@10"]
    assert logged.data.params["model.kind"] == "greedy-rankrls"
    artifacts = {file.path for file in client.list_artifacts(logged.info.run_id)}
    assert {"model.json", "report.html", "gate.json", "exports"} <= artifacts


def test_the_client_says_in_a_line_what_went_wrong(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("{"))
    assert mlflow_client.main() == 1
    assert capsys.readouterr().err.startswith("JSONDecodeError: ")
