"""Worker processes on this machine, reachable from it alone.

    dranking select DATA ... --scheduler cluster/local.py --cluster n_workers=8 \
        --cluster memory_limit=4GB --cluster security=true

Options: n_workers, threads_per_worker (1), memory_limit of each worker, and what else
`distributed.LocalCluster` takes. Other users of this machine are on the loopback interface too:
`security = true` keeps them out (it needs the extra `tls`).
"""

from dranking.engine.cluster.deploy import local_cluster as make_cluster

__all__ = ["make_cluster"]
