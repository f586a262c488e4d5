"""Jobs of a PBS cluster, by dask-jobqueue. Needs the extra `pbs`.

    dranking select DATA ... --scheduler cluster/pbs.py --cluster n_workers=64 \
        --cluster cores=16 --cluster memory=64GB --cluster walltime=02:00:00 \
        --cluster interface=ib0 --cluster timeout=30m

Options: n_workers in all; cores and memory of a job, which runs a one-thread worker on each core
(processes, if fewer); queue, account, walltime, resource_spec, interface, and what else
`dask_jobqueue.PBSCluster` takes. For all else see `slurm.py`: only the commands differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.deploy import batch_options, job_queues, start

DASK_JOBQUEUE = job_queues("pbs")


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Start the scheduler here and submit the jobs; `job_script()` shows what is submitted."""
    return start(DASK_JOBQUEUE.PBSCluster, batch_options(options, "pbs"))
