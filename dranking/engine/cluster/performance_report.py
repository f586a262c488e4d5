"""Dask's performance report of a job on a cluster: task stream, transfers and workers, as HTML."""

from __future__ import annotations

import codecs
import locale
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

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
        If the executor has no cluster, if bokeh is missing where the scheduler runs, if the
        scheduler's locale is not UTF-8, or if the file exists.
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
    try:
        executor.ask(executor.client.run_on_scheduler, version, "bokeh", asynchronous=True)
    except PackageNotFoundError as error:
        raise UsageError(
            "a performance report needs bokeh where the scheduler runs: pip install bokeh."
        ) from error
    _check_encoding(executor)
    import distributed

    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        report = distributed.performance_report(str(page), mode="inline")
        # As a plain context manager, it would wait without end for a scheduler that is lost.
        with executor.client.as_current():
            executor.ask(report.__aenter__)
        yield
        with executor.client.as_current():
            executor.ask(report.__aexit__, None, None, None, code="")
        atomic_write(path, page.read_bytes(), overwrite)


def _check_encoding(executor: DaskExecutor) -> None:
    """Raise UsageError unless the scheduler's Python reads files as UTF-8.

    There, Dask reads the page that bokeh has written in UTF-8, after all work is done.
    """
    ask = executor.client.run_on_scheduler
    encoding = executor.ask(ask, locale.getpreferredencoding, False, asynchronous=True)
    if codecs.lookup(encoding).name != "utf-8":
        raise UsageError(
            f"a performance report needs UTF-8 where the scheduler runs, and its locale is that of "
            f"{encoding}: set PYTHONUTF8=1 there, or leave the performance report out."
        )
