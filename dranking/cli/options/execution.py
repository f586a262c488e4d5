"""Options of all commands that read data: the scheduler and its cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dranking.cli.output import note, progress_shown
from dranking.cli.parsing.topics import EXECUTION
from dranking.errors import UsageError
from dranking.files.key_values import put_setting
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.engine.executor import Executor


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """A scheduler, options of its cluster, and Dask's performance report."""

    TOPIC: ClassVar[str] = EXECUTION

    scheduler: Annotated[
        str,
        typer.Option(
            help="Where tasks run: threads; local (worker processes); an address, such as "
            "tcp://host:8786 or tls://host:8786; a scheduler file (.json); or a Python file with "
            "make_cluster(options), such as cluster/slurm.py."
        ),
    ] = "threads"
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="K=V",
            help="An option of the cluster, such as n_workers=8, memory_limit=4GB, timeout=10m "
            "or tls_ca_file=ca.pem. Repeat the option for more.",
        ),
    ] = None
    performance_report: Annotated[
        Place | None,
        typer.Option(
            metavar="FILE.html", help="Write Dask's performance report of the job on the cluster."
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of the cluster, by name."""
        options: dict[str, Any] = {}
        for setting in self.cluster or ():
            put_setting(options, setting, "--cluster", "n_workers=8")
        return options

    @property
    def given(self) -> dict[str, Any]:
        """The options that are not the defaults, as they are written; the others are None."""
        return {
            "--scheduler": None if self.scheduler == "threads" else self.scheduler,
            "--cluster": self.cluster or None,
            "--performance-report": self.performance_report,
        }

    @contextmanager
    def running(
        self, overwrite: bool = False, *, memory_limit: str | None = None
    ) -> Iterator[Executor]:
        """Open the executor of a job, and show the progress of the job.

        Parameters
        ----------
        overwrite
            Replace the performance report if it exists.
        memory_limit
            As in `dranking.engine.cluster.open_executor.open_executor`.
        """
        from dranking.engine.cluster.open_executor import open_executor
        from dranking.engine.cluster.performance_report import performance_report

        with (
            progress_shown(),
            open_executor(self.scheduler, self.options, memory_limit=memory_limit) as executor,
            performance_report(executor, self.performance_report, overwrite),
        ):
            if not executor.in_process:
                note(str(executor))
            yield executor


def check_in_process(options: Mapping[str, Any], what: str) -> None:
    """Raise UsageError for given options without effect on what is done in this process."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UsageError(
            f"{', '.join(given)}: has no effect on {what}, since it runs in this process; "
            "leave it out."
        )
