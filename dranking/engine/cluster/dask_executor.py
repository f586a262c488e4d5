"""The executor over the workers of a Dask cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from dranking.engine.cluster.deadlines import setting
from dranking.engine.cluster.supervisor import Supervisor, task_name
from dranking.engine.cluster.versions import check_versions
from dranking.engine.executor import Room, TaskDependencies, n_bytes_of
from dranking.engine.memory import MEMORY_SHARE, available_memory
from dranking.errors import TryAgainError, UsageError
from dranking.files.sizes import format_bytes

CLOSED = ("closing", "closed")
"""States of a client that is closed for good."""

OUT_OF_MEMORY = "worker-restart-memory"
"""Topic under which Dask's scheduler logs workers that were killed for their use of memory."""

SILENT = "worker-ttl-timed-out"
"""The action that Dask's scheduler logs when it drops workers that sent no heartbeat."""

LOST_INPUTS = "lost dependencies"
"""The reason for which Dask cancels a task whose inputs the cluster does not have any more."""

LARGE = 2**24
"""If the arguments of the queued tasks have more bytes, the queue is sent at once."""


class Call(NamedTuple):
    """A task in the queue, which the scheduler does not know yet."""

    task: Any
    function: Callable[..., Any]
    args: tuple[Any, ...]
    slot: int | None


class DaskExecutor:
    """The workers of a Dask cluster, through a `distributed.Client`.

    Raises
    ------
    TryAgainError
        If the cluster does not answer, or has no workers.
    UsageError
        If a worker has another version of Python, dranking, Dask, NumPy or Numba.
    """

    in_process = False
    memory_limit: int | None = None

    def __init__(self, client: Any) -> None:
        self._client = client
        self._dependencies = TaskDependencies()
        self._queue: list[Call] = []
        self._n_queued_bytes = 0
        self._gathered: Sequence[Any] = ()
        self._numbers = itertools.count()
        # Keys are unique among all clients of a scheduler, and begin with the name of the task.
        self._run = f"{client.id[-8:]}{id(self):x}"
        self._supervisor = Supervisor(client, f"-{self._run}-")
        self._deaths: dict[str, int] = {}
        threads = sorted(self._supervisor.ask(client.scheduler.ncores).items())
        if not threads:
            raise TryAgainError(f"the Dask cluster of {client} has no workers.")
        check_versions(self._supervisor.ask, client, [address for address, _ in threads])
        self._slots = [address for address, n in threads for _ in range(n)]
        self.n_slots = len(self._slots)

    def __str__(self) -> str:
        services = self.ask(self._client.scheduler.identity)["services"]
        dashboard = f", dashboard {self._client.dashboard_link}" if "dashboard" in services else ""
        address = self._client.scheduler.address
        return f"Dask cluster at {address}, worker threads: {self.n_slots}{dashboard}"

    @property
    def client(self) -> Any:
        """The `distributed.Client`."""
        return self._client

    def ask(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call an asynchronous method of the client or its scheduler, as `Supervisor.ask` does."""
        return self._supervisor.ask(method, *args, **kwargs)

    @property
    def memory_bytes(self) -> int:
        """`memory_limit`, or most of the memory of the workers."""
        if self.memory_limit is not None:
            return self.memory_limit
        return int(MEMORY_SHARE * self.workers_memory())

    def workers_memory(self) -> int:
        """Sum of the workers' memory limits, in bytes.

        A machine whose workers have no limit contributes the memory that is available on it now.
        """
        workers, available = self._answers(available_memory, _one_per_unlimited_host)
        limits = sum(worker["memory_limit"] or 0 for worker in workers.values())
        return int(limits + sum(available.values()))

    def rooms(self, held: Callable[[], int]) -> list[Room]:
        """The memory of each worker that has a limit.

        Results on a worker are not counted as held: Dask writes them to disk when the memory is
        needed.
        """
        workers, found = self._answers(partial(_held_by_itself, held), _limited)
        # Workers that came later take the places of those that left.
        left = iter([slot for slot, owner in enumerate(self._slots) if owner not in workers])
        rooms = []
        for address, n_bytes in found.items():
            worker = workers[address]
            slots = tuple(slot for slot, owner in enumerate(self._slots) if owner == address)
            slots = slots or tuple(itertools.islice(left, worker["nthreads"]))
            rooms.append(Room(slots, int(worker["memory_limit"]), n_bytes))
        rooms = [room for room in rooms if room.slots]
        if len(found) < len(workers):
            return rooms
        # Tasks of workers that left, and that no worker replaces, run on those that are there.
        rest, n = tuple(left), len(rooms)
        return [room._replace(slots=room.slots + rest[i::n]) for i, room in enumerate(rooms)]

    def _answers(
        self, function: Callable[..., int], chosen: Callable[[Mapping[str, Any]], list[str]]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """The scheduler's information about all workers, and the answers of some, by address."""
        while True:
            if not (workers := self._supervisor.workers()):  # all workers are starting again
                name = "no-workers-seconds"
                self._supervisor.wait_for_workers(1, setting(name), f"raise dranking.{name}")
                continue
            if not (asked := chosen(workers)):
                return workers, {}
            try:
                answers: dict[str, int] = self._supervisor.wait(
                    self._client.run,
                    function,
                    workers=asked,
                    asynchronous=True,
                    n_left=partial(len, asked),
                )
                return workers, answers
            except OSError:  # a worker was lost before it answered
                if self._client.status != "running":
                    raise self._supervisor.lost() from None

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Any:
        """Queue a task under a key that begins with `name`. The task starts before the next wait.

        Tasks start together because a message takes the scheduler longer than a task. A task with a
        slot runs on the worker of the slot if that worker is still there. The slot is a preference:
        a task that is restricted to a lost worker would wait forever.

        Raises
        ------
        TryAgainError
            If the scheduler is lost.
        """
        from distributed import Future

        if self._client.status != "running":
            raise self._supervisor.lost()
        task = Future(f"{name}-{self._run}-{next(self._numbers)}", self._client)
        self._queue.append(Call(task, function, args, slot))
        self._dependencies.add(task, [arg for arg in args if isinstance(arg, Future)])
        self._n_queued_bytes += n_bytes_of(args)
        if self._n_queued_bytes > LARGE:
            self.start()
        return task

    def start(self) -> None:
        """Start the tasks in the queue."""
        queue, self._queue, self._n_queued_bytes = self._queue, [], 0
        for slot, calls in itertools.groupby(queue, key=attrgetter("slot")):
            self._send(list(calls), slot)
        self._gathered = ()

    def _send(self, calls: Sequence[Call], slot: int | None) -> None:
        """Send tasks to the scheduler in one message."""
        import dask
        from dask._task_spec import Task, TaskRef
        from distributed import Future

        graph = {}
        for task, function, args, _ in calls:
            inputs = (TaskRef(arg.key) if isinstance(arg, Future) else arg for arg in args)
            graph[task.key] = Task(task.key, function, *inputs)
        # Blocks in the memory of this process are arguments of their task on purpose: unlike
        # scattered data, they can be sent again when a worker is lost.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            self._client.get(
                graph,
                list(graph),
                sync=False,
                workers=None if slot is None else [self._slots[slot]],
                allow_other_workers=slot is not None,
            )

    def gather(self, tasks: Sequence[Any]) -> list[Any]:
        """Wait for tasks and return their results in order; after an error no task starts any more.

        Workers may be lost meanwhile, and others may join. Results of a lost worker are computed
        again. The scheduler drops a worker that is silent, see `dask_settings`.

        Raises
        ------
        TryAgainError
            If the scheduler or an input is lost, if there are no workers, if no task finishes in
            time, or if too many workers die of a task.
        """
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        tasks = list(tasks)
        while True:
            try:
                self.start()
                results: list[Any] = self._supervisor.wait(
                    self._client.gather,
                    tasks,
                    asynchronous=True,
                    n_left=lambda: len(self._dependencies.unfinished(tasks)),
                )
                # The futures live until the next tasks are sent. A client waits between messages,
                # so releasing futures now would delay these tasks by one message.
                self._gathered = tasks
                return results
            except KilledWorker as error:
                self._retry(tasks, error)
            except (CancelledError, CommClosedError) as error:
                if getattr(error, "reason", None) == LOST_INPUTS:
                    raise TryAgainError(
                        "the Dask cluster does not have the results any more that this job builds "
                        "on; a restart of the cluster drops them. Run again; where a DataFrame or "
                        "array was persisted, persist it anew first."
                    ) from error
                raise self._supervisor.lost() from error
            except BaseException as error:
                self.cancel(tasks)
                if self._client.status != "running":
                    raise self._supervisor.lost() from error
                raise

    def _retry(self, tasks: Sequence[Any], error: Any) -> None:
        """Run again a task that Dask has given up because several workers died on it.

        Raises
        ------
        TryAgainError
            If the last of these workers ran out of memory or sent no heartbeat, or if more than
            ``dranking.lost-workers`` workers have died on the task.
        """
        key, worker = str(error.task), error.last_worker.address
        self._deaths[key] = 1 + self._deaths.get(key, error.allowed_failures)
        died = f"{self._deaths[key]} workers died while running {task_name(key)!r}"
        try:
            if self._ran_out_of_memory(worker):
                raise TryAgainError(
                    f"{died}, the last for lack of memory: its limit is "
                    f"{format_bytes(error.last_worker.memory_limit)}. Give the workers more "
                    "memory, or the job a smaller memory limit, and run again."
                )
            if seconds := self._seconds_of_silence(worker):
                raise TryAgainError(
                    f"{died}, the last because it sent no heartbeat for {seconds:g} s. A task "
                    "that holds Python's lock for longer, in one call of native code, needs a "
                    "larger dranking.worker-seconds; on a cluster that runs already, a larger "
                    "distributed.scheduler.worker-ttl of its scheduler."
                )
            if self._deaths[key] > setting("lost-workers"):
                raise TryAgainError(
                    f"{died} (dranking.lost-workers); the logs of the workers say why. The most "
                    "frequent reason is memory: give the workers more memory, or the job a smaller "
                    "memory limit."
                )
            failed = [task for task in tasks if task.status == "error"]
            self._supervisor.ask(self._client.retry, failed, asynchronous=True)
        except TryAgainError:
            self.cancel(tasks)
            raise

    def _ran_out_of_memory(self, worker: str) -> bool:
        """Whether a worker was stopped because its memory was full."""
        events = self._supervisor.ask(self._client.scheduler.events, topic=OUT_OF_MEMORY)
        return worker in self._supervisor.full or worker in {event["worker"] for _, event in events}

    def _seconds_of_silence(self, worker: str) -> float:
        """Time without a heartbeat after which the scheduler dropped a worker; 0 if it did not."""
        events = self._supervisor.ask(self._client.scheduler.events, topic="scheduler")
        of_worker = (
            event["ttl"]
            for _, event in events
            if event.get("action") == SILENT and worker in event["workers"]
        )
        return next(of_worker, 0.0)

    def cancel(self, tasks: Sequence[Any]) -> None:
        """Cancel tasks and the tasks that they wait for; results of running tasks are dropped."""
        given_up = set(self._dependencies.unfinished(tasks))
        self._queue = [call for call in self._queue if call.task not in given_up]
        if given_up and self._client.status not in CLOSED:
            self._client.cancel(list(given_up))


def _limited(workers: Mapping[str, Any]) -> list[str]:
    """Addresses of the workers that have a memory limit."""
    return [address for address, worker in workers.items() if worker["memory_limit"]]


def _one_per_unlimited_host(workers: Mapping[str, Any]) -> list[str]:
    """The address of one worker on each machine whose workers have no memory limit."""
    hosts = {w["host"]: address for address, w in workers.items() if not w["memory_limit"]}
    return [*hosts.values()]


_least_held: dict[str, int] = {}
"""The least that each worker of this process was found to hold by itself, by address."""


def _held_by_itself(held: Callable[[], int], dask_worker: Any = None) -> int:
    """The least that a worker has held so far beside results: a function that Dask calls there.

    The process of a worker that has done tasks keeps freed memory between what is in use: it grew
    by 65 MB within an ingest of 10 million rows. The next tasks use this memory again.
    """
    spilled, _ = getattr(dask_worker.data, "spilled_total", (0, 0))
    of_results = max(dask_worker.state.nbytes - spilled, 0)
    try:
        n_bytes = held()
    except OSError as error:  # to the driver, an OSError is that of a connection to a lost worker
        raise UsageError(f"the worker {dask_worker.address} cannot be used ({error}).") from error
    own = max(n_bytes - of_results, 0)
    least: int = min(own, _least_held.get(dask_worker.address, own))
    _least_held[dask_worker.address] = least
    return least
