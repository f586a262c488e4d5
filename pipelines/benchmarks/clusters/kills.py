"""Workers killed at random during a selection and a training: bits of results, and added time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dranking as dr
from dranking.cli.output import note
from dranking.engine.executor import ThreadExecutor
from pipelines.benchmarks.clusters.faults import FaultInjector, random_kills, started
from pipelines.benchmarks.clusters.runs import made
from pipelines.benchmarks.harness import Figure, figure

KILLS, QUICK_KILLS = 20, 3
SIZE, QUICK_SIZE = (200_000, 136), (20_000, 20)
SEED = 0


def figures(quick: bool) -> dict[str, Figure]:
    """Figures of greedy RankRLS and of LCRA."""
    n_kills, size = (QUICK_KILLS, QUICK_SIZE) if quick else (KILLS, SIZE)
    k, epochs = (6, 6) if quick else (20, 20)
    training = {"n_epochs": epochs, "steps_per_epoch": 20 * size[0] // epochs, "n_shards": 4}
    found: list[Figure] = []
    with made([size]) as [data]:
        fits: dict[str, Callable[[Any], Any]] = {
            "greedy": lambda executor: dr.GreedyRankRLS(k, 1.0, passes=dr.Passes(prefetch=8)).fit(
                data, executor=executor
            ),
            # The views agree on the same documents, without their labels.
            "lcra": lambda executor: dr.LCRA(1e-3, sgd=training).fit(
                data, unlabelled=data, executor=executor
            ),
        }
        for name, fit in fits.items():
            found += killed(f"{name}, {data.n_documents:,} x {data.n_features}", fit, n_kills)
    return {item.name: item for item in found}


def killed(at: str, fit: Callable[[Any], Any], n_kills: int) -> list[Figure]:
    """Compare a run without kills and a run in which workers are killed at randomly drawn tasks."""
    expected = fit(ThreadExecutor(2)).coef_
    with started(memory_limit=0) as (cluster, client):
        fit(client)  # compiles everything
        peaceful = FaultInjector(client, {})
        calm, _ = timed(fit, peaceful)
        rng = np.random.default_rng(SEED)
        points = 1 + rng.choice(peaceful.submitted[None], n_kills, replace=False)
        faults, victims = random_kills(cluster, client, rng, points)
        seconds, coef = timed(fit, FaultInjector(client, faults))
    note(f"{at}: {calm:.1f} s in peace, {seconds:.1f} s with {len(victims)} kills")
    same = float(np.array_equal(coef, expected))
    return [
        figure(f"workers killed, {at}", len(victims), "", at_least=n_kills),
        figure(f"same weights in every bit, {at}", same, "", at_least=1),
        figure(f"time in peace, {at}", calm, "s"),
        figure(f"time added by a kill, {at}", (seconds - calm) / n_kills, "s"),
    ]


def timed(fit: Callable[[Any], Any], executor: Any) -> tuple[float, Any]:
    """Seconds of a fit, and the weights."""
    start = time.perf_counter()
    coef = fit(executor).coef_
    return time.perf_counter() - start, coef
