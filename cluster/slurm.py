"""Workers in jobs of a SLURM cluster, by dask-jobqueue. Needs the extra `slurm`.

    dranking select DATA ... --scheduler cluster/slurm.py --cluster n_workers=64 \
        --cluster cores=16 --cluster memory=64GB --cluster walltime=02:00:00 \
        --cluster interface=ib0 --cluster timeout=30m

Options: n_workers over all jobs; cores and memory of a job; processes, the number of workers in a
job (default: cores, so that each worker has one thread); queue, account, walltime,
interface, and other arguments of `dask_jobqueue.SLURMCluster`. Options that all your jobs have in
common belong in `~/.config/dask/jobqueue.yaml`. The scheduler runs in the process of the command:
run the command where compute nodes can reach it. `timeout` must cover the time that jobs wait in
the queue. The jobs write their output into the folder `dranking-jobs`, or log_directory. A job that
ends early is not submitted again, and the work goes on with the other jobs. Where jobs may meet
their walltime, `worker_extra_args = ["--lifetime", "110m", "--lifetime-stagger", "5m"]` of
dask-jobqueue has workers pass on what they hold before.

`security = true` makes temporary certificates, which jobs read from shared_temp_directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.starting.deploy import batch_options, job_queues, start

DASK_JOBQUEUE = job_queues("slurm")


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Start the scheduler in this process and submit the jobs, whose script is `job_script()`."""
    return start(DASK_JOBQUEUE.SLURMCluster, batch_options(options, "slurm"))
