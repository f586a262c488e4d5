"""An Airflow DAG that retrains every night.

A rejected challenger is a success, whose result has "decision": "rejected"; the error "try again
later" is retried. Copy this file to the
DAG folder; `dranking` must be installed on the workers.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

CONFIG = "/srv/ranking/retrain.toml"


@dag(
    schedule="15 3 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": pendulum.duration(minutes=10)},
    tags=["ranking"],
)
def dranking_retrain():
    @task
    def retrain() -> dict:
        from dranking import DataError, UsageError
        from dranking.retrain.config.config import load_config
        from dranking.retrain.runner import retrain as run

        try:
            return run(load_config(CONFIG)).as_json()
        except (DataError, UsageError) as error:  # a retry would change nothing
            raise AirflowFailException(str(error)) from error

    retrain()


dranking_retrain()
