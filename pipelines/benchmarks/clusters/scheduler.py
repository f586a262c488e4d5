"""What Dask's scheduler takes for a task and for a message, on hundreds of real workers.

The tasks do nothing. Steps have the form of an update of a selection: a task for every tile, a task
that sums the tile, tasks that join 16 sums each, and a wait. Processor time hardly depends on what
else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.executor import Task
from dranking.engine.tree_sum import combine_by_tasks, combining_tasks
from pipelines.benchmarks.clusters.coroutines import coroutine_workers
from pipelines.benchmarks.harness import Figure, Sample, figure

WORKERS, QUICK_WORKERS = (200, 1000), (20,)
TILES, QUICK_TILES = (100, 1_000, 10_000), (10, 100)
MOST_TASKS = 4_000
"""About so many tasks are measured for each number of tiles."""

IDLE_SECONDS = 20
"""Time over which an idle scheduler is watched: some heartbeats of every worker."""

UPDATE = 6_500
"""Numbers that an update sends to every tile: 1,000 features and three picks, 52 kB."""


class Cost(NamedTuple):
    """What some steps took, for each task.

    Attributes
    ----------
    scheduler, driver
        Seconds of the processor that the scheduler, and this process, used.
    seconds
        Seconds by the clock.
    messages
        Messages between the scheduler and workers or clients.
    """

    scheduler: float
    driver: float
    seconds: float
    messages: float


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """Costs for each number of workers and of tiles."""
    items = []
    for n_workers in QUICK_WORKERS if quick else WORKERS:
        with coroutine_workers(n_workers) as client:
            executor = DaskExecutor(client)
            idle = idle_share(client, 1 if quick else IDLE_SECONDS)
            items.append(
                figure(f"share of a core of an idle scheduler, {n_workers:,} workers", idle, "")
            )
            for n_tiles in QUICK_TILES if quick else TILES:
                items += costs_at(executor, n_workers, n_tiles, rounds, idle)
            items += updates(executor, n_workers, rounds)
    return {item.name: item for item in items}


def costs_at(
    executor: DaskExecutor, n_workers: int, n_tiles: int, rounds: int, idle: float
) -> list[Figure]:
    """Costs of a task and of a message.

    Heartbeats of the workers in the same time are included, except in one figure, from which the
    share of a core that an idle scheduler uses is taken off.
    """
    n_steps = max(1, MOST_TASKS // (rounds * 2 * n_tiles))
    states = [executor.submit(int, tile, name="state") for tile in range(n_tiles)]
    executor.gather(states)
    found = [steps(executor, states, n_steps) for _ in range(rounds)]
    where = f"{n_workers:,} workers, {n_tiles:,} tiles"

    def sample(value: Callable[[Cost], float]) -> Sample:
        return Sample(tuple(value(cost) for cost in found))

    return [
        figure(f"scheduler's time a task, {where}", sample(lambda c: 1e6 * c.scheduler), "us"),
        figure(f"scheduler's time a task without heartbeats, {where}",
               sample(lambda c: 1e6 * (c.scheduler - idle * c.seconds)), "us"),
        figure(f"driver's time a task, {where}", sample(lambda c: 1e6 * c.driver), "us"),
        figure(f"messages a task, {where}", sample(lambda c: c.messages), ""),
        figure(f"scheduler's time a message, {where}",
               sample(lambda c: 1e6 * c.scheduler / c.messages), "us"),
        figure(f"tasks a second that the scheduler can do, {where}",
               sample(lambda c: 1 / c.scheduler), "1/s"),
        figure(f"tasks a second by the clock, {where}", sample(lambda c: 1 / c.seconds), "1/s"),
    ]  # fmt: skip


def steps(executor: DaskExecutor, states: Sequence[Task], n_steps: int) -> Cost:
    """The cost of some steps that begin with the states of all tiles."""
    before, n_tasks = _used(executor), 0
    for _ in range(n_steps):
        states = one_step(executor, states)
        n_tasks += 2 * len(states) + sum(combining_tasks(len(states), 1))
    return Cost(*((_used(executor) - before) / n_tasks).tolist())


def one_step(executor: DaskExecutor, states: Sequence[Task], *values: Any) -> list[Task]:
    """Update the states of all tiles, sum them, and wait for the sum; the new states."""
    states = [executor.submit(update, state, *values, name="update") for state in states]
    parts = [executor.submit(int, state, name="sum") for state in states]
    executor.gather(combine_by_tasks(executor, total, parts, 1, "sum"))
    return states


def update(state: int, *values: Any) -> int:
    """The state itself."""
    return state


def total(*values: int) -> int:
    """The sum of the values."""
    return sum(values)


def updates(executor: DaskExecutor, n_workers: int, rounds: int) -> list[Figure]:
    """Seconds of a step that sends 52 kB to a tile for each worker, and to each worker once."""
    value = np.arange(float(UPDATE))
    found: dict[str, list[float]] = {"no update": [], "with every task": [], "as a task": []}
    for _ in range(rounds):
        states = [executor.submit(int, tile, name="state") for tile in range(n_workers)]
        executor.gather(states)
        for way, seconds in found.items():
            start = time.perf_counter()
            values: list[Any] = [] if way == "no update" else [value + len(seconds)]
            if way == "as a task":
                values = [executor.submit(np.asarray, values[0], name="given")]
            states = one_step(executor, states, *values)
            seconds.append(time.perf_counter() - start)
    return [
        figure(f"step with an update of 52 kB, {way}, {n_workers:,} workers", Sample(tuple(s)), "s")
        for way, s in found.items()
    ]


def idle_share(client: Any, seconds: float) -> float:
    """Share of a core that the scheduler uses while nothing runs: heartbeats of the workers."""
    before, start = _scheduler_seconds(client), time.perf_counter()
    time.sleep(seconds)
    used = _scheduler_seconds(client) - before
    return used / (time.perf_counter() - start)


def _used(executor: DaskExecutor) -> NDArray[np.float64]:
    """Processor time of scheduler and driver, the clock, and messages so far."""
    client = executor.client
    messages = client.run_on_scheduler(_sent) + sum(client.run(_answered).values())
    return np.array(
        [_scheduler_seconds(client), time.process_time(), time.perf_counter(), messages]
    )


def _scheduler_seconds(client: Any) -> float:
    return float(client.run_on_scheduler(time.process_time))


def _sent(dask_scheduler: Any) -> int:
    """Messages that the scheduler sent to workers and clients."""
    streams = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    return sum(stream.message_count for stream in streams)


def _answered(dask_worker: Any) -> int:
    """Messages that a worker sent to the scheduler."""
    return int(dask_worker.batched_stream.message_count)
