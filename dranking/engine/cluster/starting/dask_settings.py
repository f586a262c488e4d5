"""Settings of Dask with which clusters and workers are started for the engine, and a topic."""

from __future__ import annotations

from typing import Any

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


def settings_variables() -> dict[str, str]:
    """`SETTINGS` as variables of the environment, for processes on other machines."""
    names = {name.replace(".", "__").replace("-", "_").upper(): SETTINGS[name] for name in SETTINGS}
    return {f"DASK_{name}": str(value) for name, value in names.items()}
