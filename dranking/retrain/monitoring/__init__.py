"""Reports of a run while it goes on and when it ends: event log, Prometheus, MLflow."""
