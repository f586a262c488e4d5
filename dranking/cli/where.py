"""Where a command's tasks run: options that all commands share which read data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dranking.cli.output import progress_shown
from dranking.files.key_values import put_setting

if TYPE_CHECKING:
    from dranking.engine.executor import Executor


@dataclass(frozen=True, kw_only=True)
class Where:
    """A scheduler, options of its cluster, and a report of how it went."""

    scheduler: Annotated[
        str,
        typer.Option(
            help="threads; local (worker processes); tcp://host:8786 or tls://host:8786; a "
            "scheduler file (.json); or a Python file with make_cluster(options), such as "
            "cluster/slurm.py."
        ),
    ] = "threads"
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="K=V",
            help="Option of the cluster: n_workers=8, memory_limit=4GB, timeout=10m, "
            "tls_ca_file=ca.pem, ... Repeat for more.",
        ),
    ] = None

    performance_report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Write Dask's report of how the job went on the cluster."
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """Of the cluster, by name."""
        options: dict[str, Any] = {}
        for setting in self.cluster or ():
            put_setting(options, setting, "--cluster", "n_workers=8")
        return options

    @contextmanager
    def running(
        self, overwrite: bool = False, *, memory_limit: str | None = None
    ) -> Iterator[Executor]:
        """The executor for the time of a job, its progress shown.

        Parameters
        ----------
        overwrite
            Replace the performance report if it exists.
        memory_limit
            As in `dranking.engine.cluster.connect.open_executor`.
        """
        from dranking.engine.cluster.connect import open_executor
        from dranking.engine.cluster.performance_report import performance_report

        with (
            progress_shown(),
            open_executor(self.scheduler, self.options, memory_limit=memory_limit) as executor,
            performance_report(executor, self.performance_report, overwrite),
        ):
            yield executor
