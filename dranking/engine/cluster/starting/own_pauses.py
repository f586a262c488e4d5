"""Schedulers in this process: their own pauses do not count as silence of their workers.

The scheduler of a cluster that a command starts runs in a thread of the command. It reads no
heartbeats while one call of native code holds Python's lock, or while the command is suspended.
Afterwards all workers would seem to have been silent.
"""

from __future__ import annotations

import time
from typing import Any

TICKS = 20
"""Number of ticks in the time after which Dask drops a silent worker."""


class OwnPauses:
    """The pauses of a scheduler in this process that drops silent workers."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.tick_seconds = scheduler.worker_ttl / TICKS
        self._last = time.time()  # as Dask notes when a worker was last seen

    def tick(self) -> None:
        """Leave a pause since the last tick out of the time since each worker was seen."""
        last, self._last = self._last, time.time()
        paused = self._last - last - self.tick_seconds
        if paused > self.tick_seconds:  # less is the delay of a loaded machine
            for worker in self._scheduler.workers.values():
                worker.last_seen = min(worker.last_seen + paused, self._last)

    async def check_workers(self) -> None:
        """Dask's look for silent workers. After a pause, it may be due before the next tick."""
        self.tick()
        await self._scheduler.check_worker_ttl()


def leave_out_own_pauses(cluster: Any) -> None:
    """Leave the scheduler's pauses out of the silence of its workers, if it is in this process."""
    from distributed import Scheduler
    from tornado.ioloop import PeriodicCallback

    scheduler = getattr(cluster, "scheduler", None)
    if not isinstance(scheduler, Scheduler) or "worker-ttl" not in scheduler.periodic_callbacks:
        return
    pauses = OwnPauses(scheduler)
    scheduler.periodic_callbacks["worker-ttl"].callback = pauses.check_workers
    ticks = PeriodicCallback(pauses.tick, 1000 * pauses.tick_seconds)
    scheduler.periodic_callbacks["own-pauses"] = ticks  # Dask stops it with the others
    scheduler.loop.add_callback(ticks.start)
