"""What a run reports while it goes on and when it ends: event log, Prometheus, MLflow."""
