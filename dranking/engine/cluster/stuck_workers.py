"""Workers that are stuck: which workers they are, and how they are given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Any, Protocol

from dranking.engine.cluster.deadlines import Unchanged, setting

_LOG = logging.getLogger(__name__)

MOST_PATIENCE = 8
"""Each worker that is given up doubles the time after which further workers are given up, up to
this factor. On machines that are merely slow, a job would otherwise start again for ever."""

HEARTBEATS = 5
"""No worker is given up before the time of this number of heartbeats. The time between two
heartbeats grows with the number of workers."""

BUSY_SHARE = 0.02
"""Least share of a core that a working process uses. A process that is stopped, or whose threads
wait for Python's lock, uses less."""

SAMPLE_SECONDS = 1.0
"""Least time over which `BUSY_SHARE` is measured: the system counts in hundredths of a second."""


class Calls(Protocol):
    """Calls asynchronous methods of a client or its scheduler; see `Supervisor`."""

    def ask(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a call."""
        ...

    def begin(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call, and return a future of its result."""
        ...


class StuckWorkers:
    """Gives up workers that neither answer nor work, or whose memory stays full.

    Parameters
    ----------
    client, mark
        As in `Supervisor`.

    Attributes
    ----------
    full
        Addresses of workers that were given up because their memory was full.
    """

    def __init__(self, client: Any, mark: str) -> None:
        self._client, self._mark = client, mark
        self._n_given_up = 0
        self._used: dict[str, tuple[float, float]] = {}
        self.full: set[str] = set()

    def give_up(self, calls: Calls, so_far: Unchanged, workers: dict[str, Any]) -> None:
        """Take the workers that are stuck off the scheduler; Dask moves their tasks elsewhere.

        Parameters
        ----------
        calls
            Calls methods of the scheduler.
        so_far
            Notes for how long each worker has been as it is; the same object in each call of a
            wait.
        workers
            The scheduler's information about each worker, by address.
        """
        limit = max(setting("worker-seconds"), HEARTBEATS * (1 + len(workers) / 200))
        limit *= min(2**self._n_given_up, MOST_PATIENCE)
        silent = self._silent(calls, so_far, workers, limit)
        paused = self._paused(calls, so_far, workers, limit)
        self.full |= paused
        for address in silent | paused:
            reason = "its memory is full" if address in paused else "it does not answer"
            _LOG.warning("worker %s is given up after %.0f s: %s", address, limit, reason)
            self._n_given_up += 1
        if silent | paused:
            calls.ask(
                self._client.run_on_scheduler,
                give_up_workers(),
                workers=list(silent | paused),
                asynchronous=True,
            )

    def _silent(
        self, calls: Calls, so_far: Unchanged, workers: dict[str, Any], limit: float
    ) -> set[str]:
        """The workers that have neither answered nor worked within the limit."""
        late = {
            address
            for address, worker in workers.items()
            if so_far.seconds(address, worker["last_seen"]) > limit
        }
        return late - self._at_work(calls, {a: workers[a]["nanny"] for a in late}, limit / 2)

    def _paused(
        self, calls: Calls, so_far: Unchanged, workers: dict[str, Any], limit: float
    ) -> set[str]:
        """The workers with tasks of this job that have been paused for longer than the limit."""
        paused = {
            address
            for address, worker in workers.items()
            if so_far.seconds((address, "status"), worker["status"]) > limit
            and worker["status"] == "paused"
        }
        if not paused:
            return paused
        tasks = calls.ask(self._client.scheduler.processing, workers=list(paused))
        return {a for a in paused if any(self._mark in str(key) for key in tasks[a])}

    def _at_work(self, calls: Calls, nannies: dict[str, str | None], seconds: float) -> set[str]:
        """The workers that do not answer, but work.

        A worker that compiles, or loads libraries from slow storage, is silent for a while. Its
        nanny knows the processor time of the worker. A worker counts as working at the first
        question, and then as long as its processor time grows. A worker whose nanny does not answer
        within `seconds` counts as stuck.

        Parameters
        ----------
        nannies
            Maps the address of a worker to the address of its nanny, or to None without a nanny.
        """
        asked = {
            address: calls.begin(
                self._client.run,
                processor_seconds(),
                workers=[address],
                nanny=True,
                asynchronous=True,
            )
            for address, nanny in nannies.items()
            if nanny
        }
        wait(asked.values(), timeout=seconds)
        before, self._used = self._used, {}
        at_work, now = set(), time.monotonic()
        for address, answer in asked.items():
            if answer.cancel() or answer.exception() is not None:
                continue
            [used] = answer.result().values()
            last, when = before.get(address, (used, now))
            if now - when < SAMPLE_SECONDS:
                self._used[address] = last, when
                at_work.add(address)
            elif used - last > BUSY_SHARE * (now - when):
                self._used[address] = used, now
                at_work.add(address)
        return at_work


def processor_seconds() -> Callable[..., float]:
    """A function that runs on nannies and returns the processor time of the worker, in seconds.

    The function travels as code because it is nested: nannies need not load this package.
    """

    def used(dask_worker: Any) -> float:
        import psutil

        if not dask_worker.pid:
            raise ProcessLookupError("there is no worker process")
        times = psutil.Process(dask_worker.pid).cpu_times()
        return float(times.user + times.system)

    return used


def give_up_workers() -> Callable[..., Awaitable[None]]:
    """A function that runs on the scheduler and gives up workers.

    The function travels as code because it is nested: the scheduler may not have this package.
    """

    async def give_up(workers: list[str], dask_scheduler: Any) -> None:
        """Take workers off the scheduler. Their nannies, if there are any, start new processes."""
        import asyncio
        import contextlib

        from distributed.core import rpc

        async def restart(nanny: str) -> None:
            with contextlib.suppress(Exception):
                async with rpc(nanny, connection_args=dask_scheduler.connection_args) as process:
                    kill = process.kill(reason="no sign of life", timeout=1)  # to stop by itself
                    await asyncio.wait_for(kill, 30)

        for address in workers:
            if address not in dask_scheduler.workers:
                continue
            nanny = dask_scheduler.workers[address].nanny
            await dask_scheduler.remove_worker(
                address, stimulus_id=f"dranking-gives-up-{address}", close=not nanny
            )
            if nanny:
                dask_scheduler._ongoing_background_tasks.call_soon(restart, nanny)

    return give_up
