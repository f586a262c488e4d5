"""Jobs of a batch system (SLURM, PBS) that hold the workers of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from dranking.engine.cluster.deadlines import Unchanged, setting

_LOG = logging.getLogger(__name__)


class BatchJobs:
    """Submits a job anew whose workers were there and are gone.

    A job may be cancelled, or meet its time limit. Dask's clusters take such a job off their list
    and submit no other.

    Parameters
    ----------
    cluster
        A cluster of dask-jobqueue, in this process; any other cluster has no jobs.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster: Any = cluster if hasattr(cluster, "job_script") else None
        self._seen: set[str] = set()
        self._states = Unchanged()

    def look(self, workers: Collection[str]) -> None:
        """Submit the jobs anew whose workers have all been gone for ``dranking.worker-seconds``.

        Parameters
        ----------
        workers
            Names of the workers that the scheduler has.
        """
        if self._cluster is None:
            return
        gone = [
            job for job, names in self._names() if self._is_gone(job, names.isdisjoint(workers))
        ]
        if gone:
            self._replace(gone)
            _LOG.warning("Jobs that ended early were submitted anew: %s.", ", ".join(gone))

    def _names(self) -> list[tuple[str, set[str]]]:
        """Each job, and the names of its workers."""
        specs = self._cluster.worker_spec.items()
        return [(job, {f"{job}{suffix}" for suffix in s.get("group", [""])}) for job, s in specs]

    def _is_gone(self, job: str, absent: bool) -> bool:
        """Whether a job had workers, and has had none for too long."""
        seconds = self._states.seconds(job, absent)
        if not absent:
            self._seen.add(job)
        return absent and job in self._seen and seconds > setting("worker-seconds")

    def _replace(self, jobs: Collection[str]) -> None:
        cluster = self._cluster
        for _ in jobs:
            cluster.worker_spec.update(cluster.new_worker_spec())
        cluster.sync(cluster.scale_down, jobs)
