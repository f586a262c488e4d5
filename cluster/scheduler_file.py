"""A cluster that tells its address in a file, as `dask scheduler --scheduler-file` and dask-mpi do.

    dranking select DATA ... --scheduler cluster/scheduler_file.py \
        --cluster path=/shared/scheduler.json --cluster timeout=10m

Option: path, a .json file on storage that this machine shares with the scheduler. It is waited for
until it is there and filled, for `timeout` at most (30 s). `--scheduler /shared/scheduler.json` is
the same in short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.deploy import check_options
from dranking.errors import UsageError


def make_cluster(options: Mapping[str, Any]) -> str:
    """The path of the file."""
    check_options(options, ["path"], "a file")
    path = options.get("path")
    if not isinstance(path, str) or not path.endswith(".json"):
        raise UsageError(f"path is {path!r}; give the scheduler file, such as /shared/dask.json.")
    return path
