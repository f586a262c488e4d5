"""Nannies of the worker processes on this machine, which do not let the end of a job wait."""

from __future__ import annotations

from distributed import Nanny
from distributed.core import Status


class QuickNanny(Nanny):  # type: ignore[misc]  # distributed has no types
    """Kills its worker process when the cluster closes, whatever that is doing.

    Dask waits until a worker that is starting has started, and then asks it to stop; of one that is
    in a task or stopped (SIGSTOP) it waits four seconds for the answer. But when the cluster closes
    the job is over, and workers have nothing that is still wanted.
    """

    async def kill(self, timeout: float = 5, reason: str = "nanny-kill") -> None:
        """End the worker process: at once if this nanny is closing, else as Dask does."""
        if self.status == Status.closing and self.process is not None:
            process = self.process.process  # None once it has ended
            if process is not None:
                await process.kill()
        await super().kill(timeout=timeout, reason=reason)
