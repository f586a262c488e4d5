"""The schedulers can read the examples, and treat every exit code as intended."""

import ast
import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dranking.errors import DataError, TryAgainError, UsageError

FOLDER = Path(__file__).parents[2] / "pipelines" / "schedules"


def test_crontab():
    lines = [
        line
        for line in (FOLDER / "crontab").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert re.fullmatch(r"MAILTO=\S+", lines[0])
    [job] = lines[1:]
    *times, command = job.split(None, 5)
    assert times == ["15", "3", "*", "*", "*"]
    assert "%" not in command, "cron ends a command at a percent sign"
    assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize(("exit_code", "expected"), [(0, 0), (75, 0), (2, 2), (3, 3)])
def test_cron_reports_what_somebody_must_look_at(exit_code, expected, tmp_path):
    *_, job = (FOLDER / "crontab").read_text().splitlines()
    command = job.split(None, 5)[5]
    fake = tmp_path / "dranking"
    fake.write_text(f"#!/bin/sh\necho wrong >&2\nexit {exit_code}\n")
    fake.chmod(0o755)
    command = command.replace("/srv/ranking/venv/bin/dranking", str(fake))
    command = command.replace("/srv/ranking", str(tmp_path))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert done.stderr == ("wrong\n" if expected else "")


def _unit(name):
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    parser.optionxform = str
    parser.read(FOLDER / name)
    return parser


def test_systemd_units():
    service, timer = _unit("dranking-retrain.service"), _unit("dranking-retrain.timer")
    codes = service["Service"]["SuccessExitStatus"].split()
    assert codes == [str(TryAgainError.exit_code)]  # a rejection is exit code 0
    assert service["Service"]["Type"] == "oneshot"
    assert timer["Timer"]["OnCalendar"] == "*-*-* 03:15:00"
    if shutil.which("systemd-analyze"):
        calendar = ["systemd-analyze", "calendar", timer["Timer"]["OnCalendar"]]
        assert subprocess.run(calendar, capture_output=True, check=False).returncode == 0


def test_cronjob():
    job = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    spec = job["spec"]["jobTemplate"]["spec"]
    [rule] = spec["podFailurePolicy"]["rules"]
    final = [error.exit_code for error in (UsageError, DataError)]
    assert rule["onExitCodes"]["values"] == final
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never", "a pod failure policy needs it"
    [container] = pod["containers"]
    assert container["name"] == rule["onExitCodes"]["containerName"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_airflow_dag():
    tree = ast.parse((FOLDER / "airflow_dag.py").read_text())
    [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    [decorator] = function.decorator_list
    given = {keyword.arg: keyword.value for keyword in decorator.keywords}
    assert ast.literal_eval(given["schedule"]) == "15 3 * * *"
    assert ast.literal_eval(given["catchup"]) is False
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dranking")
        for alias in node.names
    }
    assert names == {"DataError", "UsageError", "load_config", "retrain"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dranking"):
            module = __import__(node.module, fromlist=["x"])
            assert all(hasattr(module, alias.name) for alias in node.names)
