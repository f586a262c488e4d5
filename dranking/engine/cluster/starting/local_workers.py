"""Nannies and workers of `local_cluster`, the worker processes on this machine.

Nannies stop without a wait at the end of a job. Workers reuse freed memory, and give it back to the
system before they reach their limit.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import Nanny, Worker
from distributed.core import Status
from tornado.ioloop import PeriodicCallback

from dranking.engine.cluster.starting.dask_settings import COMPILING, REUSE_MEMORY, SETTINGS
from dranking.engine.memory import release_memory
from dranking.kernels.machine.first_use import say_when_compiling

HELD_SHARE = 0.6
"""Share of a worker's limit up to which freed memory is kept. Above 0.7, Dask writes to disk."""

HELD_MILLISECONDS = 100
"""Time between two measurements of the memory of the process; Dask itself measures as often."""

FOR_THE_DRIVER = {signal.SIGINT, signal.SIGTERM}
"""Signals that a terminal or a batch system sends to every process of a command."""


def start_tracker() -> None:
    """Start Python's tracker of resources, unless it runs, without its warning of leaks.

    Libraries such as numcodecs make semaphores for processes that they may start. A worker that is
    killed cannot unlink their names; the tracker unlinks them at the end.
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
    try:
        resource_tracker.ensure_running()
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


@contextmanager
def signals_for_the_driver() -> Iterator[None]:
    """Block `FOR_THE_DRIVER` in the threads and processes that this thread starts meanwhile.

    The driver answers these signals, and kills its workers. A worker that answered too would print
    a traceback, since the signal may reach it anywhere, while it imports modules for example. A
    worker whose driver is gone ends by itself.
    """
    start_tracker()  # which would unblock the signals as it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_DRIVER)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class QuickNanny(Nanny):  # type: ignore[misc]  # distributed has no types
    """A nanny that kills its worker process when the cluster closes, whatever the worker does.

    Dask would wait until a starting worker has started before it asks the worker to stop, and would
    wait four seconds for the answer of a worker that is in a task or stopped (SIGSTOP). When the
    cluster closes, the job is over, and nobody needs the results on workers.

    A nanny has the engine's settings of Dask, also if the cluster adds the nanny later.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with dask.config.set({**SETTINGS, **REUSE_MEMORY}):
            super().__init__(*args, **{"worker_class": FrugalWorker, **kwargs})
            # The parts of `config` belong to Dask's configuration, which soon changes back.
            self.config: dict[str, Any] = deepcopy(self.config)

    async def kill(self, timeout: float = 5, reason: str = "nanny-kill") -> None:
        """End the worker process: at once if this nanny is closing, otherwise as Dask does."""
        if self.status == Status.closing and self.process is not None:
            process = self.process.process  # None once it has ended
            if process is not None:
                await process.kill()
        await super().kill(timeout=timeout, reason=reason)


class FrugalWorker(Worker):  # type: ignore[misc]
    """A worker that gives freed memory back to the system when its process comes near its limit.

    Dask measures the memory of the process, and so counts freed memory that the process keeps as
    used.

    A worker that compiles kernels logs this under `COMPILING`, so that the driver says it in one
    line for all workers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if multiprocessing.parent_process() is not None:  # a process that a nanny will kill
            say_when_compiling(partial(self.log_event, COMPILING))
        super().__init__(*args, **kwargs)
        look = PeriodicCallback(self.give_back, HELD_MILLISECONDS)
        self.periodic_callbacks["give-back"] = look

    def give_back(self) -> None:
        """Give freed memory back if the worker has a limit and is near it."""
        limit = self.memory_manager.memory_limit
        if limit and self.monitor.get_process_memory() > HELD_SHARE * limit:
            release_memory()
