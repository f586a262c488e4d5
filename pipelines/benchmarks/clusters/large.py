"""A selection on data larger than the memory of all workers, within the limit of each worker."""

from __future__ import annotations

import time

from dranking.cli.output import note
from pipelines.benchmarks.clusters.runs import WORKERS, made, select, worker_processes
from pipelines.benchmarks.harness import Figure, figure, resident, skipped

K, N_FEATURES, QUERY_SIZE = 20, 136, 100
DOCUMENTS = 10_000_000
LIMIT = 2 * 10**9
"""Memory limit of a worker in bytes; its nanny kills a worker that takes more."""


def figures(quick: bool, n_documents: int = DOCUMENTS) -> dict[str, Figure]:
    """The larger peak memory of a worker, and the time of the selection."""
    at = f"{n_documents:,} x {N_FEATURES}, k = {K}, {WORKERS} workers of {LIMIT / 1e9:g} GB"
    name = f"peak memory of a worker, {at}"
    if quick:
        found = [skipped(name, "B", "it writes gigabytes; full runs only", target=LIMIT)]
        return {item.name: item for item in found}
    try:
        with (
            made([(n_documents, N_FEATURES)], QUERY_SIZE) as [data],
            worker_processes(WORKERS, LIMIT) as client,
        ):
            pids = set(client.run(process_id).values())
            start = time.perf_counter()
            selection = select(K, data, client)
            seconds = time.perf_counter() - start
            note(f"{selection.n_passes} passes, {selection.bytes_read / 1e9:.0f} GB read")
            peak = max(client.run(resident, "VmHWM").values())
            unharmed = float(set(client.run(process_id).values()) == pids)
    except OSError as error:
        found = [skipped(name, "B", str(error), target=LIMIT)]
        return {item.name: item for item in found}
    found = [
        figure(name, peak, "B", at_most=LIMIT),
        figure(f"no worker was killed, {at}", unharmed, "", at_least=1),
        figure(f"time, {at}", seconds, "s"),
        figure(f"passes over X, {at}", selection.n_passes, ""),
    ]
    return {item.name: item for item in found}


def process_id() -> int:
    """Process id of the worker that runs this function."""
    import os

    return os.getpid()
