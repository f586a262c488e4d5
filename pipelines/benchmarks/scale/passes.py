"""Passes over X, for one lambda and for eleven in lockstep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.rankrls.gram.moments import QueryMoments
from dranking.rankrls.gram.rows import GramRows
from dranking.rankrls.greedy.path import Selection, SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from pipelines.benchmarks.greedy import Size, make_arrays
from pipelines.benchmarks.harness import Figure, Sample, figure, skipped

K = 40
GRID = tuple(2.0**e for e in range(11))
SIZE = Size(200_000, 136, 50, {}, {})
QUICK = Size(2_000, 60, 50, {}, {})


def figures(quick: bool, rounds: int, *, data: Path) -> dict[str, Figure]:
    """Figures of made data, and of MQ2008 where it is there."""
    made = QUICK if quick else SIZE
    found = passes(f"{made}", make_arrays(made).dataset(), rounds)
    part = data / "letor" / "MQ2008" / "S1.txt"
    if part.exists():
        found += passes("MQ2008", dr.open_dataset(part), rounds)
    else:
        name, why = f"passes over k, MQ2008, k = {K}", f"it is not at {part}; see --data"
        found.append(skipped(name, "", why, target=1 / 3))
    return {item.name: item for item in found}


def passes(name: str, dataset: Dataset, rounds: int) -> list[Figure]:
    """Passes of one lambda and of eleven lambdas, and the parts of the wall time."""
    one, eleven = timed(dataset, [1.0], rounds), timed(dataset, GRID, rounds)
    at = f"{name}, k = {K}"
    per_pick = one["passes"].median / K
    read = eleven["passes"].median / one["passes"].median
    rows = [
        figure(f"passes over k, {at}", per_pick, "x", at_most=1 / 3),
        figure(f"bytes read by {len(GRID)} lambdas over one, {at}", read, "x", at_most=2.5),
        figure(f"time of {len(GRID)} lambdas over one, {at}", eleven["total"] / one["total"], "x"),
    ]
    for n_paths, times in ((1, one), (len(GRID), eleven)):
        where = f"{n_paths} lambda{'s' * (n_paths > 1)}, {at}"
        rows += [
            figure(f"passes, {where}", times["passes"], ""),
            figure(f"time of the passes, {where}", times["in passes"], "s"),
            figure(f"time of the updates, {where}", times["updates"], "s"),
        ]
    return rows


def timed(dataset: Dataset, grid: Sequence[float], rounds: int) -> dict[str, Sample]:
    """Passes of a selection, its seconds, and its seconds within and outside of passes."""
    rows = []
    select(dataset, grid)  # compiles all kernels
    for _ in range(rounds):
        clock = _PassClock()
        start = time.perf_counter()
        with clock.running():
            n_passes = select(dataset, grid).n_passes
        total = time.perf_counter() - start
        rows.append((n_passes, total, clock.seconds, total - clock.seconds))
    names = ("passes", "total", "in passes", "updates")
    return {
        name: Sample(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }


def select(dataset: Dataset, grid: Sequence[float]) -> Selection:
    """Selections for all lambdas in lockstep."""
    return select_paths(dataset, grid, SelectionRules(K))


class _PassClock:
    """Seconds spent in passes over X."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def running(self) -> mock._patch_dict | Any:
        """A context in which passes are timed."""
        clock = self

        class TimedMoments(QueryMoments):
            def __init__(self, *arguments: Any) -> None:
                start = time.perf_counter()
                super().__init__(*arguments)
                clock.seconds += time.perf_counter() - start

        class TimedRows(GramRows):
            def fetch(self, features: Sequence[int]) -> None:
                start = time.perf_counter()
                super().fetch(features)
                clock.seconds += time.perf_counter() - start

        return mock.patch.multiple(
            "dranking.rankrls.leave_query_out.dense", QueryMoments=TimedMoments, GramRows=TimedRows
        )
