"""Workers in jobs of a PBS cluster, by dask-jobqueue. Needs the extra `pbs`.

    dranking select DATA ... --scheduler cluster/pbs.py --cluster n_workers=64 \
        --cluster cores=16 --cluster memory=64GB --cluster walltime=02:00:00 \
        --cluster interface=ib0 --cluster timeout=30m

Options: n_workers over all jobs; cores and memory of a job; processes, the number of workers in a
job (default: cores, so that each worker has one thread); queue, account, walltime, resource_spec,
interface, and other arguments of `dask_jobqueue.PBSCluster`. Everything else is as in
`slurm.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.starting.deploy import batch_options, job_queues, start

DASK_JOBQUEUE = job_queues("pbs")


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Start the scheduler in this process and submit the jobs, whose script is `job_script()`."""
    return start(DASK_JOBQUEUE.PBSCluster, batch_options(options, "pbs"))
