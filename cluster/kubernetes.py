"""A cluster of pods, which the Dask operator of Kubernetes makes. Needs the extra `kubernetes`.

    dranking select DATA ... --scheduler cluster/kubernetes.py --cluster n_workers=64 \
        --cluster image=registry.example.org/dranking:latest --cluster memory_limit=8Gi \
        --cluster timeout=10m

Options: image, a container image with dranking; n_workers; claims, the volumes that workers mount
to read the data, as {my-claim = "/data"}; name ("dranking"); namespace; threads_per_worker (1),
which is also the number of CPUs; memory_limit of each worker (4Gi); env, variables of all pods; and
other arguments of `dask_kubernetes.operator.KubeCluster`. If the command runs outside the
Kubernetes cluster, ports are forwarded.

KubeCluster has no TLS. On a network of pods that you do not trust, use `daskjob.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dask.utils import parse_bytes

from dranking.engine.cluster.starting.deploy import optional, refuse_security, settings_variables
from dranking.errors import UsageError

SCHEDULER_RESOURCES = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}}


def make_cluster(options: Mapping[str, Any]) -> Any:
    """Create the DaskCluster resource, and wait for its scheduler."""
    refuse_security(
        options,
        "cluster/kubernetes.py cannot use TLS, since KubeCluster cannot; use daskjob.yaml, or the "
        "address (tls://...) of a cluster with certificates.",
    )
    operator = optional("dask_kubernetes.operator", "kubernetes")
    spec, others = cluster_spec(options)
    return operator.KubeCluster(custom_cluster_spec=spec, **others)


def cluster_spec(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The DaskCluster resource, as for `kubectl apply`, and the options for KubeCluster itself."""
    operator = optional("dask_kubernetes.operator", "kubernetes")
    given = dict(options)
    image = given.pop("image", None)
    if not isinstance(image, str):
        raise UsageError(f"image is {image!r}; name a container image with dranking.")
    threads, memory = given.pop("threads_per_worker", 1), given.pop("memory_limit", "4Gi")
    worker = ["dask", "worker", "--nthreads", str(threads)]
    spec: dict[str, Any] = operator.make_cluster_spec(
        name=given.pop("name", "dranking"),
        image=image,
        n_workers=given.pop("n_workers", 1),
        env={**settings_variables(), **given.pop("env", {})},
        resources={
            "requests": {"cpu": str(threads), "memory": memory},
            "limits": {"memory": memory},
        },
        # By default, the limit would be a share of the node's memory, by threads over cores.
        worker_command=[*worker, "--memory-limit", str(parse_bytes(memory))],
        idle_timeout=given.pop("idle_timeout", 3600),
    )
    _mount(spec["spec"]["worker"]["spec"], given.pop("claims", {}))
    [scheduler] = spec["spec"]["scheduler"]["spec"]["containers"]
    scheduler["resources"] = SCHEDULER_RESOURCES
    return spec, given


def _mount(pod: dict[str, Any], claims: Mapping[str, str]) -> None:
    """Mount volumes into the containers of a pod; `claims` maps names of claims to paths."""
    pod["volumes"] = [
        {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    for container in pod["containers"]:
        container["volumeMounts"] = [
            {"name": f"claim-{number}", "mountPath": path}
            for number, path in enumerate(claims.values())
        ]
