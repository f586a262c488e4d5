"""What clusters do to jobs, done at a given task of them: no test waits for the clock."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress

import numpy as np
from distributed import Client

from dranking.engine.cluster.connect import local_cluster
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.deploy import patience
from dranking.engine.cluster.supervisor import Supervisor
from dranking.engine.executor import ThreadExecutor

GATHER = "gather"
"""What waits for results are counted as."""


class Peace(ThreadExecutor):
    """Two threads that count tasks by their names, and waits."""

    def __init__(self):
        super().__init__(2)
        self.submitted = Counter()

    def submit(self, function, /, *args, name, slot=None):
        self.submitted[name] += 1
        return super().submit(function, *args, name=name, slot=slot)

    def gather(self, tasks):
        self.submitted[GATHER] += 1
        return super().gather(tasks)


class Chaos(DaskExecutor):
    """An executor that does something just before the n-th task of a name is submitted.

    `deeds` maps (name, n) to what is done, n from 1; with name None all tasks count, with GATHER
    all waits for results. Each is done once.
    """

    def __init__(self, client, deeds):
        super().__init__(client)
        self.deeds = dict(deeds)
        self.submitted = Counter()

    def submit(self, function, /, *args, name, slot=None):
        for counted in (name, None):
            self._do(counted)
        return super().submit(function, *args, name=name, slot=slot)

    def gather(self, tasks):
        self._do(GATHER)
        return super().gather(tasks)

    def _do(self, counted):
        self.submitted[counted] += 1
        deed = self.deeds.pop((counted, self.submitted[counted]), None)
        if deed is not None:
            self.start()  # what was submitted before runs by then
            deed()


@contextmanager
def started(n_workers=2, **options):
    """A cluster of this machine and a client of it."""
    options = {"n_workers": n_workers, "memory_limit": "2GiB", **options}
    with (
        patience(),
        local_cluster(options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


@contextmanager
def scheduler_process(folder):
    """A scheduler in a process of its own, a worker, and a client."""
    file = folder / "scheduler.json"
    options = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    dashboard = "--no-dashboard"
    module = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    where = ["--host", "127.0.0.1", "--port", "0", dashboard]
    scheduler = subprocess.Popen([*module, *where, "--scheduler-file", str(file)], **options)
    module = [sys.executable, "-m", "distributed.cli.dask_worker", "--death-timeout", "60"]
    where = ["--nthreads", "1", "--no-nanny", dashboard]
    worker = subprocess.Popen(
        [*module, *where, "--scheduler-file", str(file), "--local-directory", str(folder)],
        **options,
    )
    try:
        while not file.exists() and scheduler.poll() is None:
            time.sleep(0.02)
        with Client(scheduler_file=str(file), set_as_default=False, timeout=20) as client:
            wait_for_workers(client, 1)
            yield scheduler, client
            scheduler.kill()
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


def wait_for_workers(client, n_workers):
    """Until so many are running."""
    Supervisor(client, "").wait_for_workers(n_workers, 60, "see why")


def signal_worker(cluster, client, number=0, how=signal.SIGKILL):
    """Kill or stop one worker of those there are, all being there; returns its process id."""
    wait_for_workers(client, len(cluster.workers))
    pids = sorted(nanny.pid for nanny in cluster.workers.values() if nanny.pid)
    pid = pids[number % len(pids)]
    with suppress(ProcessLookupError):
        os.kill(pid, how)
    return pid


def random_kills(cluster, client, rng, points, signals=(signal.SIGKILL,)):
    """Deeds for `Chaos`: at each of the points, tasks counted from 1, some worker is killed."""
    killed = []

    def kill():
        how = signals[int(rng.integers(len(signals)))]
        killed.append(signal_worker(cluster, client, int(rng.integers(2)), how))

    return {(None, int(point)): kill for point in points}, killed


def busiest(cluster):
    """The worker of a cluster in this process that has most of the data; a `WorkerState`."""
    workers = cluster.scheduler.workers.values()
    return max(workers, key=lambda worker: (len(worker.has_what), worker.address))


def pids(cluster):
    """Process ids of the workers that the scheduler knows."""
    return {worker.pid for worker in cluster.scheduler.workers.values()}


def kill(cluster, client):
    """SIGKILL, without warning; its nanny starts another at another port."""
    os.kill(busiest(cluster).pid, signal.SIGKILL)


def stop(cluster, client):
    """SIGSTOP: neither dead nor answering."""
    os.kill(busiest(cluster).pid, signal.SIGSTOP)


def restart(cluster, client):
    """Its nanny ends it in good order, and starts another at another port."""
    nannies = {nanny.worker_address: nanny for nanny in cluster.workers.values()}
    cluster.sync(nannies[busiest(cluster).address].restart)


def exhaust(cluster, client):
    """It takes more memory than it may, until its nanny ends it."""
    client.run(hoard_for_ever, workers=[busiest(cluster).address], wait=False)


async def hoard_for_ever():
    hoard = []
    while True:
        hoard.append(np.ones(2**24))  # 128 MiB
