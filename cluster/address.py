"""A running cluster, at an address.

    dranking select DATA ... --scheduler cluster/address.py --cluster address=tls://head:8786 \
        --cluster tls_ca_file=ca.pem --cluster tls_cert=me.pem --cluster tls_key=me.key

Option: address. The default is the address in Dask's configuration: `scheduler-address`, or the
variable DASK_SCHEDULER_ADDRESS, which the Kubernetes operator sets in the pods of a DaskJob.
`--scheduler tls://head:8786` is short for this file with that address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask

from dranking.engine.cluster.starting.deploy import check_options
from dranking.errors import UsageError


def make_cluster(options: Mapping[str, Any]) -> str:
    """The address of the scheduler."""
    check_options(options, ["address"], "an address")
    address = options.get("address") or dask.config.get("scheduler-address", None)
    if not isinstance(address, str) or "://" not in address:
        raise UsageError(
            f"the address of the scheduler is {address!r}; give address, such as tcp://host:8786, "
            "or set DASK_SCHEDULER_ADDRESS."
        )
    return address
