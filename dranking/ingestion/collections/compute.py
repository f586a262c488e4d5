"""Delayed values computed by the executor's cluster, or in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.executor import Executor


def as_current(executor: Executor) -> AbstractContextManager[Any]:
    """A context in which the executor's client, if there is one, is Dask's current client."""
    if isinstance(executor, DaskExecutor):
        context: AbstractContextManager[Any] = executor.client.as_current()
        return context
    return nullcontext()


def computed(executor: Executor, values: Sequence[Any]) -> list[Any]:
    """Compute Dask collections in one graph; on a cluster, deadlines hold as for other tasks."""
    from dask import compute

    if isinstance(executor, DaskExecutor):
        return executor.gather(executor.client.compute(list(values)))
    return list(compute(*values))


def persisted(executor: Executor, values: Sequence[Any]) -> list[Any]:
    """Start the computation of delayed values in one graph.

    Returns
    -------
    On a cluster, the futures of the values, which stay on the workers; otherwise the values.
    """
    if isinstance(executor, DaskExecutor):
        futures: list[Any] = executor.client.compute(list(values))
        return futures
    return computed(executor, values)
