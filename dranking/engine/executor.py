"""Executors run tasks: threads of this process, or the workers of a Dask cluster.

Both have the methods `submit` and `gather`, and accept futures as arguments. Large data goes from
task to task as a future, never through the driver.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Literal, Protocol, TypeAlias

from dranking.engine.cluster.dask_executor import CLOSED, DaskExecutor, TaskDependencies
from dranking.engine.memory import MEMORY_SHARE, available_memory
from dranking.errors import TryAgainError, UsageError

Task: TypeAlias = Any  # a concurrent.futures.Future or a distributed.Future


class Executor(Protocol):
    """The methods that the engine calls.

    Attributes
    ----------
    n_slots
        Number of tasks that can run at the same time.
    in_process
        Whether tasks share the memory of this process. A task may then change an argument in place
        if no other task uses that argument.
    memory_limit
        Bytes of memory that a job may take; None means most of the available memory.
    """

    n_slots: int
    in_process: bool
    memory_limit: int | None

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that a job may take."""
        ...

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Task:
        """Start `function(*args)`, with the results of those arguments that are futures.

        Tasks with the same `slot`, from 0 to `n_slots` - 1, run in one process as long as no worker
        is lost. With `slot` None, the executor chooses the place.
        """
        ...

    def gather(self, tasks: Sequence[Task]) -> list[Any]:
        """Wait for tasks and return their results in order.

        After an error, the other tasks are cancelled and the error is raised.
        """
        ...

    def cancel(self, tasks: Sequence[Task]) -> None:
        """Cancel tasks and the tasks that they wait for: none of them starts any more."""
        ...


class ThreadExecutor:
    """Threads of this process, one per core by default."""

    in_process = True
    memory_limit: int | None = None

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_slots = n_threads or _available_cores()
        self._pool = ThreadPoolExecutor(self.n_slots, thread_name_prefix="dranking")
        self._dependencies = TaskDependencies()

    @property
    def memory_bytes(self) -> int:
        """`memory_limit`, or most of the memory that this machine has available now."""
        if self.memory_limit is not None:
            return self.memory_limit
        return int(MEMORY_SHARE * available_memory())

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Task:
        """Queue a task. Tasks start in the order of the queue, hence after their input tasks."""
        task = self._pool.submit(_run_resolved, function, args)
        self._dependencies.add(task, [arg for arg in args if isinstance(arg, Future)])
        return task

    def gather(self, tasks: Sequence[Task]) -> list[Any]:
        """Wait for tasks and return their results in order; after an error no task is running."""
        try:
            return [task.result() for task in tasks]
        except BaseException:
            self.cancel(tasks)
            raise

    def cancel(self, tasks: Sequence[Task]) -> None:
        """Cancel tasks and the tasks that they wait for; return when none of them is running."""
        wait([task for task in self._dependencies.unfinished(tasks) if not task.cancel()])

    def close(self) -> None:
        """Cancel all tasks and stop the threads."""
        self._pool.shutdown(cancel_futures=True)


_SHARED_LOCK = threading.Lock()
_SHARED_THREADS: ThreadExecutor | None = None


def get_executor(executor: Executor | Literal["threads"] | object | None = None) -> Executor:
    """The executor to use.

    Parameters
    ----------
    executor
        An executor, a `distributed.Client`, or "threads". None means the current Dask client of
        this process, or threads if there is none.

    Raises
    ------
    UsageError
        If `executor` is something else, or an asynchronous client.
    TryAgainError
        If the client is closed, or its cluster has no workers.
    """
    if executor is None:
        executor = _current_client() or "threads"
    if isinstance(executor, str) and executor == "threads":
        return _shared_threads()
    if isinstance(executor, (ThreadExecutor, DaskExecutor)):
        return executor
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(executor, distributed.Client):
        return _dask_executor(executor)
    raise UsageError(f"executor is {executor!r:.80}; pass 'threads' or a distributed.Client.")


def _dask_executor(client: Any) -> DaskExecutor:
    if client.asynchronous:
        raise UsageError(f"{client} is asynchronous; pass a client made without asynchronous=True.")
    if client.status in CLOSED:
        raise TryAgainError(f"{client} is closed; pass one that is connected.")
    return DaskExecutor(client)


def _shared_threads() -> ThreadExecutor:
    global _SHARED_THREADS
    with _SHARED_LOCK:
        if _SHARED_THREADS is None:
            _SHARED_THREADS = ThreadExecutor()
        return _SHARED_THREADS


def _current_client() -> Any | None:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.Client.current()
    except ValueError:
        return None


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_resolved(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*(arg.result() if isinstance(arg, Future) else arg for arg in args))
