"""Log runs to MLflow.

MLflow is called in a process of its own, which is stopped at a deadline: whatever a tracking server
does or does not do, the run ends in time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from dranking.errors import TryAgainError, UsageError
from dranking.redaction import redacted
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.config.tables import MlflowConfig
from dranking.retrain.outcome import Outcome
from dranking.retrain.results import Results
from dranking.retrain.work_folder import local_copy
from dranking.retrain.workflow import Run

DATABASES = ("sqlite", "mysql", "postgresql", "mssql")
"""Schemes of tracking URIs that need the whole package of MLflow."""

MAX_PARAMETER = 500
"""Number of characters that every MLflow server accepts in a parameter."""
MAX_ERROR = 300
"""Number of characters that are quoted from the end of MLflow's error output."""


def check_tracking(config: MlflowConfig | None) -> None:
    """Raise UsageError if MLflow is configured, but a package that it needs is not installed."""
    if config is None:
        return
    if importlib.util.find_spec("mlflow") is None:
        raise UsageError("[mlflow] needs the mlflow package: pip install 'dranking[mlflow]'.")
    scheme = config.tracking_uri.partition(":")[0].partition("+")[0]
    if scheme in DATABASES and importlib.util.find_spec("sqlalchemy") is None:
        raise UsageError(
            f"mlflow.tracking_uri: {scheme} is a database, which the client alone cannot write to; "
            "name a server, or run: pip install mlflow."
        )


def track(run: Run, outcome: Outcome) -> None:
    """Log a run to MLflow if configured: parameters, metrics, and the files of its version.

    Raises
    ------
    TryAgainError
        If logging has failed, or was not done in time.
    """
    config = run.config.mlflow
    if config is None:
        return
    order = {
        "tracking_uri": config.tracking_uri,
        "experiment": config.experiment,
        "name": run.run_id,
        "params": _parameters(run.config, outcome.results),
        "metrics": _metrics(outcome),
        "tags": {
            "dranking.run_id": run.run_id,
            "dranking.version": outcome.results.publish.version,
            "dranking.accepted": str(outcome.accepted).lower(),
            "dranking.registry": str(run.registry),
        },
    }
    with local_copy(run.version_folder) as folder:
        _send({**order, "folder": str(folder.absolute())}, config.deadline)


def _send(order: Mapping[str, Any], deadline: float) -> None:
    """Log a run in a process of its own."""
    command = [sys.executable, "-m", "dranking.retrain.monitoring.mlflow_client"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(order),
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TryAgainError(f"MLflow has not answered within {deadline:g} s.") from error
    if done.returncode:
        said = redacted(done.stderr.strip())[-MAX_ERROR:]
        raise TryAgainError(f"MLflow: {said or 'no reason given'}")


def _parameters(config: RetrainConfig, results: Results) -> dict[str, str]:
    """Configuration, data and chosen hyperparameters as MLflow's parameters."""
    content = config.model_dump(mode="json", include={"data", "model", "tune", "gate"})
    content["chosen"] = results.tune.chosen
    content["data"] |= {use: asdict(facts) for use, facts in results.ingest.data.items()}
    return {
        name: redacted(value if isinstance(value, str) else json.dumps(value))[:MAX_PARAMETER]
        for name, value in _flat(content)
    }


def _metrics(outcome: Outcome) -> dict[str, float]:
    """Metrics of challenger and champion, and the costs of the stages."""
    found = {
        f"{role}.{name.replace('@', '_at_')}": value
        for role, metrics in outcome.results.evaluate.metrics.items()
        for name, value in metrics.items()
        if value is not None
    }
    for stage, cost in outcome.costs.items():
        found |= {f"stage.{stage}.{name}": float(value) for name, value in asdict(cost).items()}
    return found


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of nested mappings by dotted names, except empty entries."""
    for name, value in content.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, {}, [], ()):
            yield f"{prefix}{name}", value
