"""Faults of workers and schedulers, to be injected by `FaultInjector`."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from unittest import mock

import numpy as np
from distributed import Client

from dranking.engine.executor import ThreadExecutor
from pipelines.benchmarks.clusters.faults import GATHER, wait_for_workers


class CountingThreads(ThreadExecutor):
    """Two threads; counts tasks by name, and the calls of `gather`."""

    def __init__(self):
        super().__init__(2)
        self.submitted = Counter()

    def submit(self, function, /, *args, name, slot=None):
        self.submitted[name] += 1
        return super().submit(function, *args, name=name, slot=slot)

    def gather(self, tasks):
        self.submitted[GATHER] += 1
        return super().gather(tasks)


@contextmanager
def scheduler_process(folder):
    """A scheduler in its own process, a worker and a client; yields (process, client)."""
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


def busiest(cluster):
    """The `WorkerState` of the worker that holds most data."""
    workers = cluster.scheduler.workers.values()
    return max(workers, key=lambda worker: (len(worker.has_what), worker.address))


def pids(cluster):
    """Process ids of the workers that the scheduler knows."""
    return {worker.pid for worker in cluster.scheduler.workers.values()}


def kill(cluster, client):
    """Kill the busiest worker; its nanny starts another process at another port."""
    os.kill(busiest(cluster).pid, signal.SIGKILL)


def stop(cluster, client):
    """Stop the busiest worker: it is not dead, and sends no heartbeat."""
    os.kill(busiest(cluster).pid, signal.SIGSTOP)


@contextmanager
def silent_workers_dropped_after(cluster, seconds):
    """Have the scheduler look each half second for workers without heartbeats for `seconds`."""
    scheduler = cluster.scheduler
    before, look = scheduler.worker_ttl, scheduler.periodic_callbacks["worker-ttl"]
    interval = look.callback_time

    async def set_to(worker_ttl, milliseconds):
        look.stop()
        scheduler.worker_ttl, look.callback_time = worker_ttl, milliseconds
        look.start()

    # Dask waits for ten heartbeats at least, half a second each.
    with mock.patch("distributed.scheduler.heartbeat_interval", return_value=0.1):
        cluster.sync(set_to, seconds, 500)
        yield
        cluster.sync(set_to, before, interval)


def restart(cluster, client):
    """Have its nanny end the busiest worker in good order and start another process."""
    nannies = {nanny.worker_address: nanny for nanny in cluster.workers.values()}
    cluster.sync(nannies[busiest(cluster).address].restart)


def exhaust(cluster, client):
    """Have the busiest worker take memory until its nanny ends it."""
    client.run(hoard_for_ever, workers=[busiest(cluster).address], wait=False)


async def hoard_for_ever():
    hoard = []
    while True:
        hoard.append(np.ones(2**24))  # 128 MiB
