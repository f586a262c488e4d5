"""Results of many tasks, in order, with progress reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dranking.engine.executor import Executor, Task
from dranking.engine.progress import report

REPORTS = 50
"""Number of reports of a stage."""


def results_of(executor: Executor, tasks: Sequence[Task], stage: str) -> Iterator[Any]:
    """Yield the results of tasks in order; an error cancels the tasks that are left."""
    at_once = max(-(-len(tasks) // REPORTS), 2 * executor.n_slots)
    waiting = list(tasks)
    try:
        while waiting:
            yield from executor.gather(waiting[:at_once])
            del waiting[:at_once]
            report(stage, len(tasks) - len(waiting), len(tasks))
    finally:
        executor.cancel(waiting)
