"""Peak memory of a selection from memory, and the time that a memory limit costs."""

from __future__ import annotations

from functools import partial

from dranking.data.dataset import Dataset
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from pipelines.benchmarks import greedy
from pipelines.benchmarks.greedy import Size, load_dataset, make_arrays
from pipelines.benchmarks.harness import Figure, figure, interleaved, peak_memory

SIZE, K = Size(200_000, 136, 50, {}, {46: 3.2}), 46
QUICK, QUICK_K = Size(4_000, 60, 50, {}, {8: 3.2}), 8
SHARE = 1.5
"""Memory limit as a multiple of the float32 size of X; below it, rows are fetched again."""


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """Peak memory with and without a limit, and the time that the limit costs."""
    size, k = (QUICK, QUICK_K) if quick else (SIZE, K)
    arrays = make_arrays(size)
    found = greedy.memory(size, arrays.X.nbytes, k)
    found += limited(size, k, arrays.X.nbytes, rounds)
    return {item.name: item for item in found}


def limited(size: Size, k: int, x_bytes: int, rounds: int) -> list[Figure]:
    """Figures of a selection that keeps no Gram rows and computes the rows anew in every round."""
    limit = int(SHARE * x_bytes)
    dataset = make_arrays(size).dataset()
    kept: list[Selection] = []
    fresh: list[Selection] = []
    times = interleaved(
        {
            "kept": lambda: kept.append(select(k, None, dataset)),
            "fresh": lambda: fresh.append(select(k, limit, dataset)),
        },
        rounds,
    )
    peak = peak_memory(partial(load_dataset, size), partial(select, k, limit))
    (one,), (other,) = kept[-1].paths, fresh[-1].paths
    is_same = one.selected == other.selected and one.lqo_error == other.lqo_error
    at = f"{size}, k = {k}, limit {SHARE:g} X"
    return [
        figure(f"peak memory over X, {at}", peak / x_bytes, "x", at_most=SHARE),
        figure(f"same selection and errors in every bit, {at}", float(is_same), "", at_least=1),
        figure(f"times slower, {at}", times["fresh"] / times["kept"], "x"),
        figure(f"passes over X, {at}", fresh[-1].n_passes, ""),
    ]


def select(k: int, limit: int | None, dataset: Dataset) -> Selection:
    """The selection for lambda = 1."""
    return select_paths(dataset, [1.0], SelectionRules(k), memory_limit=limit)
