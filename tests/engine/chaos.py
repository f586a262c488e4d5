"""What clusters do to jobs, done at a given task of them: no test waits for the clock."""

import os
import signal
from collections import Counter
from contextlib import contextmanager, suppress

from distributed import Client

from dranking.engine.cluster import local_cluster
from dranking.engine.dask_executor import DaskExecutor


class Chaos(DaskExecutor):
    """An executor that does something just before the n-th task of a name is submitted.

    `deeds` maps (name, n) to what is done, n from 1; with name None all tasks count. Each is done
    once.
    """

    def __init__(self, client, deeds):
        super().__init__(client)
        self.deeds = dict(deeds)
        self.submitted = Counter()

    def submit(self, function, /, *args, name, slot=None):
        for counted in (name, None):
            self.submitted[counted] += 1
            deed = self.deeds.pop((counted, self.submitted[counted]), None)
            if deed is not None:
                deed()
        return super().submit(function, *args, name=name, slot=slot)


@contextmanager
def started(n_workers=2, **options):
    """A cluster of this machine and a client of it."""
    options = {"n_workers": n_workers, "memory_limit": "2GiB", **options}
    with local_cluster(options) as cluster, Client(cluster, set_as_default=False) as client:
        yield cluster, client


def signal_worker(cluster, client, number=0, how=signal.SIGKILL):
    """Kill or stop one worker of those there are, all being there; returns its process id."""
    client.wait_for_workers(len(cluster.workers), timeout=60)
    pids = sorted(nanny.pid for nanny in cluster.workers.values() if nanny.pid)
    pid = pids[number % len(pids)]
    with suppress(ProcessLookupError):
        os.kill(pid, how)
    return pid


def random_kills(cluster, client, rng, points):
    """Deeds for `Chaos`: at each of the points, tasks counted from 1, some worker is killed."""
    killed = []

    def kill():
        killed.append(signal_worker(cluster, client, int(rng.integers(2))))

    return {(None, int(point)): kill for point in points}, killed
