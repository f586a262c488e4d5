"""Settings of Dask with which clusters and workers are started for the engine, and a topic."""

from __future__ import annotations

from typing import Any

from dranking.engine.cluster.deadlines import setting

SETTINGS: dict[str, Any] = {
    # Stealing a task moves its tile: hundreds of megabytes, for milliseconds of work.
    "distributed.scheduler.work-stealing": False,
    # A state shares arrays with the state that it was made from. Workers that go by the sizes of
    # results count shared arrays twice, and would write to disk what fits into memory. Workers
    # still write to disk by the memory of their process.
    "distributed.worker.memory.target": False,
}
"""Dask's settings for clusters that are started for the engine."""

REUSE_MEMORY: dict[str, Any] = {
    # By default, Dask's workers give every large array back to the system when it is freed. The
    # system clears each page of the next array: a third of the time of a selection.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}
"""Dask's settings for workers that give memory back themselves, near their limit."""

COMPILING = "dranking-compiling"
"""Topic under which workers of `local_cluster` log that they compile kernels."""


def dropping_silent_workers() -> dict[str, Any]:
    """Dask's setting after which a scheduler drops a worker without heartbeats; 5 minutes else.

    The scheduler looks once in this time. It has the worker's nanny start a new process.
    """
    return {"distributed.scheduler.worker-ttl": f"{setting('worker-seconds'):g}s"}


def settings_variables() -> dict[str, str]:
    """The settings as variables of the environment, for processes on other machines."""
    settings = {**SETTINGS, **dropping_silent_workers()}
    names = {name: name.replace(".", "__").replace("-", "_").upper() for name in settings}
    return {f"DASK_{names[name]}": str(value) for name, value in settings.items()}
