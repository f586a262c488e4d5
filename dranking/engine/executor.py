"""Executors run tasks: threads of this process, or the workers of a Dask cluster.

Both have the methods of `Executor`, and accept futures as arguments. Large data goes from task to
task as a future, never through the driver. `cluster.dask_executor` has the executor of clusters,
and `choose_executor` takes one of the two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import is_dataclass
from math import ceil
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
from scipy.sparse import issparse

from dranking.engine.memory import MEMORY_SHARE, available_memory

Task: TypeAlias = Any  # a concurrent.futures.Future or a distributed.Future


PAUSED_SHARE = 0.8
"""Share of a worker's limit from which Dask starts no task there (``distributed.worker.memory``);
at 0.95, the nanny kills the process."""


class Room(NamedTuple):
    """The memory of a process that has a limit of its own.

    Attributes
    ----------
    slots
        Slots of the process.
    limit, held
        Limit of the process, and what it held when it was asked, in bytes.
    """

    slots: tuple[int, ...]
    limit: int
    held: int

    @property
    def n_bytes(self) -> int:
        """Bytes that tasks may take before no more of them are started; may be below 0."""
        return int(PAUSED_SHARE * self.limit) - self.held

    def limit_for(self, n_bytes: int) -> int:
        """The limit with which tasks may take so many bytes."""
        return ceil((self.held + n_bytes) / PAUSED_SHARE)


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

    def rooms(self, held: Callable[[], int]) -> list[Room]:
        """The memory of each process that has a limit of its own.

        `held` returns the bytes that the process in which it is called holds, whatever the tasks.
        """
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

    def rooms(self, held: Callable[[], int]) -> list[Room]:
        """No process: threads share the memory of this one, which has no limit of its own."""
        return []

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


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_resolved(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*(arg.result() if isinstance(arg, Future) else arg for arg in args))


class TaskDependencies:
    """The input tasks of every task of an executor: giving up a task includes its inputs.

    Holds weak references only.
    """

    def __init__(self) -> None:
        self._inputs: WeakKeyDictionary[Any, list[ref[Any]]] = WeakKeyDictionary()

    def add(self, task: Any, inputs: Sequence[Any]) -> None:
        """Note that a task waits for its inputs."""
        if inputs:
            self._inputs[task] = [ref(each) for each in inputs]

    def unfinished(self, tasks: Sequence[Any]) -> list[Any]:
        """The tasks that are not done, among the given tasks and all tasks that these wait for."""
        found: dict[Any, None] = {}
        left = list(tasks)
        while left:
            task = left.pop()
            if task is not None and task not in found and not task.done():
                found[task] = None
                left += [inputs() for inputs in self._inputs.get(task, [])]
        return list(found)


def n_bytes_of(value: Any) -> int:
    """Bytes of the arrays and numbers in an argument of a task, however nested."""
    if isinstance(value, tuple | list):
        return sum(map(n_bytes_of, value))
    if isinstance(value, dict):
        return sum(map(n_bytes_of, value.values()))
    if is_dataclass(value) or issparse(value):
        return sum(map(n_bytes_of, vars(value).values()))
    return int(np.asarray(value).nbytes) if isinstance(value, np.ndarray | np.number | float) else 0
