"""What one core of this machine does, and how long Dask takes: the `Rates` of the cost model.

Processor time, which other work on the machine leaves alone, but for the answer of a step: that is
mostly waiting.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, Task, ThreadExecutor
from dranking.engine.tree_sum import FAN_IN
from pipelines.benchmarks.clusters.runs import executor_of, made, select, worker_processes
from pipelines.benchmarks.harness import Figure, Sample, figure, processor_seconds
from pipelines.forecast import Rates, n_state_rows

DOCUMENTS, QUICK_DOCUMENTS, N_FEATURES = 200_000, 5_000, 136
K = 40
TILES, STEPS = 64, 20

UNITS = {
    "read": "B/s",
    "products": "1/s",
    "memory": "B/s",
    "task_seconds": "s",
    "step_seconds": "s",
}


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """Each of the rates."""
    found = measured(QUICK_DOCUMENTS if quick else DOCUMENTS, rounds)
    items = [figure(f"rate, {name}", found[name], unit) for name, unit in UNITS.items()]
    return {item.name: item for item in items}


def rates(n_documents: int = DOCUMENTS, rounds: int = 3) -> Rates:
    """Medians, as the cost model takes them."""
    found = measured(n_documents, rounds)
    return Rates(**{name: sample.median for name, sample in found.items()})


def measured(n_documents: int, rounds: int) -> dict[str, Sample]:
    """Each rate some times."""
    with made([(n_documents, N_FEATURES)]) as [data]:
        work_rates(data)  # everything is compiled then
        work = [work_rates(data) for _ in range(rounds)]
    with worker_processes(1) as client:
        executor = executor_of(client)
        dask_seconds(executor)
        dask = [dask_seconds(executor) for _ in range(rounds)]
    found = [one | other for one, other in zip(work, dask, strict=True)]
    return {name: Sample(tuple(each[name] for each in found)) for name in UNITS}


class Timed(ThreadExecutor):
    """One thread that works as a worker process does, its processor time by the name of tasks.

    Attributes
    ----------
    seconds
        So far.
    """

    in_process = False

    def __init__(self) -> None:
        super().__init__(1)
        self.seconds: Counter[str] = Counter()

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Task:
        """Start a task."""

        def timed(*values: Any) -> Any:
            start = processor_seconds()
            result = function(*values)
            self.seconds[name] += processor_seconds() - start
            return result

        return super().submit(timed, *args, name=name, slot=slot)


def work_rates(data: Dataset) -> dict[str, float]:
    """What a selection of K features does a second: bytes read, products, bytes of memory moved."""
    worker = Timed()
    selection = select(K, data, worker)
    worker.close()
    m, n, row_bytes = data.n_documents, data.n_features, 8 * data.n_queries * data.n_features
    sums = selection.traffic["sum-gram-rows"]
    n_tiles = sums.n_messages // sums.n_operations
    n_rows = 1 + sums.n_bytes // (8 * n * n_tiles)  # the moments are as much work as a row
    products = worker.seconds["moments"] + worker.seconds["gram-rows"]
    return {
        "read": 4 * m * n / worker.seconds["load"],
        "products": n_rows * m * n / products,
        "memory": n_state_rows(K) * row_bytes / worker.seconds["update"],
    }


def dask_seconds(executor: Executor) -> dict[str, float]:
    """Of the driver and the scheduler for a task, and until the answer of a step is there.

    Both are in this process. Steps are as those of a selection: a task for every tile, and sums.
    """
    states = [executor.submit(int, tile, name="state") for tile in range(TILES)]
    executor.gather(states)
    used, n_tasks = processor_seconds(), 0
    for _ in range(STEPS):
        states = [executor.submit(int, state, name="update") for state in states]
        parts = [executor.submit(int, state, name="score") for state in states]
        groups = [parts[i : i + FAN_IN] for i in range(0, TILES, FAN_IN)]
        sums = [executor.submit(total, *group, name="sum") for group in groups]
        executor.gather([executor.submit(total, *sums, name="sum")])
        n_tasks += len(states) + len(parts) + len(sums) + 1
    used = processor_seconds() - used
    start = time.perf_counter()
    for step in range(STEPS):
        executor.gather([executor.submit(int, step, name="step")])
    waited = time.perf_counter() - start
    return {"task_seconds": used / n_tasks, "step_seconds": waited / STEPS}


def total(*values: int) -> int:
    """A sum."""
    return sum(values)
