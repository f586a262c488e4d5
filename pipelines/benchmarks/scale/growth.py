"""Time for each document and feature as the data grows, and data larger than the memory limit.

The data is made block by block in the temporary folder, and every pass reads it from there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.memory_plan import MemoryPlan, plan_memory
from pipelines.benchmarks.harness import Figure, figure, interleaved, peak_memory, skipped
from pipelines.benchmarks.made import made_blocks
from pipelines.benchmarks.scale.speed import size_of

K, N_FEATURES, QUERY_SIZE = 10, 136, 100
DOCUMENTS = (100_000, 1_000_000, 10_000_000)
QUICK_DOCUMENTS = (2_000, 4_000)
MEMORY = 4 * 10**9
"""Memory limit of a selection in bytes, smaller than the largest data."""

BEYOND_MEMORY = 4_000_000
"""Documents of the data that is so many times what a selection may take:"""
BUDGETS = 4


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """Figures of growing data, then of data larger than the memory limit."""
    documents = QUICK_DOCUMENTS if quick else DOCUMENTS
    n_bytes = 4 * N_FEATURES * sum(documents)
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 1.5 * n_bytes:
            why = f"{folder} has not the {1.5 * n_bytes / 1e9:.0f} GB that it takes; set TMPDIR"
            found = [skipped(ratio_of(documents), "x", why, target=1.3)]
        else:
            found = growth(Path(folder), documents, rounds)
        found += beyond_memory(Path(folder), quick)
    return {item.name: item for item in found}


def growth(folder: Path, documents: Sequence[int], rounds: int) -> list[Figure]:
    """Nanoseconds for each document and feature, and the largest data's over the smallest's."""
    data = {m: made(folder, m) for m in documents}
    passes: dict[int, int] = {}

    def run(n_documents: int) -> None:
        passes[n_documents] = select_streaming(data[n_documents]).n_passes

    run(documents[0])  # compiles all kernels
    calls = {str(m): partial(run, m) for m in documents}
    times = interleaved(calls, rounds, warm_up=False)
    cost = {m: times[str(m)] / (1e-9 * m * N_FEATURES) for m in documents}
    ratio = cost[documents[-1]] / cost[documents[0]]
    rows = [figure(ratio_of(documents), ratio, "x", at_most=1.3)]
    for m in documents:
        at = f"{m:,} x {N_FEATURES} from storage, k = {K}"
        rows += [
            figure(f"time, {at}", times[str(m)], "s"),
            figure(f"time per document and feature, {at}", cost[m], "ns"),
            figure(f"passes over X, {at}", passes[m], ""),
        ]
    return rows


def ratio_of(documents: Sequence[int]) -> str:
    """Name of the figure that compares the largest with the smallest data."""
    least, most = documents[0], documents[-1]
    return f"time per document and feature, {most:,} over {least:,} documents, k = {K}"


def made(folder: Path, n_documents: int) -> Dataset:
    """A dataset directory."""
    blocks = made_blocks(n_documents, N_FEATURES, QUERY_SIZE)
    return dr.write_dataset(blocks, folder / str(n_documents))


def select_streaming(dataset: Dataset) -> Selection:
    """A selection that reads storage in every pass, even where the data would fit into memory."""
    with mock.patch("dranking.rankrls.greedy.selection.plan_memory", streaming_plan):
        return select_paths(dataset, [1.0], SelectionRules(K), memory_limit=MEMORY)


def streaming_plan(*arguments: Any, **options: Any) -> MemoryPlan:
    """The memory plan with X left in storage."""
    return plan_memory(*arguments, **options)._replace(resident=False)


def beyond_memory(folder: Path, quick: bool) -> list[Figure]:
    """Peak memory of a selection whose memory limit is a part of the size of the data."""
    at = f"data {BUDGETS} x the budget, {BEYOND_MEMORY:,} x {N_FEATURES}, k = {K}"
    name = f"peak memory over the budget, {at}"
    if quick:
        return [skipped(name, "x", "the data takes gigabytes; full runs only", target=1.0)]
    data = made(folder / "beyond", BEYOND_MEMORY)
    budget = size_of(data) // BUDGETS
    small = made(folder / "beyond", 2_000)
    peak = peak_memory(partial(warmed_up, small, data), partial(select_within, budget))
    return [figure(name, peak / budget, "x", at_most=1.0)]


def warmed_up(small: Dataset, data: Dataset) -> Dataset:
    """Compile all kernels on the small data, and return the other data."""
    select_within(MEMORY, small)
    return data


def select_within(memory_limit: int, dataset: Dataset) -> Selection:
    """A selection within a memory limit in bytes."""
    return select_paths(dataset, [1.0], SelectionRules(K), memory_limit=memory_limit)
