"""A cluster of a Dask Gateway. Needs the extra `gateway`.

    dranking select DATA ... --scheduler cluster/gateway.py --cluster n_workers=64 \
        --cluster address=https://gateway.example.org --cluster auth=jupyterhub \
        --cluster timeout=10m

Options: address, proxy_address and auth of the gateway, unless they are in Dask's configuration
(`~/.config/dask/gateway.yaml`, which is also the place for passwords); n_workers, or minimum and
maximum for a cluster that starts and stops workers as there is work; name of a running cluster,
which is used and left running; and the options that your gateway offers, such as image or
worker_memory. The gateway has its own TLS certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.starting.deploy import optional, refuse_security
from dranking.errors import UsageError

GATEWAY_OPTIONS = ("address", "proxy_address", "auth")


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Start a cluster of the gateway, or find a running one by its name."""
    refuse_security(options, "a Dask Gateway has its own certificates; leave these options out.")
    gateway = optional("dask_gateway", "gateway")
    given = dict(options)
    place = {name: given.pop(name) for name in GATEWAY_OPTIONS if name in given}
    limits = {limit: given.pop(limit) for limit in ("minimum", "maximum") if limit in given}
    name, n_workers = given.pop("name", None), given.pop("n_workers", None)
    if limits and n_workers is not None:
        raise UsageError("give n_workers, or minimum and maximum, and not both.")
    if name is not None:
        if given:
            raise UsageError(f"{', '.join(sorted(given))}: the cluster {name} is already running.")
        cluster = gateway.GatewayCluster.from_name(name, **place)
    else:
        cluster = gateway.GatewayCluster(**place, **given)
    if n_workers is not None:
        cluster.scale(n_workers)
    elif limits:
        cluster.adapt(**limits)
    return cluster
