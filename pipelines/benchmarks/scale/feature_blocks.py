"""Features split over the tiles of two worker processes: the same bits, and the bytes sent.

The bytes are counted twice: by the engine, as `dranking/rankrls/greedy/THEORY.md` counts them, and
by the workers, which also send bytes that have nothing to do with feature blocks. The data is made
block by block in the temporary folder.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dranking as dr
from dranking.cli.output import note
from dranking.data.dataset import Dataset
from dranking.engine.cluster.starting.deploy import local_cluster
from dranking.engine.tile_layout import tile_ranges
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from pipelines.benchmarks.harness import Figure, figure, resident, skipped
from pipelines.benchmarks.made import made_blocks

DOCUMENTS, N_FEATURES, QUERY_SIZE = 50_000, 20_000, 100
QUICK_DOCUMENTS, QUICK_FEATURES = 20_000, 400
SMALL = (1_000, 200)
K, PARTS, WORKERS = 5, 4, 2
MEMORY = 9 * 10**9
"""Memory limit of a selection over both workers, in bytes."""


@dataclass(frozen=True)
class Run:
    """A selection on worker processes.

    Attributes
    ----------
    selection
        The result, with the counts of the engine.
    seconds
        Wall time, without the start of the cluster.
    sent
        Bytes that the workers sent each other, by their own count.
    peak
        Peak memory of the larger worker, in bytes.
    """

    selection: Selection
    seconds: float
    sent: int
    peak: int


def figures(quick: bool) -> dict[str, Figure]:
    """Figures of several feature blocks against one, on the same data."""
    size = (QUICK_DOCUMENTS, QUICK_FEATURES) if quick else (DOCUMENTS, N_FEATURES)
    n_bytes = 4 * size[0] * size[1]
    at = f"{size[0]:,} x {size[1]:,}, k = {K}, {PARTS} feature blocks, {WORKERS} processes"
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 1.5 * n_bytes:
            why = f"{folder} has not the {1.5 * n_bytes / 1e9:.0f} GB that it takes; set TMPDIR"
            found = [skipped(f"same selection and errors in every bit, {at}", "", why, target=1.0)]
        else:
            data, small = (
                dr.write_dataset(made_blocks(*shape, QUERY_SIZE), Path(folder) / name)
                for name, shape in (("data", size), ("small", SMALL))
            )
            one, several = (run(data, small, parts) for parts in (1, PARTS))
            found = compared(data, one, several, at)
    return {item.name: item for item in found}


def run(data: Dataset, small: Dataset, parts: int) -> Run:
    """A selection on a fresh cluster, after a small selection that compiles all kernels."""
    from distributed import Client

    # A worker with a memory limit of its own would spill what the memory plan lets it keep.
    options = {"n_workers": WORKERS, "memory_limit": 0}
    with local_cluster(options) as cluster, Client(cluster, set_as_default=False) as client:
        select(small, parts, client)
        before, start = sent_so_far(client), time.perf_counter()
        selection = select(data, parts, client)
        seconds = time.perf_counter() - start
        note(f"{parts} feature blocks: {seconds:.1f} s")
        peak = max(client.run(resident, "VmHWM").values())
        return Run(selection, seconds, sent_so_far(client) - before, peak)


def select(data: Dataset, parts: int, executor: Any) -> Selection:
    """The selection for lambda = 1."""
    rules = SelectionRules(K, prefetch=1)  # one row a pass, so that the number of rows is known
    return select_paths(
        data, [1.0], rules, memory_limit=MEMORY, feature_blocks=parts, executor=executor
    )


def sent_so_far(client: Any) -> int:
    """Bytes that the workers have sent each other so far, by their own count."""

    def sent(dask_worker: Any) -> int:
        return int(dask_worker.transfer_outgoing_bytes_total)

    return sum(client.run(sent).values())


def compared(data: Dataset, one: Run, several: Run, at: str) -> list[Figure]:
    """Figures: the same bits, one broadcast a round, and the bytes that the theory counts."""
    [path], [whole] = several.selection.paths, one.selection.paths
    is_same = (path.selected, path.lqo_error) == (whole.selected, whole.lqo_error)
    is_same &= all((a == b).all() for a, b in zip(path.weights, whole.weights, strict=True))
    traffic, expected = several.selection.traffic, counted_by_design(data)
    found = {name: traffic[name].n_bytes for name in expected}
    travelling = [t.n_bytes for name, t in traffic.items() if name.startswith(("shared-", "sum-"))]
    rounds = traffic["shared-announce"].n_operations
    return [
        figure(f"same selection and errors in every bit, {at}", float(is_same), "", at_least=1),
        figure(f"broadcasts a round, {at}", rounds / K, "", at_most=1),
        *(
            figure(
                f"bytes of {name} over the theory's count, {at}", found[name] / n, "x", at_most=1
            )
            for name, n in expected.items()
        ),
        figure(f"bytes that tiles send, {at}", sum(travelling), "B"),
        figure(f"bytes that workers send, {at}", several.sent, "B", at_most=sum(travelling)),
        figure(f"time, {at}", several.seconds, "s"),
        figure(f"time over one feature block, {at}", several.seconds / one.seconds, "x"),
        figure(f"peak memory of a worker, {at}", several.peak, "B"),
        figure(f"peak memory of a worker with one feature block, {at}", one.peak, "B"),
    ]


def counted_by_design(data: Dataset) -> dict[str, int]:
    """Bytes by the count of `dranking/rankrls/greedy/THEORY.md`, where a pass fetches one row."""
    m, n, queries = data.n_documents, data.n_features, data.n_queries
    ranges = len(tile_ranges(data, WORKERS, PARTS))
    others = PARTS - 1
    broadcast = sum(n + PARTS * (3 * (t + 1) + 1) for t in range(K))
    return {
        # A stored column of X goes to the other feature blocks; the sum of its Gram rows comes
        # back.
        "shared-columns": 4 * m * K * others,
        "sum-gram-rows": 8 * n * K * ranges,
        # Every tile gets f, the place of f, A[f, S], A[f, f], lambda, and the tile's slice of A[f,
        # :].
        "update": 8 * ranges * broadcast,
        # The tile that holds f sends t + 4 numbers of every query.
        "shared-announce": 8 * queries * others * sum(t + 4 for t in range(K)),
        # The scores are an n-vector and the present error, also before the first round.
        "sum-scores": 8 * ranges * (n + PARTS) * (K + 1),
    }
