"""Worker processes on this machine, which only this machine can reach.

    dranking select DATA ... --scheduler cluster/local.py --cluster n_workers=8 \
        --cluster memory_limit=4GB --cluster security=true

Options: n_workers, threads_per_worker (1), memory_limit of each worker, and other arguments of
`distributed.LocalCluster`. Other users of this machine can connect too, unless you set
`security = true` (which needs the extra `tls`).
"""

from dranking.engine.cluster.starting.deploy import local_cluster as make_cluster

__all__ = ["make_cluster"]
