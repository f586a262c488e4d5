"""Waiting for a Dask cluster: no wait is without a deadline, and what is stuck is given up.

Dask itself finds workers that die. It waits without end for one that is stopped, or that is paused
because its memory is full, for a scheduler that hangs, and for workers where there are none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Any

from dranking.engine.cluster.deadlines import Unchanged, setting
from dranking.errors import TryAgainError

_LOG = logging.getLogger(__name__)

LOOKS = 6
"""How often a watch looks after the workers within the deadline of one."""

MOST_PATIENCE = 8
"""After each worker that is given up the next ones have twice the time, up to so many times: on
machines that are merely slow a job would else begin anew for ever."""

HEARTBEATS = 5
"""A worker is given as many of its heartbeats at least: of very many workers each has few."""

BUSY_SHARE = 0.02
"""Share of a core by which a process that is at work is told from one that is stopped, or waits for
ever; threads that wait for Python's lock take less."""

SAMPLE_SECONDS = 1.0
"""Over so long at least: the system counts in hundredths of a second."""

WORKER_POLL_SECONDS = 0.1


class Supervisor:
    """Waits for what a client of a cluster is asked to do.

    Parameters
    ----------
    client
        A `distributed.Client`.
    mark
        What the keys of the tasks contain that are waited for.

    Attributes
    ----------
    full
        Addresses of workers that were given up because their memory stayed full.
    """

    def __init__(self, client: Any, mark: str) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._mark = mark
        self._n_given_up = 0
        self._used: dict[str, tuple[float, float]] = {}
        self.full: set[str] = set()

    def ask(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What an asynchronous method of the client or its scheduler returns.

        Raises
        ------
        TryAgainError
            If there is no answer in time.
        """
        limit = setting("scheduler-seconds")
        answer = self._begin(method, *args, **kwargs)
        if not wait([answer], timeout=limit).done:
            answer.cancel()
            raise TryAgainError(
                f"the Dask scheduler at {self._address} has not answered for {limit:g} s "
                "(dranking.scheduler-seconds); run again when it does."
            )
        try:
            return answer.result()
        except OSError as error:
            raise self.lost() from error

    def lost(self) -> TryAgainError:
        """The error where the scheduler is not there any more."""
        return TryAgainError(
            f"the Dask scheduler at {self._address} was lost or restarted; run again when it is "
            "back."
        )

    def workers(self) -> dict[str, Any]:
        """What the scheduler says of each worker, by address."""
        found: dict[str, Any] = self.ask(self._client.scheduler.identity, n_workers=-1)["workers"]
        return found

    def wait_for_workers(self, n_workers: int, seconds: float, otherwise: str) -> None:
        """Wait until so many workers are running.

        The client could, but would make the books of a cluster of this process newer than the news
        of lost workers that are on their way to it: these raise KeyError when they come.

        Parameters
        ----------
        seconds
            At most.
        otherwise
            What users can do if they do not come, for the error.

        Raises
        ------
        TryAgainError
            If they do not come in time, or the scheduler does not answer.
        """
        deadline = time.monotonic() + seconds
        while (n_running := self._n_running()) < n_workers:
            if time.monotonic() >= deadline:
                raise TryAgainError(
                    f"the scheduler at {self._address} has had {n_running} of {n_workers} workers "
                    f"after {seconds:g} s; run again when they are there, or {otherwise}."
                )
            time.sleep(WORKER_POLL_SECONDS)

    def _n_running(self) -> int:
        return sum(worker["status"] == "running" for worker in self.workers().values())

    def wait(
        self,
        method: Callable[..., Any],
        /,
        *args: Any,
        n_left: Callable[[], int],
        **kwargs: Any,
    ) -> Any:
        """The same, however long it takes, as long as there is progress.

        Workers that are stuck meanwhile are given up; Dask then moves what they had elsewhere.

        Parameters
        ----------
        n_left
            How many tasks are not done.

        Raises
        ------
        TryAgainError
            If the scheduler does not answer, there are no workers, or no task finishes.
        """
        so_far = Unchanged()
        running = self._begin(method, *args, **kwargs)
        try:
            while not wait([running], timeout=setting("worker-seconds") / LOOKS).done:
                self._look_after_workers(so_far)
                self._check_progress(so_far, n_left())
            return running.result()
        finally:
            running.cancel()

    def _begin(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        async def call() -> Any:
            return await method(*args, **kwargs)

        loop = self._client.loop.asyncio_loop
        if not loop.is_running():
            raise self.lost()
        return asyncio.run_coroutine_threadsafe(call(), loop)

    def _look_after_workers(self, so_far: Unchanged) -> None:
        workers = self.workers()
        alone = so_far.seconds("workers", bool(workers))
        if not workers and alone > setting("no-workers-seconds"):
            raise TryAgainError(
                f"the Dask cluster of {self._address} has had no worker for {alone:.0f} s "
                "(dranking.no-workers-seconds); run again when it has."
            )
        limit = max(setting("worker-seconds"), HEARTBEATS * (1 + len(workers) / 200))
        limit *= min(2**self._n_given_up, MOST_PATIENCE)
        late = {
            address
            for address, worker in workers.items()
            if so_far.seconds(address, worker["last_seen"]) > limit
        }
        stuck = late - self._at_work({a: workers[a]["nanny"] for a in late}, limit / 2)
        paused = {
            address
            for address, worker in workers.items()
            if so_far.seconds((address, "status"), worker["status"]) > limit
            and worker["status"] == "paused"
        }
        if paused:
            tasks = self.ask(self._client.scheduler.processing, workers=list(paused))
            paused = {a for a in paused if any(self._mark in str(key) for key in tasks[a])}
            self.full |= paused
        for address in stuck | paused:
            what = "its memory is full" if address in paused else "it does not answer"
            _LOG.warning("worker %s is given up after %.0f s: %s", address, limit, what)
            self._n_given_up += 1
        if stuck | paused:
            self.ask(
                self._client.run_on_scheduler,
                given_up(),
                workers=list(stuck | paused),
                asynchronous=True,
            )

    def _at_work(self, nannies: dict[str, str | None], seconds: float) -> set[str]:
        """Those of some workers, given with their nannies, that do not answer but do something.

        A worker that loads libraries from slow storage, or compiles, is silent for a while. Their
        nannies know the time of the processor that they take. A worker is spared when first asked
        after, and as long as that grows; not if its nanny says nothing for some seconds.
        """
        asked = {
            address: self._begin(
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

    def _check_progress(self, so_far: Unchanged, n_left: int) -> None:
        waited, limit = so_far.seconds("tasks", n_left), setting("task-seconds")
        if waited > limit:
            raise TryAgainError(
                f"none of {n_left} tasks on the Dask cluster of {self._address} has finished for "
                f"{waited:.0f} s (dranking.task-seconds). If they take so long, raise it; else see "
                "the logs of the workers."
            )


def processor_seconds() -> Callable[..., float]:
    """A function for nannies to run: the time of the processor that their workers have taken.

    Made inside another it travels as code, and nannies need not load this package.
    """

    def used(dask_worker: Any) -> float:
        import psutil

        if not dask_worker.pid:
            raise ProcessLookupError("there is no worker process")
        times = psutil.Process(dask_worker.pid).cpu_times()
        return float(times.user + times.system)

    return used


def given_up() -> Callable[..., Awaitable[None]]:
    """A function for the scheduler to run, which gives up workers.

    Made inside another it travels as code: the scheduler's machine may not have this package.
    """

    async def give_up(workers: list[str], dask_scheduler: Any) -> None:
        """Take workers off the scheduler; their nannies, where they have any, start new ones."""
        import asyncio
        import contextlib

        from distributed.core import rpc

        async def restart(nanny: str) -> None:
            with contextlib.suppress(Exception):
                async with rpc(nanny, connection_args=dask_scheduler.connection_args) as process:
                    kill = process.kill(reason="no sign of life", timeout=1)  # asked before
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
