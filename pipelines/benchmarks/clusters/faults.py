"""Clusters of this machine that lose workers at a given task of a job, whatever the clock says."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.starting.deploy import local_cluster, patience
from dranking.engine.cluster.supervisor import Supervisor

GATHER = "gather"
"""The name under which `FaultInjector` counts the calls of `gather`."""

Place = tuple[str | None, int]


class FaultInjector(DaskExecutor):
    """An executor that calls a function just before the n-th task of a name is submitted.

    Parameters
    ----------
    client
        A `distributed.Client`.
    faults
        From (name, n), n from 1, to the function to call. The name None counts all tasks, GATHER
        counts the calls of `gather`. Every function is called once.

    Attributes
    ----------
    faults
        Those that have not happened yet.
    submitted
        Tasks submitted so far, by name; all of them under None.
    """

    def __init__(self, client: Any, faults: Mapping[Place, Callable[[], object]]) -> None:
        super().__init__(client)
        self.faults = dict(faults)
        self.submitted: Counter[str | None] = Counter()

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Any:
        """Submit a task, after the faults that are due."""
        for counted in (name, None):
            self._count(counted)
        return super().submit(function, *args, name=name, slot=slot)

    def gather(self, tasks: Sequence[Any]) -> list[Any]:
        """Wait for tasks, after the faults that are due."""
        self._count(GATHER)
        return super().gather(tasks)

    def _count(self, counted: str | None) -> None:
        self.submitted[counted] += 1
        fault = self.faults.pop((counted, self.submitted[counted]), None)
        if fault is not None:
            self.start()  # the tasks submitted before run when the fault happens
            fault()


@contextmanager
def started(n_workers: int = 2, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A cluster of worker processes on this machine, and a client of the cluster."""
    from distributed import Client

    options = {"n_workers": n_workers, "memory_limit": "2GiB", **options}
    with (
        patience(),
        local_cluster(options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


def wait_for_workers(client: Any, n_workers: int) -> None:
    """Wait until so many workers are running."""
    Supervisor(client, "").wait_for_workers(n_workers, 60, "see why")


def signal_worker(
    cluster: Any, client: Any, number: int = 0, signal_number: int = signal.SIGKILL
) -> int:
    """Send a signal to a worker process once all workers are running; return its process id."""
    wait_for_workers(client, len(cluster.workers))
    pids = sorted(nanny.pid for nanny in cluster.workers.values() if nanny.pid)
    pid: int = pids[number % len(pids)]
    with suppress(ProcessLookupError):
        os.kill(pid, signal_number)
    return pid


def random_kills(
    cluster: Any, client: Any, rng: np.random.Generator, tasks: Sequence[int]
) -> tuple[dict[Place, Callable[[], None]], list[int]]:
    """Faults for `FaultInjector`, and the list to which they add the process ids of their victims.

    Parameters
    ----------
    tasks
        Numbers of the tasks, counted from 1, before which one of two workers is killed.
    """
    killed: list[int] = []

    def kill() -> None:
        killed.append(signal_worker(cluster, client, int(rng.integers(2))))

    return {(None, int(task)): kill for task in tasks}, killed
