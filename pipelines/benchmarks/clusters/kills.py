"""Workers killed at random during a selection and a training: the same bits, and the added time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dranking as dr
from dranking.cli.output import note
from dranking.data.dataset import Dataset
from dranking.engine.executor import ThreadExecutor
from pipelines.benchmarks.clusters.runs import made
from pipelines.benchmarks.harness import Figure, figure
from tests.engine.chaos import Chaos, random_kills, started

KILLS, QUICK_KILLS = 20, 3
SIZE, QUICK_SIZE = (200_000, 136), (20_000, 20)
SEED = 0


def figures(quick: bool) -> dict[str, Figure]:
    """Greedy RankRLS, then LCRA."""
    n_kills, size = (QUICK_KILLS, QUICK_SIZE) if quick else (KILLS, SIZE)
    k, epochs = (6, 6) if quick else (20, 20)
    rankers: dict[str, Callable[[], Any]] = {
        "greedy": lambda: dr.GreedyRankRLS(k, 1.0),
        "lcra": lambda: dr.LCRA(1e-3, n_epochs=epochs, steps_per_epoch=20 * size[0] // epochs,
                                shards=4),
    }  # fmt: skip
    found: list[Figure] = []
    with made([size]) as [data]:
        for name, make in rankers.items():
            found += killed(name, make, data, n_kills)
    return {item.name: item for item in found}


def killed(name: str, make: Callable[[], Any], data: Dataset, n_kills: int) -> list[Figure]:
    """A run in peace, and one in which workers are killed at tasks drawn from all of its tasks."""
    expected = make().fit(data, executor=ThreadExecutor(2)).coef_
    with started(memory_limit=0) as (cluster, client):
        make().fit(data, executor=client)  # everything is compiled then
        peaceful = Chaos(client, {})
        calm, _ = timed(make, data, peaceful)
        rng = np.random.default_rng(SEED)
        points = 1 + rng.choice(peaceful.submitted[None], n_kills, replace=False)
        deeds, victims = random_kills(cluster, client, rng, points)
        seconds, coef = timed(make, data, Chaos(client, deeds))
    note(f"{name}: {calm:.1f} s in peace, {seconds:.1f} s with {len(victims)} kills")
    at = f"{name}, {data.n_documents:,} x {data.n_features}"
    same = float(np.array_equal(coef, expected))
    return [
        figure(f"workers killed, {at}", len(victims), "", at_least=n_kills),
        figure(f"same weights in every bit, {at}", same, "", at_least=1),
        figure(f"time in peace, {at}", calm, "s"),
        figure(f"time added by a kill, {at}", (seconds - calm) / n_kills, "s"),
    ]


def timed(make: Callable[[], Any], data: Dataset, executor: Any) -> tuple[float, Any]:
    """Seconds of a fit, and its weights."""
    start = time.perf_counter()
    coef = make().fit(data, executor=executor).coef_
    return time.perf_counter() - start, coef
