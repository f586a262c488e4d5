"""Log one run to MLflow: the process that `mlflow_tracking` starts and waits for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def log_run(order: Mapping[str, Any]) -> None:
    """Log a run as `mlflow_tracking.track` describes it; errors of MLflow are passed on."""
    import mlflow

    mlflow.set_tracking_uri(order["tracking_uri"])
    mlflow.set_experiment(order["experiment"])
    with mlflow.start_run(run_name=order["name"], tags=order["tags"]):
        mlflow.log_params(order["params"])
        mlflow.log_metrics(order["metrics"])
        mlflow.log_artifacts(order["folder"])


def main() -> int:
    """Log the run that stdin describes as JSON; return 1 and print a line on stderr on failure."""
    try:
        log_run(json.load(sys.stdin))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
