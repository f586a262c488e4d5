"""Dask's own report of how a job went on a cluster: task stream, transfers, workers, as a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.executor import Executor
from dranking.errors import UsageError
from dranking.files.commit import AnyPath, atomic_write, check_output_file


@contextmanager
def performance_report(
    executor: Executor, path: AnyPath | None, overwrite: bool = False
) -> Iterator[None]:
    """Write a report of what runs inside, when it has ended well.

    Parameters
    ----------
    executor
        Where it runs.
    path
        HTML file to write, readable without a network; None means there is no report.
    overwrite
        Replace a file that exists.

    Raises
    ------
    UsageError
        If the executor is of threads, or the cluster's scheduler lacks bokeh.
    """
    if path is None:
        yield
        return
    if not isinstance(executor, DaskExecutor):
        raise UsageError(
            "a performance report is Dask's, of a cluster, and this runs on threads; name a "
            "--scheduler (local starts one here), or leave it out."
        )
    check_output_file(path, overwrite)
    ready, last_count = executor.ask(executor.client.run_on_scheduler, _state(), asynchronous=True)
    if not ready:
        raise UsageError(
            "a performance report needs bokeh where the scheduler runs: pip install bokeh."
        )
    start = time.time()
    executor.ask(executor.client.scheduler.get_task_stream, start=0, stop=0)  # from now on
    yield
    page: str = executor.ask(
        executor.client.scheduler.performance_report,
        start=start,
        last_count=last_count,
        code="",
        mode="inline",
    )
    atomic_write(path, page, overwrite)


def _state() -> Callable[..., Any]:
    """A function for the scheduler, whose machine may not have this package."""

    def state(dask_scheduler: Any) -> tuple[bool, int]:
        """Whether there can be reports, and how far the scheduler's measurements are."""
        from importlib.util import find_spec

        return find_spec("bokeh") is not None, dask_scheduler.monitor.count

    return state
