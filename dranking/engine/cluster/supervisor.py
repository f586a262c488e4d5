"""Waiting for a Dask cluster: every wait has a deadline, and meanwhile the workers are watched.

Dask itself notices workers that die, and drops workers that are silent for its worker-ttl. Dask
waits without end for a worker that is paused because its memory is full, for a scheduler that
hangs, and for workers if there are none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from dranking.engine.cluster.deadlines import Unchanged, setting
from dranking.engine.cluster.versions import check_versions
from dranking.engine.progress import report
from dranking.errors import TryAgainError, listed

_LOG = logging.getLogger(__name__)

LOOKS = 18
"""Number of times within ``dranking.worker-seconds`` that the supervisor asks about the workers."""

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
        Addresses of workers that were restarted because their memory was full.
    """

    def __init__(self, client: Any, mark: str) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._mark = mark
        self._present: dict[str, str] = {}
        self.full: set[str] = set()
        self._next_look = time.monotonic() + seconds_between_looks()

    def ask(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call an asynchronous method of the client or its scheduler and return its result.

        Raises
        ------
        TryAgainError
            If there is no answer within ``dranking.scheduler-seconds``, or if the scheduler is
            lost.
        """
        limit = setting("scheduler-seconds")
        answer = self.begin(method, *args, **kwargs)
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
        return sum(worker["status"] == "running" for worker in self.workers().values())

    def wait(
        self,
        method: Callable[..., Any],
        /,
        *args: Any,
        n_left: Callable[[], int],
        **kwargs: Any,
    ) -> Any:
        """Like `ask`, but wait however long the answer takes, as long as there is progress.

        Meanwhile, workers whose memory stays full are restarted. Dask moves their tasks elsewhere.

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
        running = self.begin(method, *args, **kwargs)
        try:
            if not self._ends_before_next_look(running):
                self._watch(running, n_left)
            return running.result()
        finally:
            running.cancel()

    def _ends_before_next_look(self, running: Future[Any]) -> bool:
        """Wait for an answer until the workers are asked about again; return whether it came.

        The time runs on over many short waits.
        """
        seconds = max(0.0, self._next_look - time.monotonic())
        return bool(wait([running], timeout=seconds).done)

    def _watch(self, running: Future[Any], n_left: Callable[[], int]) -> None:
        """Wait for an answer, and look after the workers meanwhile."""
        so_far = Unchanged()
        while True:
            n_running = self._look_after_workers(so_far)
            self._check_progress(so_far, n_left(), n_running)
            if self._ends_before_next_look(running):
                return

    def begin(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start to call an asynchronous method of the client or its scheduler.

        Raises
        ------
        TryAgainError
            If the scheduler is lost.
        """

        async def call() -> Any:
            return await method(*args, **kwargs)

        loop = self._client.loop.asyncio_loop
        if not loop.is_running():
            raise self.lost()
        return asyncio.run_coroutine_threadsafe(call(), loop)

    def _look_after_workers(self, so_far: Unchanged) -> int:
        """Tell the user about lost workers, and restart workers whose memory stays full.

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
        self._next_look = time.monotonic() + seconds_between_looks()
        workers = self.workers()
        before = self._present
        self._present = {at: f"{each['name']} on {each['host']}" for at, each in workers.items()}
        if lost := [name for address, name in before.items() if address not in workers]:
            _LOG.warning("%s", lost_workers(lost, len(workers)))
        check_versions(self.ask, self._client, workers)
        alone = so_far.seconds("workers", bool(workers))
        if not workers and alone > setting("no-workers-seconds"):
            raise TryAgainError(
                f"the Dask cluster of {self._address} has had no worker for {alone:.0f} s "
                "(dranking.no-workers-seconds); run again when it has workers."
            )
        self._restart_full(so_far, workers)
        return len(workers)

    def _restart_full(self, so_far: Unchanged, workers: Mapping[str, Any]) -> None:
        """End the workers of this job that stay paused: their memory is full.

        Nannies start them again; workers without a nanny leave the cluster.
        """
        limit = setting("worker-seconds")
        paused = [
            address
            for address, worker in workers.items()
            if so_far.seconds((address, "status"), worker["status"]) > limit
            and worker["status"] == "paused"
            and address not in self.full
        ]
        if not paused:
            return
        tasks = self.ask(self._client.scheduler.processing)
        for address in paused:
            if any(self._mark in str(key) for key in tasks.get(address, ())):
                deed = "restarted" if workers[address]["nanny"] else "ended, and has no nanny"
                _LOG.warning("Worker %s is %s: its memory is full.", address, deed)
                self.full.add(address)
                # Client.restart_workers refuses workers without a nanny.
                self.begin(
                    self._client.scheduler.restart_workers,
                    workers=[address],
                    wait_for_workers=False,
                    on_error="return",
                    stimulus_id=f"dranking-full-{time.time()}",
                )

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


def seconds_between_looks() -> float:
    """Seconds from one question about the workers to the next."""
    return setting("worker-seconds") / LOOKS


def lost_workers(lost: Sequence[str], n_left: int) -> str:
    """The line about workers that have left, and about what follows."""
    follows = f"The job goes on with {n_left}, and does the lost work again."
    if not n_left:
        follows = (
            f"The job waits {setting('no-workers-seconds'):g} s for a worker "
            "(dranking.no-workers-seconds) and then ends. If it was given a checkpoint, running "
            "the same command again continues from there."
        )
    return f"Workers lost ({len(lost)}): {listed(lost)}. {follows}"


def task_name(key: str) -> str:
    """The name with which a task was submitted; see `DaskExecutor.submit`."""
    return key.rsplit("-", 2)[0]
