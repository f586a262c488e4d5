"""Worker processes on this machine, reachable from it alone.

Use: dranking select DATA ... --scheduler cluster/local.py
"""

from dranking.engine.cluster import local_cluster as make_cluster

__all__ = ["make_cluster"]
