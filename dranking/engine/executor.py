"""Where tasks run: threads of this process, or the workers of a Dask cluster.

Both have the `submit` / `gather` shape of `concurrent.futures`. Futures are accepted as arguments;
large data travels between tasks as futures, never through the driver.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, Protocol, TypeAlias

import psutil

from dranking.errors import TryAgainError, UsageError

MEMORY_SHARE = 0.7
"""Of the memory that is there; the rest is for the process itself and what passes through."""

Task: TypeAlias = Any  # a concurrent.futures.Future or a distributed.Future


class Executor(Protocol):
    """What the engine asks of an executor.

    Attributes
    ----------
    n_slots
        Tasks that can run at the same time.
    in_process
        Whether tasks share this process's memory, and so may change in place what they alone use.
    memory_limit
        Bytes that a job may take, or None: then it is most of what is there.
    """

    n_slots: int
    in_process: bool
    memory_limit: int | None

    @property
    def memory_bytes(self) -> int:
        """Bytes that a job may take."""
        ...

    def submit(self, function: Callable[..., Any], /, *args: Any, name: str) -> Task:
        """Start `function(*args)`, futures among the arguments replaced by their results."""
        ...

    def gather(self, tasks: Sequence[Task]) -> list[Any]:
        """Wait for tasks and return their results in order; the first error is raised."""
        ...


class ThreadExecutor:
    """Threads of this process, one per core by default."""

    in_process = True
    memory_limit: int | None = None

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_slots = n_threads or _available_cores()
        self._pool = ThreadPoolExecutor(self.n_slots, thread_name_prefix="dranking")

    @property
    def memory_bytes(self) -> int:
        """The limit, or most of what this machine has available now."""
        if self.memory_limit is not None:
            return self.memory_limit
        return int(MEMORY_SHARE * psutil.virtual_memory().available)

    def submit(self, function: Callable[..., Any], /, *args: Any, name: str) -> Task:
        """Start a task. The queue is first in, first out: what it waits for has started before."""
        return self._pool.submit(_run_resolved, function, args)

    def gather(self, tasks: Sequence[Task]) -> list[Any]:
        """Wait for tasks and return their results in order; on an error none is left running."""
        try:
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks:
                task.cancel()
            raise


class DaskExecutor:
    """The workers of a Dask cluster, through a `distributed.Client`."""

    in_process = False
    memory_limit: int | None = None

    def __init__(self, client: Any) -> None:
        self._client = client
        self.n_slots = max(1, sum(client.nthreads().values()))
        self._numbers = itertools.count()
        # Unique over the clients of a scheduler; task names stay readable on the dashboard.
        self._run = f"{client.id[-8:]}{id(self):x}"

    @property
    def memory_bytes(self) -> int:
        """The limit, or most of those of the workers, taken together."""
        if self.memory_limit is not None:
            return self.memory_limit
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return int(MEMORY_SHARE * sum(worker["memory_limit"] for worker in workers))

    def submit(self, function: Callable[..., Any], /, *args: Any, name: str) -> Task:
        """Start a task under a key that begins with `name`."""
        import dask

        key = f"{name}-{self._run}-{next(self._numbers)}"
        # Blocks of this process's memory travel with their task on purpose: unlike scattered data,
        # they can be sent again when a worker is lost.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            return self._client.submit(function, *args, key=key, pure=False)

    def gather(self, tasks: Sequence[Task]) -> list[Any]:
        """Wait for tasks and return their results in order.

        Raises
        ------
        TryAgainError
            If the connection to the scheduler is lost.
        """
        from dask.distributed import CancelledError
        from distributed.comm import CommClosedError

        try:
            results: list[Any] = self._client.gather(list(tasks))
        except (CancelledError, CommClosedError) as error:
            raise TryAgainError(
                f"lost the Dask scheduler at {self._client.scheduler.address}; "
                "run again when the cluster is back."
            ) from error
        return results


_SHARED_LOCK = threading.Lock()
_SHARED_THREADS: ThreadExecutor | None = None


def get_executor(executor: Executor | Literal["threads"] | object | None = None) -> Executor:
    """The executor to use.

    Parameters
    ----------
    executor
        An executor, a `distributed.Client`, or "threads". None means the current Dask client if
        there is one in this process, else threads.

    Raises
    ------
    UsageError
        If it is none of these.
    TryAgainError
        If the client's cluster has no workers.
    """
    if executor is None:
        executor = _current_client() or "threads"
    if executor == "threads":
        return _shared_threads()
    if isinstance(executor, (ThreadExecutor, DaskExecutor)):
        return executor
    if type(executor).__module__.startswith("distributed") and hasattr(executor, "nthreads"):
        if not executor.nthreads():
            raise TryAgainError(f"the Dask cluster of {executor} has no workers.")
        return DaskExecutor(executor)
    raise UsageError(
        f"executor is a {type(executor).__name__}; pass 'threads' or a distributed.Client."
    )


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


class _SingleThreadedBlas:
    """Holds BLAS at one thread while any task needs it so: blocks are the parallelism."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._tasks += 1
            if self._tasks == 1:
                if self._controller is None:
                    import scipy.linalg  # noqa: F401 - a library is limited only once it is loaded
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._tasks -= 1
            if self._tasks == 0:
                self._limit.restore_original_limits()


_SINGLE_THREADED_BLAS = _SingleThreadedBlas()


def with_one_blas_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that uses BLAS from a task. It takes a while: not for short tasks."""
    with _SINGLE_THREADED_BLAS:
        return function(*args)
