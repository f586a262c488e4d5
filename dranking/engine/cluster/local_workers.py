"""Nannies and workers of the processes on this machine.

Nannies do not let the end of a job wait; workers use freed memory again, and give it back in time.
"""

from __future__ import annotations

from typing import Any

from distributed import Nanny, Worker
from distributed.core import Status
from tornado.ioloop import PeriodicCallback

from dranking.engine.memory import release_memory

HELD_SHARE = 0.6
"""Of a worker's limit: with less than that, freed memory is kept. Above 0.7 Dask writes to disk."""

HELD_MILLISECONDS = 100
"""Between looks, as Dask's own."""


class QuickNanny(Nanny):  # type: ignore[misc]  # distributed has no types
    """Kills its worker process when the cluster closes, whatever that is doing.

    Dask waits until a worker that is starting has started, and then asks it to stop; of one that is
    in a task or stopped (SIGSTOP) it waits four seconds for the answer. But when the cluster closes
    the job is over, and workers have nothing that is still wanted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"worker_class": FrugalWorker, **kwargs})

    async def kill(self, timeout: float = 5, reason: str = "nanny-kill") -> None:
        """End the worker process: at once if this nanny is closing, else as Dask does."""
        if self.status == Status.closing and self.process is not None:
            process = self.process.process  # None once it has ended
            if process is not None:
                await process.kill()
        await super().kill(timeout=timeout, reason=reason)


class FrugalWorker(Worker):  # type: ignore[misc]
    """Gives freed memory back to the system when the process comes near its limit.

    Dask judges by the memory of the process: what is freed and kept would count as in use.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        look = PeriodicCallback(self.give_back, HELD_MILLISECONDS)
        self.periodic_callbacks["give-back"] = look

    def give_back(self) -> None:
        """Give freed memory back if there is a limit, and it is near."""
        limit = self.memory_manager.memory_limit
        if limit and self.monitor.get_process_memory() > HELD_SHARE * limit:
            release_memory()
