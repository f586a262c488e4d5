"""Small jobs side by side, each in a thread of its own in which all its tasks run.

A job of many short tasks keeps a thread of the driver busier than the threads that run the tasks.
Where there are several such jobs, a thread for each of them keeps all cores busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from dranking.engine.executor import Executor, Task, ThreadExecutor

Job = TypeVar("Job")
Result = TypeVar("Result")


class InlineExecutor(ThreadExecutor):
    """Runs each task at once, in the thread that submits the task."""

    def __init__(self, memory_limit: int) -> None:
        super().__init__(1)
        self.memory_limit = memory_limit

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Task:
        """Run a task, whose input tasks have run."""
        task: Future[Any] = Future()
        try:
            task.set_result(
                function(*(arg.result() if isinstance(arg, Future) else arg for arg in args))
            )
        except Exception as error:
            task.set_exception(error)
        return task


def run_side_by_side(
    function: Callable[[Job, Executor], Result],
    jobs: Sequence[Job],
    executor: Executor,
    *,
    are_small: bool,
) -> Iterator[Result]:
    """Yield `function(job, executor)` of all jobs, in their order.

    Small jobs get an executor of one thread each, where threads of this process run the tasks;
    other jobs run one after the other. After an error, no job is begun.
    """
    n_threads = min(executor.n_slots, len(jobs))
    if not (are_small and executor.in_process and n_threads > 1):
        yield from (function(job, executor) for job in jobs)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="dranking-job") as threads:
        limit = executor.memory_bytes // n_threads
        running = [
            threads.submit(copy_context().run, function, job, InlineExecutor(limit)) for job in jobs
        ]
        try:
            for each in running:
                yield each.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
