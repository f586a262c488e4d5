"""Where a command's job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dranking.cli.output import progress_shown

if TYPE_CHECKING:
    from dranking.engine.executor import Executor


@contextmanager
def running(
    scheduler: str,
    performance_report: Path | None = None,
    overwrite: bool = False,
    *,
    memory_limit: str | None = None,
) -> Iterator[Executor]:
    """The executor of a scheduler for the time of a job, its progress shown.

    Parameters
    ----------
    scheduler, memory_limit
        As in `open_executor`.
    performance_report, overwrite
        As in `dranking.engine.performance.performance_report`.
    """
    from dranking.engine.cluster import open_executor
    from dranking.engine.performance import performance_report as reported

    with (
        progress_shown(),
        open_executor(scheduler, memory_limit=memory_limit) as executor,
        reported(executor, performance_report, overwrite),
    ):
        yield executor
