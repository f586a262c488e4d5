"""Logging of runs to MLflow, for those who look at models there.

It happens in a process of its own, which is ended at a deadline: whatever a tracking server does or
does not do, the night is over in time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dranking.errors import TryAgainError, UsageError
from dranking.retrain.config import MlflowConfig
from dranking.retrain.run import Run

MAX_PARAM = 500  # characters that every MLflow server takes
LAST_WORDS = 300  # characters of what the process said before it ended


def check_tracking(config: MlflowConfig | None) -> None:
    """Raise UsageError if runs shall be logged and there is no MLflow to do it."""
    if config is not None and importlib.util.find_spec("mlflow") is None:
        raise UsageError("[mlflow] needs the mlflow package: pip install 'dranking[mlflow]'.")


def track(run: Run, outcome: Mapping[str, Any]) -> None:
    """Log a run to MLflow, if it is wanted: parameters, metrics, and the files of its version.

    Parameters
    ----------
    run
        That has ended.
    outcome
        Its `Outcome.as_json`.

    Raises
    ------
    TryAgainError
        If that has failed, or was not done in time.
    """
    config = run.config.mlflow
    if config is None:
        return
    order = {
        "tracking_uri": config.tracking_uri,
        "experiment": config.experiment,
        "name": run.run_id,
        "params": params_of(run),
        "metrics": metrics_of(outcome),
        "tags": {
            "dranking.run_id": run.run_id,
            "dranking.version": outcome["version"],
            "dranking.accepted": str(outcome["accepted"]).lower(),
            "dranking.registry": str(run.registry),
        },
        "folder": str(run.version.absolute()),
    }
    command = [sys.executable, "-m", "dranking.retrain.mlflow_client"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(order),
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=config.deadline,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TryAgainError(f"MLflow has not answered within {config.deadline:g} s.") from error
    if done.returncode:
        raise TryAgainError(f"MLflow: {done.stderr.strip()[-LAST_WORDS:] or 'no reason given'}")


def params_of(run: Run) -> dict[str, str]:
    """What was asked and chosen, as MLflow shows parameters: dotted names and texts."""
    content = run.config.model_dump(mode="json", include={"data", "model", "tune", "gate"})
    content["chosen"] = run.facts["tune"]["chosen"]
    for name in run.sources:
        content["data"][name] = run.facts["ingest"][name]
    found = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in _flat(content)
    }
    return {name: text[:MAX_PARAM] for name, text in found.items()}


def metrics_of(outcome: Mapping[str, Any]) -> dict[str, float]:
    """Metrics of challenger and champion, and what each stage has cost."""
    found = {
        f"{model}.{name.replace('@', '_at_')}": value
        for model, metrics in outcome["metrics"].items()
        for name, value in metrics.items()
        if value is not None
    }
    for stage, cost in outcome["stages"].items():
        found |= {f"stage.{stage}.{name}": float(value) for name, value in cost.items()}
    return found


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of nested mappings by dotted names, without what is not set."""
    for name, value in content.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, {}, [], ()):
            yield f"{prefix}{name}", value
