"""Jobs of a batch system (SLURM, PBS) that hold the workers of a cluster."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Collection
from typing import Any

from dranking.engine.cluster.deadlines import Unchanged, setting

_LOG = logging.getLogger(__name__)

STATUS = {
    "scancel": ("squeue", "--noheader", "--jobs"),
    "qdel": ("qstat",),
}
"""Maps the command that cancels a job to the command that shows a waiting or running job."""

UNKNOWN = ("Invalid job id", "Unknown Job", "has finished")
"""Words by which these commands say that a job has ended."""

STATUS_SECONDS = 10.0


class BatchJobs:
    """Submits a job anew that ended early, because it was cancelled or reached its time limit.

    A job whose workers had come has ended when its workers are gone. A job without workers so far
    may wait in a queue; the batch system says whether it does. Dask's clusters submit no job in
    place of an ended one: they take the ended job off their list, or wait for it for ever.

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
        """Submit anew every job that ended ``dranking.worker-seconds`` ago or earlier.

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
        """Whether a job has had no workers for too long, and has ended."""
        seconds = self._states.seconds(job, absent)
        if not absent:
            self._seen.add(job)
        if not absent or seconds <= setting("worker-seconds"):
            return False
        return job in self._seen or self._is_unknown(job)

    def _is_unknown(self, job: str) -> bool:
        """Whether the batch system no longer knows a job; asked once per worker-seconds."""
        number = getattr(self._cluster.workers.get(job), "job_id", None)
        command = STATUS.get(str(getattr(self._cluster.job_cls, "cancel_command", "")))
        if number is None or command is None:
            return False
        self._states.seconds(job, None)  # the next question comes after another worker-seconds
        return is_unknown([*command, str(number)])

    def _replace(self, jobs: Collection[str]) -> None:
        cluster = self._cluster
        for _ in jobs:
            cluster.worker_spec.update(cluster.new_worker_spec())
        cluster.sync(cluster.scale_down, jobs)


def is_unknown(command: list[str]) -> bool:
    """Whether a batch system answers that it has no such job; silence is no such answer."""
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=STATUS_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    if answer.returncode == 0:
        return not answer.stdout.strip()
    return any(text in answer.stderr for text in UNKNOWN)
