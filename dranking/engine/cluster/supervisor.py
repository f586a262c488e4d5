"""Waiting for a Dask cluster: every wait has a deadline, and workers that are stuck are given up.

Dask itself notices workers that die. Dask waits without end for a worker that is stopped, for a
worker that is paused because its memory is full, for a scheduler that hangs, and for workers if
there are none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Any

from dranking.engine.cluster.attendance import Attendance
from dranking.engine.cluster.batch_jobs import BatchJobs
from dranking.engine.cluster.deadlines import Unchanged, setting
from dranking.engine.cluster.versions import check_versions
from dranking.engine.progress import report
from dranking.errors import TryAgainError

_LOG = logging.getLogger(__name__)

LOOKS = 6
"""How often the supervisor asks about the workers within ``dranking.worker-seconds``."""

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

WORKER_POLL_SECONDS = 0.1


class Supervisor:
    """Calls methods of a client and its scheduler, and waits for the answers under deadlines.

    Parameters
    ----------
    client
        A `distributed.Client`.
    mark
        Text that the keys of all tasks of the job contain.

    Attributes
    ----------
    full
        Addresses of workers that were given up because their memory was full.
    """

    def __init__(self, client: Any, mark: str) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._mark = mark
        self._n_given_up = 0
        self._used: dict[str, tuple[float, float]] = {}
        self._attendance = Attendance()
        self._jobs = BatchJobs(client.cluster)
        self._last_look = time.monotonic()
        self.full: set[str] = set()

    def ask(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call an asynchronous method of the client or its scheduler and return its result.

        Raises
        ------
        TryAgainError
            If there is no answer within ``dranking.scheduler-seconds``, or if the scheduler is
            lost.
        """
        limit = setting("scheduler-seconds")
        answer = self._begin(method, *args, **kwargs)
        if not wait([answer], timeout=limit).done:
            answer.cancel()
            raise TryAgainError(
                f"the Dask scheduler at {self._address} has not answered for {limit:g} s "
                "(dranking.scheduler-seconds); run again when it answers."
            )
        try:
            return answer.result()
        except OSError as error:
            raise self.lost() from error

    def lost(self) -> TryAgainError:
        """The error for a scheduler that is not there any more."""
        return TryAgainError(
            f"the Dask scheduler at {self._address} was lost or restarted; run again when it is "
            "back."
        )

    def workers(self) -> dict[str, Any]:
        """The scheduler's information about each worker, by address."""
        found: dict[str, Any] = self.ask(self._client.scheduler.identity, n_workers=-1)["workers"]
        return found

    def wait_for_workers(self, n_workers: int, seconds: float, otherwise: str) -> None:
        """Wait until a number of workers are running.

        `Client.wait_for_workers` would update the list of workers of a cluster in this process.
        Messages about lost workers that are still on their way to the cluster would then be about
        unknown workers, and raise KeyError.

        Parameters
        ----------
        seconds
            The deadline.
        otherwise
            Advice for the error: what else users can do.

        Raises
        ------
        TryAgainError
            If the workers do not come in time, or if the scheduler does not answer.
        """
        deadline = time.monotonic() + seconds
        demand = None
        while (n_running := self._n_running()) < n_workers:
            if not n_running and demand is None:
                # A cluster that adapts to its tasks starts no worker before there is a task.
                demand = self._client.submit(int, pure=False)
            if time.monotonic() >= deadline:
                raise TryAgainError(
                    f"the scheduler at {self._address} has had {n_running} of {n_workers} workers "
                    f"after {seconds:g} s; run again when the workers are there, or {otherwise}."
                )
            time.sleep(WORKER_POLL_SECONDS)

    def _n_running(self) -> int:
        workers = self.workers().values()
        self._jobs.look({str(worker["name"]) for worker in workers})
        return sum(worker["status"] == "running" for worker in workers)

    def wait(
        self,
        method: Callable[..., Any],
        /,
        *args: Any,
        n_left: Callable[[], int],
        **kwargs: Any,
    ) -> Any:
        """Like `ask`, but wait however long the answer takes, as long as there is progress.

        Meanwhile, workers that are stuck are given up. Dask then moves their tasks elsewhere.

        Parameters
        ----------
        n_left
            Returns the number of tasks that are not done.

        Raises
        ------
        TryAgainError
            If the scheduler does not answer, if there are no workers for
            ``dranking.no-workers-seconds``, or if no task finishes for ``dranking.task-seconds``.
        """
        so_far = Unchanged()
        running = self._begin(method, *args, **kwargs)
        try:
            while not wait([running], timeout=self._seconds_to_next_look()).done:
                n_running = self._look_after_workers(so_far)
                self._check_progress(so_far, n_left(), n_running)
            return running.result()
        finally:
            running.cancel()

    def _seconds_to_next_look(self) -> float:
        """Seconds until the workers are asked about again, counted over many short waits."""
        return max(0.0, self._last_look + setting("worker-seconds") / LOOKS - time.monotonic())

    def _begin(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        async def call() -> Any:
            return await method(*args, **kwargs)

        loop = self._client.loop.asyncio_loop
        if not loop.is_running():
            raise self.lost()
        return asyncio.run_coroutine_threadsafe(call(), loop)

    def _look_after_workers(self, so_far: Unchanged) -> int:
        """Give up workers that are stuck, and tell the user about workers that leave and come.

        Returns
        -------
        The number of workers.

        Raises
        ------
        TryAgainError
            If there has been no worker for ``dranking.no-workers-seconds``.
        UsageError
            If a new worker has other versions of packages.
        """
        self._last_look = time.monotonic()
        workers = self.workers()
        self._attendance.look(workers)
        self._jobs.look({str(worker["name"]) for worker in workers.values()})
        check_versions(self.ask, self._client, workers)
        alone = so_far.seconds("workers", bool(workers))
        if not workers and alone > setting("no-workers-seconds"):
            raise TryAgainError(
                f"the Dask cluster of {self._address} has had no worker for {alone:.0f} s "
                "(dranking.no-workers-seconds); run again when it has workers."
            )
        limit = max(setting("worker-seconds"), HEARTBEATS * (1 + len(workers) / 200))
        limit *= min(2**self._n_given_up, MOST_PATIENCE)
        silent, paused = self._silent(so_far, workers, limit), self._paused(so_far, workers, limit)
        self.full |= paused
        for address in silent | paused:
            reason = "its memory is full" if address in paused else "it does not answer"
            _LOG.warning("worker %s is given up after %.0f s: %s", address, limit, reason)
            self._n_given_up += 1
        if silent | paused:
            self.ask(
                self._client.run_on_scheduler,
                give_up_workers(),
                workers=list(silent | paused),
                asynchronous=True,
            )
        return len(workers)

    def _silent(self, so_far: Unchanged, workers: dict[str, Any], limit: float) -> set[str]:
        """The workers that have neither answered nor worked within the limit."""
        late = {
            address
            for address, worker in workers.items()
            if so_far.seconds(address, worker["last_seen"]) > limit
        }
        return late - self._at_work({a: workers[a]["nanny"] for a in late}, limit / 2)

    def _paused(self, so_far: Unchanged, workers: dict[str, Any], limit: float) -> set[str]:
        """The workers with tasks of this job that have been paused for longer than the limit."""
        paused = {
            address
            for address, worker in workers.items()
            if so_far.seconds((address, "status"), worker["status"]) > limit
            and worker["status"] == "paused"
        }
        if not paused:
            return paused
        tasks = self.ask(self._client.scheduler.processing, workers=list(paused))
        return {a for a in paused if any(self._mark in str(key) for key in tasks[a])}

    def _at_work(self, nannies: dict[str, str | None], seconds: float) -> set[str]:
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

    def _check_progress(self, so_far: Unchanged, n_left: int, n_workers: int) -> None:
        """Show what the job waits for if no task has finished since the last look.

        Raises
        ------
        TryAgainError
            If no task has finished for ``dranking.task-seconds``.
        """
        waited, limit = so_far.seconds("tasks", n_left), setting("task-seconds")
        if waited:
            self._report_doing(n_left, n_workers)
        if waited > limit:
            raise TryAgainError(
                f"none of {n_left} tasks on the Dask cluster of {self._address} has finished for "
                f"{waited:.0f} s (dranking.task-seconds). If tasks take so long, raise "
                "dranking.task-seconds; otherwise read the logs of the workers."
            )

    def _report_doing(self, n_left: int, n_workers: int) -> None:
        """Report what Dask is doing: the tasks that are most frequent among those on workers."""
        processing = self.ask(self._client.scheduler.processing) if n_workers else {}
        names = Counter(
            task_name(str(key))
            for keys in processing.values()
            for key in keys
            if self._mark in str(key)
        )
        if not n_workers:
            stage = "waiting for workers"
        elif not names:
            stage = "queued"
        else:
            [(name, _)] = names.most_common(1)
            stage = "reading" if name == "load" else f"running {name}"
        n_running = sum(names.values())
        facts = {"workers": n_workers, "running": n_running, "tasks_left": n_left}
        report(stage, 0, None, **facts)


def task_name(key: str) -> str:
    """The name with which a task was submitted; see `DaskExecutor.submit`."""
    return key.rsplit("-", 2)[0]


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
