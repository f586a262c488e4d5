"""Dask's performance report of a job on a cluster: task stream, transfers and workers, as HTML."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.executor import Executor
from dranking.errors import UsageError
from dranking.files.places import AnyPlace
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file


@contextmanager
def performance_report(
    executor: Executor, path: AnyPlace | None, overwrite: bool = False
) -> Iterator[None]:
    """Write a report of the tasks that run inside the context, unless the context ends by an error.

    Parameters
    ----------
    executor
        Runs the tasks.
    path
        HTML file to write, which a browser shows without a network; None means no report.
    overwrite
        Whether to replace an existing file.

    Raises
    ------
    UsageError
        If the executor has no cluster, if bokeh is missing where the scheduler runs, or if the file
        exists.
    """
    if path is None:
        yield
        return
    if not isinstance(executor, DaskExecutor):
        raise UsageError(
            "Dask reports on clusters only, and this runs on threads; name a --scheduler (local "
            "starts a cluster on this machine), or leave the performance report out."
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
    """A function that runs on the scheduler.

    The function travels as code because it is nested: the scheduler may not have this package.
    """

    def state(dask_scheduler: Any) -> tuple[bool, int]:
        """Whether bokeh is there, and the number of measurements that the scheduler has made."""
        from importlib.util import find_spec

        return find_spec("bokeh") is not None, dask_scheduler.monitor.count

    return state
