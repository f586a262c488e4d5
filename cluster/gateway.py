"""A cluster of a Dask Gateway, which somebody runs for you. Needs the extra `gateway`.

    dranking select DATA ... --scheduler cluster/gateway.py --cluster n_workers=64 \
        --cluster address=https://gateway.example.org --cluster auth=jupyterhub \
        --cluster timeout=10m

Options: address, proxy_address and auth of the gateway, if Dask's configuration
(`~/.config/dask/gateway.yaml`, the place for passwords too) does not have them; n_workers; name of
a cluster that is running, to use it and leave it running; and the options that your gateway offers,
such as image or worker_memory. The gateway brings its own TLS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.deploy import optional, refuse_security
from dranking.errors import UsageError

OF_GATEWAY = ("address", "proxy_address", "auth")


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Ask the gateway for a cluster and its workers, or find one that is there."""
    refuse_security(options, "a Dask Gateway brings its own certificates; leave these out.")
    gateway = optional("dask_gateway", "gateway")
    given = dict(options)
    place = {name: given.pop(name) for name in OF_GATEWAY if name in given}
    name, n_workers = given.pop("name", None), given.pop("n_workers", None)
    if name is not None:
        if given:
            raise UsageError(f"{', '.join(sorted(given))}: the cluster {name} is there already.")
        cluster = gateway.GatewayCluster.from_name(name, **place)
    else:
        cluster = gateway.GatewayCluster(**place, **given)
    if n_workers is not None:
        cluster.scale(n_workers)
    return cluster
