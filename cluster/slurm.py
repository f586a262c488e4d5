"""Jobs of a SLURM cluster, by dask-jobqueue. Needs the extra `slurm`.

    dranking select DATA ... --scheduler cluster/slurm.py --cluster n_workers=64 \
        --cluster cores=16 --cluster memory=64GB --cluster walltime=02:00:00 \
        --cluster interface=ib0 --cluster timeout=30m

Options: n_workers in all; cores and memory of a job, which runs a one-thread worker on each core
(processes, if fewer); queue, account, walltime, interface, and what else
`dask_jobqueue.SLURMCluster` takes. What is the same in all your jobs belongs into
`~/.config/dask/jobqueue.yaml`. The scheduler runs in this process: start it where compute nodes can
reach it. `timeout` is for the time in the queue.

`security = true` makes temporary certificates, which jobs read from shared_temp_directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.deploy import batch_options, job_queues, start

DASK_JOBQUEUE = job_queues("slurm")


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Start the scheduler here and submit the jobs; `job_script()` shows what is submitted."""
    return start(DASK_JOBQUEUE.SLURMCluster, batch_options(options, "slurm"))
