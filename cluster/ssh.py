"""Processes on hosts that SSH reaches without a password. Needs the extra `ssh`.

    dranking select DATA ... --scheduler cluster/ssh.py \
        --cluster 'hosts=["head", "node1", "node2"]' --cluster workers_per_host=16 \
        --cluster memory_limit=8GB

The first host runs the scheduler, the other hosts run the workers. Name the first host again to
have workers there too. Options: hosts; workers_per_host (1); threads_per_worker (1); memory_limit
of each worker; interface, such as "eth0", the only one on which the processes listen;
remote_python, the interpreter on the hosts; connect_options, scheduler_options and worker_options,
as in `distributed.SSHCluster`. Host keys are checked against known_hosts.

With TLS files (tls_ca_file, tls_cert, tls_key), all connections are encrypted. The files must be at
the same path on every host. The processes get the Dask configuration of this process on their
command lines: keep passwords out of that configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.starting.deploy import LOOPBACK, optional, start
from dranking.engine.cluster.tls import tls_settings
from dranking.errors import UsageError

CONNECT_SECONDS = 30


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Start the scheduler and the workers."""
    optional("asyncssh", "ssh")
    from distributed import SSHCluster

    security = options.get("security")
    return start(SSHCluster, ssh_options(options), tls_settings(security))


def ssh_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `distributed.SSHCluster`."""
    given = dict(options)
    hosts = given.pop("hosts", None)
    names = isinstance(hosts, list) and all(isinstance(host, str) for host in hosts)
    if not names or len(hosts) < 2:
        raise UsageError(
            f"hosts is {hosts!r}; name at least two, the host of the scheduler and then the hosts "
            'of workers (which may be the same), such as ["head", "node1", "node2"].'
        )
    worker = {
        "n_workers": given.pop("workers_per_host", 1),
        "nthreads": given.pop("threads_per_worker", 1),
        "memory_limit": given.pop("memory_limit", "auto"),
        "dashboard": False,
        "dashboard_address": f"{LOOPBACK}:0",  # where it serves metrics
    }
    scheduler: dict[str, Any] = {"dashboard_address": f"{LOOPBACK}:0"}
    if given.get("security") is not None:
        worker["protocol"] = scheduler["protocol"] = "tls://"
    if "interface" in given:
        worker["interface"] = scheduler["interface"] = given.pop("interface")
    connect = given.pop("connect_options", {})
    if isinstance(connect, Mapping):
        connect = {"connect_timeout": CONNECT_SECONDS, "login_timeout": CONNECT_SECONDS, **connect}
    return {
        "hosts": hosts,
        "connect_options": connect,
        "worker_options": {**worker, **given.pop("worker_options", {})},
        "scheduler_options": {**scheduler, **given.pop("scheduler_options", {})},
        **given,
    }
