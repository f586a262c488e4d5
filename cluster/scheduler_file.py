"""A running cluster that wrote its address to a file: `dask scheduler --scheduler-file`, dask-mpi.

    dranking select DATA ... --scheduler cluster/scheduler_file.py \
        --cluster path=/shared/scheduler.json --cluster timeout=10m

Option: path, a .json file on storage that this machine shares with the scheduler. The command waits
for the file and its content until `timeout` (30 s). `--scheduler /shared/scheduler.json` is short
for this file with that path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.starting.deploy import check_options
from dranking.errors import UsageError


def make_cluster(options: Mapping[str, Any]) -> str:
    """The path of the scheduler file."""
    check_options(options, ["path"], "a file")
    path = options.get("path")
    if not isinstance(path, str) or not path.endswith(".json"):
        raise UsageError(f"path is {path!r}; give the scheduler file, such as /shared/dask.json.")
    return path
